//===- TcpGroup.h - Processes that talk by TCP ------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_COMM_TCP_TCPGROUP_H
#define CIUIC_RUNTIME_COMM_TCP_TCPGROUP_H

#include "runtime/comm/ProcessGroup.h"
#include "runtime/comm/tcp/Rendezvous.h"

namespace ciuic::rt::tcp {

/// A group over a connection between each two processes.
Result<std::unique_ptr<ProcessGroup>> joinByTcp(const Place &place,
                                                const JoinOptions &options);

} // namespace ciuic::rt::tcp

#endif // CIUIC_RUNTIME_COMM_TCP_TCPGROUP_H
