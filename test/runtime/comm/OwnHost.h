//===- OwnHost.h - Where the processes of a test meet -----------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_COMM_OWNHOST_H
#define CIUIC_TEST_RUNTIME_COMM_OWNHOST_H

#include "runtime/comm/tcp/Socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ciuic::rt::test {

/// A loopback address that no other process of the machine uses: a port that
/// is free there stays free, whatever runs beside the test.
inline const std::string &ownHost() {
  static const std::string host = [] {
    auto id = static_cast<uint32_t>(getpid());
    return "127." + std::to_string(1 + (id >> 16) % 250) + "." +
           std::to_string(id >> 8 & 255) + "." + std::to_string(id & 255);
  }();
  return host;
}

/// A port that is free now at `host`.
inline uint16_t freePort(const std::string &host = ownHost()) {
  auto addresses = tcp::resolve(host, 0);
  EXPECT_TRUE(addresses.ok());
  auto listener = tcp::listenAt(addresses->front());
  EXPECT_TRUE(listener.ok());
  return listener->localAddress()->port();
}

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_COMM_OWNHOST_H
