//===- tcp_group_test.cpp - Processes that talk by TCP --------------------===//
#include "runtime/comm/Frame.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/comm/tcp/TcpGroup.h"
#include "test/runtime/comm/OwnHost.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <numeric>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace ciuic::rt::tcp::test {
namespace {

using rt::test::freePort;
using rt::test::ownHost;

using Body = std::function<Status(ProcessGroup &)>;

/// Runs `body` as each of `processes`, in a thread each; what each came to.
std::vector<Status> runAll(uint32_t processes, const Body &body,
                           const JoinOptions &options = {20, 20}) {
  uint16_t port = freePort();
  std::vector<Status> results(processes);
  std::vector<std::thread> threads;
  for (uint32_t p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      auto group = joinByTcp({p, processes, ownHost(), port}, options);
      results[p] = group.ok() ? body(**group) : group.takeStatus();
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

void expectAllOk(const std::vector<Status> &results) {
  for (size_t p = 0; p < results.size(); ++p)
    EXPECT_TRUE(results[p].ok()) << p << ": " << results[p].str();
}

void expectSays(const Status &status, Code code, const std::string &text) {
  EXPECT_EQ(status.code(), code) << status.str();
  EXPECT_NE(status.str().find(text), std::string::npos) << status.str();
}

/// Parts of all processes, of one size each.
Status exchangeBytes(ProcessGroup &group, size_t bytes) {
  std::vector<std::byte> data(bytes * group.processes());
  std::vector<std::span<const std::byte>> send(group.processes());
  std::vector<std::span<std::byte>> receive(group.processes());
  for (uint32_t p = 0; p < group.processes(); ++p) {
    send[p] = std::span(data).subspan(p * bytes, bytes);
    receive[p] = std::span(data).subspan(p * bytes, bytes);
  }
  return group.exchange(send, receive);
}

// Every process gets what each other meant for it, of sizes from nothing to
// more than the system's buffers hold, many times.
TEST(TcpGroupTest, Exchanges) {
  auto results = runAll(4, [](ProcessGroup &group) -> Status {
    uint32_t n = group.processes(), me = group.process();
    for (uint64_t round = 0; round < 6; ++round) {
      auto sizeOf = [&](uint32_t from, uint32_t to) -> size_t {
        return round == 5 ? 3000017 : (from * 7 + to * 3 + round) % 5;
      };
      std::vector<std::vector<std::byte>> out(n), in(n);
      std::vector<std::span<const std::byte>> send(n);
      std::vector<std::span<std::byte>> receive(n);
      for (uint32_t p = 0; p < n; ++p) {
        out[p].assign(sizeOf(me, p), std::byte(me * 16 + p));
        in[p].resize(sizeOf(p, me));
        send[p] = out[p];
        receive[p] = in[p];
      }
      CIUIC_TRY(group.exchange(send, receive));
      for (uint32_t p = 0; p < n; ++p)
        for (std::byte b : in[p])
          if (b != std::byte(p * 16 + me))
            return Status::machine("wrong byte");
    }
    return {};
  });
  expectAllOk(results);
}

// A process that is late for an exchange finds no more than a header in its
// buffers: full ones would count as a machine that has vanished.
TEST(TcpGroupTest, SendsMuchOnlyToWhoReads) {
  constexpr size_t bytes = 1 << 20;
  uint16_t port = freePort();
  Status status;
  std::thread other([&] {
    auto group = joinByTcp({0, 2, ownHost(), port}, {20, 20});
    status = group.ok() ? exchangeBytes(**group, bytes) : group.takeStatus();
  });
  Place place{1, 2, ownHost(), port};
  auto sockets = meet(place, 20);
  ASSERT_TRUE(sockets.ok()) << sockets.takeStatus().str();
  const Socket &socket = (*sockets)[0];
  FrameHeader header;
  auto head = std::as_writable_bytes(std::span(&header, 1));
  EXPECT_TRUE(socket.receive(head, after(20), "process 0").ok());
  EXPECT_EQ(header.bytes, bytes);
  pollfd entry{socket.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 200), 0);
  // Its own header is the same.
  EXPECT_TRUE(socket.send(head, after(20), "process 0").ok());
  std::vector<std::byte> data(bytes);
  EXPECT_TRUE(socket.send(data, after(20), "process 0").ok());
  EXPECT_TRUE(socket.receive(data, after(20), "process 0").ok());
  other.join();
  EXPECT_TRUE(status.ok()) << status.str();
}

// What one knows all know after a broadcast; what each knows, after a gather.
TEST(TcpGroupTest, BroadcastsAndGathers) {
  auto results = runAll(3, [](ProcessGroup &group) -> Status {
    std::string text = group.process() == 1 ? "the text of process 1" : "mine";
    CIUIC_TRY(group.broadcastText(text, 1));
    EXPECT_EQ(text, "the text of process 1");
    uint32_t mine = 10 + group.process();
    std::vector<uint32_t> all(3);
    CIUIC_TRY(group.gather(std::as_bytes(std::span(&mine, 1)),
                           std::as_writable_bytes(std::span(all))));
    EXPECT_EQ(all, (std::vector<uint32_t>{10, 11, 12}));
    return group.barrier();
  });
  expectAllOk(results);
}

// A part of another size than expected is told with both sizes, and the group
// is broken then.
TEST(TcpGroupTest, RefusesAnotherSize) {
  auto results = runAll(2, [](ProcessGroup &group) {
    Status first = exchangeBytes(group, group.process() == 0 ? 100 : 200);
    group.abort(first);
    EXPECT_FALSE(group.barrier().ok());
    return first;
  });
  // Whichever sees it first.
  for (const Status &status : results)
    for (const char *text : {" sent ", "100", "200"})
      expectSays(status, Code::Machine, text);
}

// A process that fails says why, and the others end with its message and code,
// also where it fails while they wait to send what it does not take.
TEST(TcpGroupTest, AbortEndsAll) {
  for (size_t bytes : {size_t(0), size_t(30000000)}) {
    auto results = runAll(3, [&](ProcessGroup &group) -> Status {
      CIUIC_TRY(group.barrier());
      if (group.process() == 1) {
        Status status = Status::invalid("the data is wrong");
        group.abort(status);
        EXPECT_FALSE(group.barrier().ok());
        return status;
      }
      Status status = exchangeBytes(group, bytes);
      group.abort(status);
      return status;
    });
    for (uint32_t p : {0u, 2u})
      expectSays(results[p], Code::Invalid,
                 "process 1 failed: the data is wrong");
  }
}

// Why a process failed is heard also by one that comes when it is gone, and
// whose own words it has not read.
TEST(TcpGroupTest, AbortIsHeardAfterItsProcessIsGone) {
  for (size_t bytes : {size_t(0), size_t(10000), size_t(30000000)}) {
    uint16_t port = freePort();
    std::atomic<bool> inExchange{false}, gone{false};
    Status early, late;
    auto join = [&](uint32_t process) {
      auto group = joinByTcp({process, 3, ownHost(), port}, {20, 20});
      EXPECT_TRUE(group.ok()) << group.takeStatus().str();
      EXPECT_TRUE((*group)->barrier().ok());
      return std::move(*group);
    };
    std::thread zero([&] {
      auto group = join(0);
      while (!gone)
        std::this_thread::yield();
      late = exchangeBytes(*group, bytes);
    });
    std::thread one([&] {
      auto group = join(1);
      inExchange = true;
      early = exchangeBytes(*group, bytes);
      group->abort(early);
    });
    auto group = join(2);
    while (!inExchange)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    group->abort(Status::invalid("the data is wrong"));
    // Process 0 does not end before: this one stops waiting for it.
    group.reset();
    gone = true;
    zero.join();
    one.join();
    for (const Status *status : {&early, &late})
      expectSays(*status, Code::Invalid, "process 2 failed: the data is wrong");
  }
}

// A process that ends without a word is noticed.
TEST(TcpGroupTest, NoticesAProcessThatDied) {
  auto results = runAll(3, [](ProcessGroup &group) -> Status {
    CIUIC_TRY(group.barrier());
    if (group.process() == 2)
      return {};
    Status status = exchangeBytes(group, 10000000);
    group.abort(status);
    return status;
  });
  for (uint32_t p : {0u, 1u})
    for (const char *text : {"ended", "2"})
      expectSays(results[p], Code::Machine, text);
}

// Who waits for something else asks after the others: that all is well, that
// one failed and why, that one is gone.
TEST(TcpGroupTest, ChecksWithoutWaiting) {
  for (bool fails : {false, true}) {
    auto results = runAll(2, [&](ProcessGroup &group) -> Status {
      CIUIC_TRY(group.check());
      // One is ahead: its part of the next exchange is no failure.
      if (group.process() == 1) {
        CIUIC_TRY(group.barrier());
        if (fails)
          group.abort(Status::invalid("the data is wrong"));
        return {};
      }
      for (int i = 0; i < 100; ++i)
        CIUIC_TRY(group.check());
      CIUIC_TRY(group.barrier());
      for (;;)
        if (Status status = group.check(); !status.ok()) {
          EXPECT_FALSE(group.barrier().ok());
          return status;
        }
    });
    expectSays(results[0], fails ? Code::Invalid : Code::Machine,
               fails ? "process 1 failed: the data is wrong"
                     : "process 1 has ended");
  }
}

// A process that hangs is given up after the timeout, by its number.
TEST(TcpGroupTest, GivesUpOnAProcessThatHangs) {
  std::atomic<int> waiting{1};
  auto results = runAll(2,
                        [&](ProcessGroup &group) -> Status {
                          if (group.process() == 0) {
                            Status status = group.barrier();
                            waiting = 0;
                            return status;
                          }
                          while (waiting)
                            std::this_thread::yield();
                          return {};
                        },
                        {20, 0.2});
  expectSays(results[0], Code::Machine, "no word from process 1");
}

// Process 0 names who has not come; who has come hears it too.
TEST(TcpGroupTest, NamesMissingProcesses) {
  uint16_t port = freePort();
  Status leader, follower;
  std::thread zero([&] {
    leader = joinByTcp({0, 4, ownHost(), port}, {4, 20}).takeStatus();
  });
  std::thread two([&] {
    follower = joinByTcp({2, 4, ownHost(), port}, {20, 20}).takeStatus();
  });
  zero.join();
  two.join();
  expectSays(leader, Code::Machine,
             "processes 1, 3 of 4 have not joined within 4 s at " + ownHost() +
                 ":" + std::to_string(port));
  expectSays(follower, Code::Machine, "processes 1, 3 of 4");
}

// Without process 0 the others say where they looked for it.
TEST(TcpGroupTest, NamesMissingLeader) {
  uint16_t port = freePort();
  Status status = joinByTcp({1, 2, ownHost(), port}, {0.3, 20}).takeStatus();
  expectSays(status, Code::Machine, "process 0 of 2 could not be reached");
  expectSays(status, Code::Machine, ownHost() + ":" + std::to_string(port));
}

// A port that another program has is told at once.
TEST(TcpGroupTest, PortInUse) {
  auto addresses = resolve(ownHost(), 0);
  auto taken = listenAt(addresses->front());
  ASSERT_TRUE(taken.ok());
  uint16_t port = taken->localAddress()->port();
  Status status = joinByTcp({0, 2, ownHost(), port}, {20, 20}).takeStatus();
  expectSays(status, Code::Machine, "in use");
  expectSays(status, Code::Machine, std::to_string(port));
}

// Processes that disagree on how many there are, or are the same one, all end
// with both numbers.
TEST(TcpGroupTest, RefusesContradictions) {
  uint16_t port = freePort();
  Status leader, follower;
  std::thread zero([&] {
    leader = joinByTcp({0, 3, ownHost(), port}, {20, 20}).takeStatus();
  });
  std::thread other([&] {
    follower = joinByTcp({1, 2, ownHost(), port}, {20, 20}).takeStatus();
  });
  zero.join();
  other.join();
  for (const Status *status : {&leader, &follower}) {
    EXPECT_NE(status->str().find("one of 2 processes"), std::string::npos)
        << status->str();
    EXPECT_NE(status->str().find("one of 3"), std::string::npos)
        << status->str();
  }
}

// Two processes of one number: all end, the number is told.
TEST(TcpGroupTest, RefusesTheSameProcessTwice) {
  uint16_t port = freePort();
  std::vector<Status> results(3);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      results[i] =
          joinByTcp({i ? 1u : 0u, 3, ownHost(), port}, {20, 20}).takeStatus();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : results)
    EXPECT_NE(status.str().find("calls itself process 1"), std::string::npos)
        << status.str();
}

// What connects and speaks no word, another protocol or half a greeting keeps
// nobody from joining.
TEST(TcpGroupTest, IgnoresStrangers) {
  uint16_t port = freePort();
  std::atomic<bool> over{false};
  std::thread stranger([&] {
    auto addresses = resolve(ownHost(), port);
    std::vector<Socket> held;
    for (int i = 0; !over; i = (i + 1) % 3) {
      auto socket = connectTo(addresses->front(), after(1));
      if (!socket.ok())
        continue;
      std::string text = i == 0   ? ""
                         : i == 1 ? "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                  : "CIUICHI1";
      (void)socket->send(std::as_bytes(std::span(text)), after(1), "it").ok();
      held.push_back(std::move(*socket));
      if (held.size() > 20)
        held.erase(held.begin());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Status zero, one;
  std::thread leader([&] {
    auto group = joinByTcp({0, 2, ownHost(), port}, {20, 20});
    zero = group.ok() ? (*group)->barrier() : group.takeStatus();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto group = joinByTcp({1, 2, ownHost(), port}, {20, 20});
  one = group.ok() ? (*group)->barrier() : group.takeStatus();
  leader.join();
  over = true;
  stranger.join();
  EXPECT_TRUE(zero.ok()) << zero.str();
  EXPECT_TRUE(one.ok()) << one.str();
}

// Where process 0 should be another program answers: it is told apart.
TEST(TcpGroupTest, RefusesAnotherProgram) {
  auto addresses = resolve(ownHost(), 0);
  auto listener = listenAt(addresses->front());
  ASSERT_TRUE(listener.ok());
  uint16_t port = listener->localAddress()->port();
  std::thread server([&] {
    Socket client;
    while (!client.isOpen())
      client = acceptFrom(*listener);
    std::string text = "HTTP/1.1 400 Bad Request\r\n\r\n";
    (void)client.send(std::as_bytes(std::span(text)), after(5), "it").ok();
    std::byte hello[24];
    (void)client.receive(hello, after(5), "it").ok();
  });
  Status status = joinByTcp({1, 2, ownHost(), port}, {20, 20}).takeStatus();
  server.join();
  expectSays(status, Code::Machine, "is another program");
}

// A machine's name may be that of a loopback address on the machine itself:
// process 0 is then reached at its other addresses too.
TEST(TcpGroupTest, NameThatIsALoopbackAddress) {
  // It listens at all addresses.
  uint16_t port = freePort("0.0.0.0");
  Status status;
  std::thread leader([&] {
    // A name by its form, which stands for 127.0.0.1 everywhere.
    auto group = joinByTcp({0, 2, "0x7f000001", port}, {20, 20});
    status = group.ok() ? (*group)->barrier() : group.takeStatus();
  });
  auto group = joinByTcp({1, 2, "127.0.0.2", port}, {20, 20});
  EXPECT_TRUE(group.ok() && (*group)->barrier().ok());
  leader.join();
  EXPECT_TRUE(status.ok()) << status.str();
}

// Addresses and localhost are taken as they are.
TEST(TcpGroupTest, Names) {
  for (const char *name : {"box1", "node-0.cluster", "0x7f000001"})
    EXPECT_TRUE(isMachineName(name)) << name;
  for (const char *name : {"localhost", "10.0.0.2", "127.0.0.1", "::1"})
    EXPECT_FALSE(isMachineName(name)) << name;
}

// A host that there is not is named.
TEST(TcpGroupTest, UnknownHost) {
  Status status =
      joinByTcp({0, 2, "no.such.host.invalid", 1234}, {0.2, 20}).takeStatus();
  expectSays(status, Code::Machine, "no.such.host.invalid");
}

} // namespace
} // namespace ciuic::rt::tcp::test
