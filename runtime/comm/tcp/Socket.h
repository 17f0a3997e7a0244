//===- Socket.h - A TCP connection that never blocks for ever ---*- C++ -*-===//
#ifndef CIUIC_RUNTIME_COMM_TCP_SOCKET_H
#define CIUIC_RUNTIME_COMM_TCP_SOCKET_H

#include "runtime/base/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace ciuic::rt::tcp {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

Deadline after(double seconds);

/// Milliseconds left, for poll(); at most a second, so that callers look at
/// the clock. 0: it is over.
int millisecondsTo(Deadline deadline);

/// An IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  uint16_t port() const;
  void setPort(uint16_t port);
  bool isLoopback() const;
  std::string str() const; ///< "10.0.0.2:29500"
};

/// An open socket, closed with its owner; non-blocking.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();

  bool isOpen() const { return descriptor >= 0; }
  int fd() const { return descriptor; }

  Result<Address> localAddress() const;
  Result<Address> peerAddress() const;

  /// All bytes, before the deadline. `what` names the other side.
  Status send(std::span<const std::byte> bytes, Deadline deadline,
              const std::string &what) const;
  Status receive(std::span<std::byte> bytes, Deadline deadline,
                 const std::string &what) const;

  /// Small messages go at once, and a machine that vanished is noticed within
  /// about a minute. So is one that lets its buffers stay full for so long:
  /// more than they hold is only sent to who reads.
  void tune() const;

private:
  int descriptor = -1;
};

/// The addresses of a host, at least one.
Result<std::vector<Address>> resolve(const std::string &host, uint16_t port);

/// Whether `host` names a machine and is no "localhost", nor an address in
/// digits.
bool isMachineName(const std::string &host);

/// Listens at `address`; port 0: any that is free. Code::Machine says whether
/// the port is in use.
Result<Socket> listenAt(const Address &address);

/// Code::Machine when it is refused or takes longer than the deadline.
Result<Socket> connectTo(const Address &address, Deadline deadline);

/// The next connection; one that is not open when there is none.
Socket acceptFrom(const Socket &listener);

} // namespace ciuic::rt::tcp

#endif // CIUIC_RUNTIME_COMM_TCP_SOCKET_H
