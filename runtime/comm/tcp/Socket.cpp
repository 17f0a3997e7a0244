//===- Socket.cpp - A TCP connection that never blocks for ever -----------===//
#include "runtime/comm/tcp/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>
#include <vector>

namespace ciuic::rt::tcp {

Deadline after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

int millisecondsTo(Deadline deadline) {
  auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(
      std::clamp<int64_t>(static_cast<int64_t>(left.count()), 0, 1000));
}

uint16_t Address::port() const {
  if (storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6 &>(storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in &>(storage).sin_port);
}

void Address::setPort(uint16_t port) {
  if (storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(storage).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in &>(storage).sin_port = htons(port);
}

bool Address::isLoopback() const {
  if (storage.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6 &>(storage).sin6_addr);
  const auto &in = reinterpret_cast<const sockaddr_in &>(storage);
  return storage.ss_family == AF_INET && ntohl(in.sin_addr.s_addr) >> 24 == 127;
}

std::string Address::str() const {
  char host[NI_MAXHOST] = "?";
  (void)getnameinfo(reinterpret_cast<const sockaddr *>(&storage), length, host,
                    sizeof(host), nullptr, 0, NI_NUMERICHOST);
  std::string name = host;
  if (storage.ss_family == AF_INET6)
    name = "[" + name + "]";
  return name + ":" + std::to_string(port());
}

Socket::~Socket() {
  if (descriptor >= 0)
    close(descriptor);
}

Result<Address> Socket::localAddress() const {
  Address address;
  address.length = sizeof(address.storage);
  if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&address.storage),
                  &address.length) != 0)
    return Status::machine(std::string("cannot read a socket's address: ") +
                           std::strerror(errno));
  return address;
}

Result<Address> Socket::peerAddress() const {
  Address address;
  address.length = sizeof(address.storage);
  if (getpeername(descriptor, reinterpret_cast<sockaddr *>(&address.storage),
                  &address.length) != 0)
    return Status::machine(std::string("cannot read a peer's address: ") +
                           std::strerror(errno));
  return address;
}

/// Waits for `events`; false when the deadline has passed.
static bool waitFor(int descriptor, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{descriptor, events, 0};
    int left = millisecondsTo(deadline);
    if (poll(&entry, 1, left) > 0)
      return true;
    if (left == 0)
      return false;
  }
}

Status Socket::send(std::span<const std::byte> bytes, Deadline deadline,
                    const std::string &what) const {
  while (!bytes.empty()) {
    ssize_t n = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return Status::machine(what + ": cannot send: " + std::strerror(errno));
    if (!waitFor(descriptor, POLLOUT, deadline))
      return Status::machine(what + " takes no data");
  }
  return {};
}

Status Socket::receive(std::span<std::byte> bytes, Deadline deadline,
                       const std::string &what) const {
  while (!bytes.empty()) {
    ssize_t n = recv(descriptor, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      continue;
    }
    if (n == 0)
      return Status::machine(what + " closed the connection");
    if (errno != EAGAIN && errno != EINTR)
      return Status::machine(what +
                             ": cannot receive: " + std::strerror(errno));
    if (!waitFor(descriptor, POLLIN, deadline))
      return Status::machine(what + " does not answer");
  }
  return {};
}

void Socket::tune() const {
  auto set = [&](int level, int option, int value) {
    (void)setsockopt(descriptor, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
}

Result<std::vector<Address>> resolve(const std::string &host, uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::string service = std::to_string(port);
  if (int error = getaddrinfo(host.c_str(), service.c_str(), &hints, &list))
    return Status::machine("cannot find the host \"" + host +
                           "\": " + gai_strerror(error));
  std::vector<Address> addresses;
  for (addrinfo *entry = list; entry; entry = entry->ai_next) {
    if ((entry->ai_family != AF_INET && entry->ai_family != AF_INET6) ||
        entry->ai_addrlen > sizeof(sockaddr_storage))
      continue;
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  if (addresses.empty())
    return Status::machine("the host \"" + host + "\" has no address");
  return addresses;
}

bool isMachineName(const std::string &host) {
  return host != "localhost" && host.find(':') == std::string::npos &&
         host.find_first_not_of("0123456789.") != std::string::npos;
}

static Socket open(const Address &address) {
  return Socket(socket(address.storage.ss_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<Socket> listenAt(const Address &address) {
  Socket listener = open(address);
  int yes = 1;
  auto fail = [&] {
    return Status::machine(
        address.str() +
        (errno == EADDRINUSE
             ? ": the port is in use by another program"
             : ": cannot listen: " + std::string(std::strerror(errno))));
  };
  if (!listener.isOpen())
    return fail();
  // Only against connections that linger: a listener still excludes another.
  (void)setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener.fd(), reinterpret_cast<const sockaddr *>(&address.storage),
           address.length) != 0 ||
      listen(listener.fd(), 1024) != 0)
    return fail();
  return listener;
}

Result<Socket> connectTo(const Address &address, Deadline deadline) {
  Socket socket = open(address);
  auto fail = [&](int error) {
    return Status::machine(address.str() +
                           ": cannot connect: " + std::strerror(error));
  };
  if (!socket.isOpen())
    return fail(errno);
  if (connect(socket.fd(), reinterpret_cast<const sockaddr *>(&address.storage),
              address.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR)
      return fail(errno);
    if (!waitFor(socket.fd(), POLLOUT, deadline))
      return fail(ETIMEDOUT);
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
      error = errno;
    if (error != 0)
      return fail(error);
  }
  socket.tune();
  return socket;
}

Socket acceptFrom(const Socket &listener) {
  Socket socket(
      accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.isOpen())
    socket.tune();
  return socket;
}

} // namespace ciuic::rt::tcp
