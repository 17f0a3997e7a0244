//===- Rendezvous.cpp - How processes find each other ---------------------===//
#include "runtime/comm/tcp/Rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <thread>

namespace ciuic::rt::tcp {
namespace {

constexpr uint32_t protocolVersion = 1;
constexpr char helloMagic[8] = {'C', 'I', 'U', 'I', 'C', 'H', 'I', '1'};
constexpr char answerMagic[8] = {'C', 'I', 'U', 'I', 'C', 'O', 'K', '1'};
constexpr uint32_t mostAnswerText = 4096;

/// What a connection begins with.
struct Hello {
  char magic[8];
  uint32_t version;
  uint32_t process;
  uint32_t processes;
  uint32_t listenPort; ///< Of the sender; 0 from one that needs none.
};
static_assert(sizeof(Hello) == 24);

/// What process 0 answers: a refusal with its text, or an entry a process.
struct Answer {
  char magic[8];
  uint32_t refused;
  uint32_t textBytes;
};
static_assert(sizeof(Answer) == 16);

/// Where a process listens, as process 0 sees it.
struct Entry {
  uint8_t address[16]; ///< IPv6, or IPv4 in its first four bytes.
  uint32_t isV6;
  uint32_t port;
};
static_assert(sizeof(Entry) == 24);

template <typename T> std::span<const std::byte> bytesOf(const T &value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T> std::span<std::byte> writableBytesOf(T &value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Entry entryOf(const Address &address, uint32_t port) {
  Entry entry{};
  entry.port = port;
  if (address.storage.ss_family == AF_INET6) {
    entry.isV6 = 1;
    std::memcpy(
        entry.address,
        &reinterpret_cast<const sockaddr_in6 &>(address.storage).sin6_addr, 16);
  } else {
    std::memcpy(
        entry.address,
        &reinterpret_cast<const sockaddr_in &>(address.storage).sin_addr, 4);
  }
  return entry;
}

Address addressOf(const Entry &entry) {
  Address address;
  if (entry.isV6) {
    auto &in6 = reinterpret_cast<sockaddr_in6 &>(address.storage);
    in6.sin6_family = AF_INET6;
    std::memcpy(&in6.sin6_addr, entry.address, 16);
    address.length = sizeof(in6);
  } else {
    auto &in = reinterpret_cast<sockaddr_in &>(address.storage);
    in.sin_family = AF_INET;
    std::memcpy(&in.sin_addr, entry.address, 4);
    address.length = sizeof(in);
  }
  address.setPort(static_cast<uint16_t>(entry.port));
  return address;
}

void sendRefusal(const Socket &socket, const Status &status) {
  std::string text = status.str().substr(0, mostAnswerText);
  Answer answer{{}, 1, static_cast<uint32_t>(text.size())};
  std::memcpy(answer.magic, answerMagic, sizeof(answerMagic));
  // Who does not take it is not told.
  if (socket.send(bytesOf(answer), after(5), "").ok())
    (void)socket.send(std::as_bytes(std::span(text)), after(5), "").ok();
}

std::string seconds(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text + " s";
}

class Meeting {
public:
  Meeting(const Place &place, double timeout)
      : place(place), timeout(timeout), deadline(after(timeout)),
        peers(place.processes) {}

  Result<std::vector<Socket>> run() {
    CIUIC_TRY(place.process == 0 ? lead() : follow());
    return std::move(peers);
  }

private:
  /// A connection that has not said all of its hello.
  struct Guest {
    Socket socket;
    Hello hello{};
    size_t bytes = 0;
  };

  std::string where() const {
    return place.host + ":" + std::to_string(place.port);
  }

  Status lead();
  Status follow();
  Status reachLeader(Socket &leader);
  Status listenBeside(const Socket &leader);

  /// Accepts until all processes from `first` on are there.
  Status admit(const Socket &listener, uint32_t first);
  Status greet(Guest guest, uint32_t first);
  Status missing(uint32_t first) const;
  /// Tells those who have come why nothing comes of it.
  void refuse(const Status &status);
  Status readAnswer(const Socket &leader, std::vector<Entry> &entries) const;

  const Place &place;
  const double timeout;
  const Deadline deadline;
  std::vector<Socket> peers;
  std::vector<Entry> entries;
  Socket listener;
};

Status Meeting::missing(uint32_t first) const {
  std::string names;
  size_t count = 0;
  for (uint32_t p = first; p < place.processes; ++p)
    if (!peers[p].isOpen() && p != place.process && ++count <= 16)
      names += (names.empty() ? "" : ", ") + std::to_string(p);
  if (count > 16)
    names += " and " + std::to_string(count - 16) + " more";
  return Status::machine(
      (count == 1 ? "process " : "processes ") + names + " of " +
      std::to_string(place.processes) + (count == 1 ? " has" : " have") +
      " not joined within " + seconds(timeout) + " at " + where());
}

Status Meeting::greet(Guest guest, uint32_t first) {
  const Hello &hello = guest.hello;
  if (std::memcmp(hello.magic, helloMagic, sizeof(helloMagic)) != 0)
    return {}; // A stranger: the connection goes with the guest.
  CIUIC_TRY_ASSIGN(Address address, guest.socket.peerAddress());
  auto contradict = [&](const std::string &what) {
    Status status =
        Status::invalid("the process at " + address.str() + " " + what);
    // The one at fault is told too.
    sendRefusal(guest.socket, status);
    return status;
  };
  if (hello.version != protocolVersion)
    return contradict("speaks version " + std::to_string(hello.version) +
                      " of the protocol, expected " +
                      std::to_string(protocolVersion));
  if (hello.processes != place.processes)
    return contradict("is one of " + std::to_string(hello.processes) +
                      " processes (WORLD_SIZE), process " +
                      std::to_string(place.process) + " one of " +
                      std::to_string(place.processes));
  if (hello.process < first || hello.process >= place.processes)
    return contradict("calls itself process " + std::to_string(hello.process) +
                      " (RANK), expected " + std::to_string(first) + " to " +
                      std::to_string(place.processes - 1));
  if (peers[hello.process].isOpen())
    return contradict("calls itself process " + std::to_string(hello.process) +
                      " (RANK), which is there already");
  if (hello.listenPort > 65535)
    return contradict("listens at port " + std::to_string(hello.listenPort));
  if (!entries.empty())
    entries[hello.process] = entryOf(address, hello.listenPort);
  peers[hello.process] = std::move(guest.socket);
  return {};
}

Status Meeting::admit(const Socket &door, uint32_t first) {
  std::vector<Guest> guests;
  auto complete = [&] {
    for (uint32_t p = first; p < place.processes; ++p)
      if (p != place.process && !peers[p].isOpen())
        return false;
    return true;
  };
  // More at a time than processes are strangers: the oldest of them go.
  const size_t mostGuests = place.processes + 64;
  while (!complete()) {
    int left = millisecondsTo(deadline);
    if (left == 0)
      return missing(first);
    std::vector<pollfd> polled = {{door.fd(), POLLIN, 0}};
    for (const Guest &guest : guests)
      polled.push_back({guest.socket.fd(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), left) <= 0)
      continue;
    for (size_t i = guests.size(); i-- > 0;) {
      if (polled[i + 1].revents == 0)
        continue;
      Guest &guest = guests[i];
      auto rest = writableBytesOf(guest.hello).subspan(guest.bytes);
      ssize_t n = recv(guest.socket.fd(), rest.data(), rest.size(), 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        continue;
      guest.bytes += n > 0 ? static_cast<size_t>(n) : 0;
      bool whole = guest.bytes == sizeof(Hello);
      if (n > 0 && !whole)
        continue;
      Guest leaving = std::move(guest);
      guests.erase(guests.begin() + static_cast<ptrdiff_t>(i));
      if (whole)
        CIUIC_TRY(greet(std::move(leaving), first));
    }
    if (polled[0].revents != 0)
      if (Socket next = acceptFrom(door); next.isOpen()) {
        if (guests.size() >= mostGuests)
          guests.erase(guests.begin());
        guests.push_back({std::move(next)});
      }
  }
  return {};
}

void Meeting::refuse(const Status &status) {
  for (const Socket &peer : peers)
    if (peer.isOpen())
      sendRefusal(peer, status);
}

Status Meeting::lead() {
  CIUIC_TRY_ASSIGN(std::vector<Address> addresses,
                   resolve(place.host, place.port));
  // On its own machine a name may stand for a loopback address alone, as
  // Debian writes it into /etc/hosts: others would look elsewhere.
  if (isMachineName(place.host) &&
      std::all_of(
          addresses.begin(), addresses.end(),
          [](const Address &address) { return address.isLoopback(); })) {
    CIUIC_TRY_ASSIGN(addresses, resolve("0.0.0.0", place.port));
  }
  // The address may be that of a gateway: then any of this machine's.
  Status first;
  for (const Address &address : addresses) {
    auto opened = listenAt(address);
    if (opened.ok()) {
      listener = std::move(*opened);
      break;
    }
    Status status = opened.takeStatus();
    if (first.ok())
      first = std::move(status);
  }
  if (!listener.isOpen()) {
    if (errno != EADDRNOTAVAIL)
      return std::move(first).during([&] {
        return "waiting for the other processes at MASTER_ADDR:MASTER_PORT, " +
               where();
      });
    CIUIC_TRY_ASSIGN(std::vector<Address> any, resolve("0.0.0.0", place.port));
    CIUIC_TRY_ASSIGN(listener, listenAt(any.front()));
  }
  entries.resize(place.processes);
  if (Status status = admit(listener, 1); !status.ok()) {
    refuse(status);
    return status;
  }
  Answer answer{{}, 0, 0};
  std::memcpy(answer.magic, answerMagic, sizeof(answerMagic));
  for (uint32_t p = 1; p < place.processes; ++p) {
    std::string name = "process " + std::to_string(p);
    CIUIC_TRY(peers[p].send(bytesOf(answer), deadline, name));
    CIUIC_TRY(peers[p].send(std::as_bytes(std::span(entries)), deadline, name));
  }
  return {};
}

Status Meeting::reachLeader(Socket &leader) {
  std::string last = "not tried";
  for (;;) {
    auto addresses = resolve(place.host, place.port);
    if (!addresses.ok()) {
      last = addresses.takeStatus().str();
    } else {
      for (const Address &address : *addresses) {
        auto connected = connectTo(address, deadline);
        if (connected.ok()) {
          leader = std::move(*connected);
          return {};
        }
        last = connected.takeStatus().str();
      }
    }
    if (millisecondsTo(deadline) == 0)
      return Status::machine("process 0 of " + std::to_string(place.processes) +
                             " could not be reached within " +
                             seconds(timeout) + " at " + where() + ": " + last);
    // It may not have started yet.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Status Meeting::listenBeside(const Socket &leader) {
  CIUIC_TRY_ASSIGN(Address own, leader.localAddress());
  own.setPort(0);
  CIUIC_TRY_ASSIGN(listener, listenAt(own));
  return {};
}

Status Meeting::readAnswer(const Socket &leader,
                           std::vector<Entry> &list) const {
  const std::string name = "process 0 at " + where();
  Answer answer{};
  // Process 0 itself gives up at its own deadline, which may be later.
  Deadline patient = after(timeout + 30);
  CIUIC_TRY(leader.receive(writableBytesOf(answer), patient, name));
  if (std::memcmp(answer.magic, answerMagic, sizeof(answerMagic)) != 0)
    return Status::machine(name + " is another program");
  if (answer.refused) {
    std::string text(std::min(answer.textBytes, mostAnswerText), '\0');
    CIUIC_TRY(
        leader.receive(std::as_writable_bytes(std::span(text)), patient, name));
    return Status::machine("process 0 refused to start: " + text);
  }
  list.resize(place.processes);
  return leader.receive(std::as_writable_bytes(std::span(list)), patient, name);
}

Status Meeting::follow() {
  Socket leader;
  CIUIC_TRY(reachLeader(leader));
  CIUIC_TRY(listenBeside(leader));
  CIUIC_TRY_ASSIGN(Address own, listener.localAddress());
  Hello hello{{}, protocolVersion, place.process, place.processes, own.port()};
  std::memcpy(hello.magic, helloMagic, sizeof(helloMagic));
  CIUIC_TRY(leader.send(bytesOf(hello), deadline, "process 0"));
  std::vector<Entry> list;
  CIUIC_TRY(readAnswer(leader, list));
  peers[0] = std::move(leader);
  hello.listenPort = 0;
  for (uint32_t p = 1; p < place.process; ++p) {
    std::string name = "process " + std::to_string(p);
    CIUIC_TRY_ASSIGN(peers[p], connectTo(addressOf(list[p]), after(timeout)));
    CIUIC_TRY(peers[p].send(bytesOf(hello), after(timeout), name));
  }
  return admit(listener, place.process + 1);
}

} // namespace

Result<std::vector<Socket>> meet(const Place &place, double joinTimeout) {
  return Meeting(place, joinTimeout).run();
}

} // namespace ciuic::rt::tcp
