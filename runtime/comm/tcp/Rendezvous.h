//===- Rendezvous.h - How processes find each other -------------*- C++ -*-===//
//
// Process 0 listens at MASTER_ADDR:MASTER_PORT. Every other process opens a
// port of its own, connects to process 0 and says who it is; when all have
// come, process 0 sends each the list of ports, and each connects to those
// with lower numbers. What connects and does not speak this protocol is
// dropped; a process that does, and contradicts the others, ends all of them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define CIUIC_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/comm/tcp/Socket.h"

namespace ciuic::rt::tcp {

struct Place {
  uint32_t process = 0;
  uint32_t processes = 1;
  std::string host; ///< Of process 0.
  uint16_t port = 0;
};

/// A connection to every other process; the own entry is not open.
Result<std::vector<Socket>> meet(const Place &place, double joinTimeout);

} // namespace ciuic::rt::tcp

#endif // CIUIC_RUNTIME_COMM_TCP_RENDEZVOUS_H
