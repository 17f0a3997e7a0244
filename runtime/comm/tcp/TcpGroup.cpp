//===- TcpGroup.cpp - Processes that talk by TCP --------------------------===//
#include "runtime/comm/tcp/TcpGroup.h"

#include "runtime/comm/Frame.h"

#include <cerrno>
#include <cstring>
#include <poll.h>

namespace ciuic::rt::tcp {
namespace {

/// What is sent before the other is known to read. More could fill its buffers,
/// and the system takes a process whose buffers stay full for one that has
/// ended, though it may only be late.
constexpr size_t mostUnasked = 16384;

/// One way of one connection: a header, then its payload.
struct Flow {
  FrameHeader header;
  size_t headerDone = 0;
  uint64_t done = 0; ///< Of the payload.
  bool over = false;

  bool isWithin() const { return !over && headerDone > 0; }
};

class TcpGroup final : public ProcessGroup {
public:
  TcpGroup(const Place &place, std::vector<Socket> sockets, double timeout)
      : place(place), sockets(std::move(sockets)), timeout(timeout),
        in(place.processes), out(place.processes), polled(place.processes) {}

  ~TcpGroup() override;

  uint32_t process() const override { return place.process; }
  uint32_t processes() const override { return place.processes; }
  Status exchange(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive) override;
  Status check() override;
  void abort(const Status &status) override;

private:
  using Sends = std::span<const std::span<const std::byte>>;
  using Receives = std::span<const std::span<std::byte>>;

  std::string name(uint32_t p) const { return "process " + std::to_string(p); }
  Status run(Sends send, Receives receive);
  /// Whether the payload for `p` may follow its header: the other's header says
  /// that it is in the exchange too, and reads.
  bool mayFollow(uint32_t p, size_t payload) const {
    return payload <= mostUnasked || in[p].headerDone == sizeof(FrameHeader);
  }
  Status sendSome(uint32_t p, std::span<const std::byte> payload);
  Status receiveSome(uint32_t p, std::span<std::byte> payload);
  Status lastWord(uint32_t p, const std::string &problem);
  Status saidWhy(uint32_t p);
  Status ended(uint32_t p, const std::string &problem);
  Status waiting() const;

  const Place place;
  std::vector<Socket> sockets;
  const double timeout;
  uint64_t sequence = 0;
  Status broken;
  bool told = false;         ///< All others know of the failure, or are told.
  std::vector<Flow> in, out; ///< Of each process.
  std::vector<pollfd> polled;
};

/// Closing a connection with bytes unread would discard what the other has not
/// read yet: reads on until the other closes too, or for a while.
TcpGroup::~TcpGroup() {
  Deadline soon = after(2);
  for (Socket &socket : sockets)
    if (socket.isOpen())
      (void)shutdown(socket.fd(), SHUT_WR);
  std::vector<std::byte> ignored(1 << 16);
  for (Socket &socket : sockets)
    while (socket.isOpen()) {
      ssize_t n = recv(socket.fd(), ignored.data(), ignored.size(), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        break;
      pollfd entry{socket.fd(), POLLIN, 0};
      if (n < 0 && (millisecondsTo(soon) == 0 ||
                    poll(&entry, 1, millisecondsTo(soon)) == 0))
        break;
    }
}

/// The bytes moved by one call, 0 if it would block; -1 at the end of the
/// stream or an error, which `problem` then says.
ssize_t move(ssize_t result, bool receiving, std::string &problem) {
  if (result > 0)
    return result;
  if (result < 0 && (errno == EAGAIN || errno == EINTR))
    return 0;
  problem = result == 0 && receiving ? "the connection was closed"
                                     : std::strerror(errno);
  return -1;
}

/// Why process `p` failed, if that is what it says next; else success.
Status TcpGroup::saidWhy(uint32_t p) {
  FrameHeader header;
  bool between = in[p].over || in[p].headerDone == 0;
  if (!between || !sockets[p].isOpen() ||
      recv(sockets[p].fd(), &header, sizeof(header), MSG_PEEK) !=
          sizeof(header) ||
      !isAbort(header))
    return {};
  return lastWord(p, "it failed");
}

/// The process that failed first may not be the one that is seen first: what
/// another says of it, or else the names of process `p` and of all others whose
/// connection is closed by now.
Status TcpGroup::ended(uint32_t p, const std::string &problem) {
  for (uint32_t q = 0; q < place.processes; ++q)
    if (q != p)
      CIUIC_TRY(saidWhy(q));
  std::string names;
  uint32_t gone = 0;
  for (uint32_t q = 0; q < place.processes; ++q) {
    pollfd entry{sockets[q].fd(), POLLRDHUP, 0};
    if (q != p && (!sockets[q].isOpen() || poll(&entry, 1, 0) <= 0))
      continue;
    names += (gone++ ? ", " : "") + std::to_string(q);
  }
  return Status::machine((gone == 1 ? "process " : "processes ") + names +
                         (gone == 1 ? " has" : " have") +
                         " ended or cannot be reached (" + problem +
                         "): killed, or the machine failed");
}

Status TcpGroup::sendSome(uint32_t p, std::span<const std::byte> payload) {
  Flow &flow = out[p];
  std::string problem;
  auto head = std::as_bytes(std::span(&flow.header, 1));
  bool follows = mayFollow(p, payload.size());
  int more = follows && !payload.empty() ? MSG_MORE : 0;
  while (flow.headerDone < head.size()) {
    auto rest = head.subspan(flow.headerDone);
    ssize_t n = move(
        ::send(sockets[p].fd(), rest.data(), rest.size(), MSG_NOSIGNAL | more),
        false, problem);
    // What it last said may still be there to be read: an abort.
    if (n < 0)
      return lastWord(p, problem);
    if (n == 0)
      return {};
    flow.headerDone += static_cast<size_t>(n);
  }
  if (!follows)
    return {};
  while (flow.done < payload.size()) {
    auto rest = payload.subspan(flow.done);
    ssize_t n =
        move(::send(sockets[p].fd(), rest.data(), rest.size(), MSG_NOSIGNAL),
             false, problem);
    if (n < 0)
      return lastWord(p, problem);
    if (n == 0)
      return {};
    flow.done += static_cast<uint64_t>(n);
  }
  flow.over = true;
  return {};
}

Status TcpGroup::receiveSome(uint32_t p, std::span<std::byte> payload) {
  Flow &flow = in[p];
  std::string problem;
  auto head = std::as_writable_bytes(std::span(&flow.header, 1));
  while (flow.headerDone < head.size()) {
    auto rest = head.subspan(flow.headerDone);
    ssize_t n =
        move(recv(sockets[p].fd(), rest.data(), rest.size(), 0), true, problem);
    if (n < 0)
      return ended(p, problem);
    if (n == 0)
      return {};
    flow.headerDone += static_cast<size_t>(n);
    if (flow.headerDone < head.size())
      continue;
    if (isAbort(flow.header)) {
      std::string text(flow.header.bytes, '\0');
      CIUIC_TRY(sockets[p].receive(std::as_writable_bytes(std::span(text)),
                                   after(30), name(p)));
      return abortOf(flow.header, name(p), std::move(text));
    }
    CIUIC_TRY(checkData(flow.header, name(p), sequence, payload.size()));
  }
  while (flow.done < payload.size()) {
    auto rest = payload.subspan(flow.done);
    ssize_t n =
        move(recv(sockets[p].fd(), rest.data(), rest.size(), 0), true, problem);
    if (n < 0)
      return ended(p, problem);
    if (n == 0)
      return {};
    flow.done += static_cast<uint64_t>(n);
  }
  flow.over = true;
  return {};
}

/// After a connection took no more data: why, as the other said last.
Status TcpGroup::lastWord(uint32_t p, const std::string &problem) {
  FrameHeader header;
  auto head = std::as_writable_bytes(std::span(&header, 1));
  bool between = in[p].over || in[p].headerDone == 0;
  if (!between || !sockets[p].receive(head, after(1), name(p)).ok() ||
      !isAbort(header))
    return ended(p, problem);
  std::string text(header.bytes, '\0');
  if (!sockets[p]
           .receive(std::as_writable_bytes(std::span(text)), after(1), name(p))
           .ok())
    return ended(p, problem);
  return abortOf(header, name(p), std::move(text));
}

Status TcpGroup::waiting() const {
  std::string names;
  for (uint32_t p = 0; p < place.processes; ++p)
    if (!in[p].over || !out[p].over)
      names += (names.empty() ? "" : ", ") + std::to_string(p);
  return Status::machine("no word from process " + names + " in " +
                         std::to_string(static_cast<int64_t>(timeout)) +
                         " s, in exchange " + std::to_string(sequence));
}

Status TcpGroup::run(Sends send, Receives receive) {
  const uint32_t count = place.processes;
  for (uint32_t p = 0; p < count; ++p) {
    in[p] = Flow();
    out[p] = Flow();
    out[p].header.sequence = sequence;
    out[p].header.bytes = send[p].size();
    in[p].over = out[p].over = p == place.process;
  }
  if (!send[place.process].empty())
    std::memmove(receive[place.process].data(), send[place.process].data(),
                 send[place.process].size());
  Deadline deadline = after(timeout);
  for (;;) {
    uint32_t open = 0;
    for (uint32_t p = 0; p < count; ++p) {
      polled[p] = {-1, 0, 0};
      if (in[p].over && out[p].over)
        continue;
      ++open;
      polled[p].fd = sockets[p].fd();
      bool sends = !out[p].over && (out[p].headerDone < sizeof(FrameHeader) ||
                                    mayFollow(p, send[p].size()));
      polled[p].events =
          static_cast<short>((in[p].over ? 0 : POLLIN) | (sends ? POLLOUT : 0));
    }
    if (open == 0)
      return {};
    int left = millisecondsTo(deadline);
    if (left == 0)
      return waiting();
    if (poll(polled.data(), count, left) <= 0)
      continue;
    for (uint32_t p = 0; p < count; ++p) {
      if (polled[p].revents == 0)
        continue;
      uint64_t before =
          in[p].headerDone + in[p].done + out[p].headerDone + out[p].done;
      // First what it says: it may have sent why it takes nothing any more.
      if (!in[p].over)
        CIUIC_TRY(receiveSome(p, receive[p]));
      if (!out[p].over)
        CIUIC_TRY(sendSome(p, send[p]));
      if (in[p].headerDone + in[p].done + out[p].headerDone + out[p].done !=
          before)
        deadline = after(timeout);
    }
  }
}

Status TcpGroup::exchange(Sends send, Receives receive) {
  if (!broken.ok())
    return Status(broken.code(), broken.str());
  if (send.size() != place.processes || receive.size() != place.processes ||
      send[place.process].size() != receive[place.process].size())
    return Status::invalid("an exchange of " + std::to_string(send.size()) +
                           " and " + std::to_string(receive.size()) +
                           " parts among " + std::to_string(place.processes) +
                           " processes");
  Status status = run(send, receive);
  ++sequence;
  if (!status.ok())
    broken = Status(status.code(), status.str());
  return status;
}

Status TcpGroup::check() {
  for (uint32_t p = 0; broken.ok() && p < place.processes; ++p) {
    if (!sockets[p].isOpen())
      continue;
    FrameHeader header;
    ssize_t n = recv(sockets[p].fd(), &header, sizeof(header), MSG_PEEK);
    std::string problem;
    if (move(n, true, problem) < 0)
      broken = ended(p, problem);
    else
      broken = saidWhy(p);
  }
  if (broken.ok())
    return {};
  return Status(broken.code(), broken.str());
}

void TcpGroup::abort(const Status &status) {
  if (told || status.ok())
    return;
  told = true;
  // A failure that was seen here but happened elsewhere is passed on as it is:
  // others may see this process's end before they see the first one's.
  auto [header, text] = makeAbort(broken.ok() ? status : broken, !broken.ok());
  for (uint32_t p = 0; p < place.processes; ++p) {
    // Within a frame these bytes would be taken for its payload.
    if (!sockets[p].isOpen() || (!broken.ok() && out[p].isWithin()))
      continue;
    Deadline soon = after(2);
    if (sockets[p]
            .send(std::as_bytes(std::span(&header, 1)), soon, name(p))
            .ok())
      (void)sockets[p].send(std::as_bytes(std::span(text)), soon, name(p)).ok();
    // The end of the stream: a plain close would discard what is not read.
    (void)shutdown(sockets[p].fd(), SHUT_WR);
  }
  if (broken.ok())
    broken = Status(status.code(), status.str());
}

} // namespace

Result<std::unique_ptr<ProcessGroup>> joinByTcp(const Place &place,
                                                const JoinOptions &options) {
  CIUIC_TRY_ASSIGN(std::vector<Socket> sockets,
                   meet(place, options.joinTimeout));
  return std::unique_ptr<ProcessGroup>(std::make_unique<TcpGroup>(
      place, std::move(sockets), options.exchangeTimeout));
}

} // namespace ciuic::rt::tcp
