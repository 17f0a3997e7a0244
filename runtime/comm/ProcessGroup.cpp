//===- ProcessGroup.cpp - The processes that run one job ------------------===//
#include "runtime/comm/ProcessGroup.h"

#include <cstring>

namespace ciuic::rt {
namespace {

constexpr uint64_t mostTextBytes = 1 << 20;

class SingleProcess final : public ProcessGroup {
public:
  uint32_t process() const override { return 0; }
  uint32_t processes() const override { return 1; }
  Status exchange(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive) override {
    if (send.size() != 1 || receive.size() != 1 ||
        send[0].size() != receive[0].size())
      return Status::invalid("an exchange with oneself of unequal parts");
    if (!send[0].empty())
      std::memmove(receive[0].data(), send[0].data(), send[0].size());
    return {};
  }
  void abort(const Status &) override {}
};

} // namespace

std::unique_ptr<ProcessGroup> makeSingleProcess() {
  return std::make_unique<SingleProcess>();
}

Status ProcessGroup::broadcast(std::span<std::byte> bytes, uint32_t root) {
  std::vector<std::span<const std::byte>> send(processes());
  std::vector<std::span<std::byte>> receive(processes());
  if (process() == root)
    for (uint32_t p = 0; p < processes(); ++p)
      send[p] = p == root ? std::span<std::byte>() : bytes;
  else
    receive[root] = bytes;
  return exchange(send, receive);
}

Status ProcessGroup::broadcastText(std::string &text, uint32_t root) {
  uint64_t bytes = text.size();
  CIUIC_TRY(broadcast(std::as_writable_bytes(std::span(&bytes, 1)), root));
  // All processes take the same way.
  if (bytes > mostTextBytes)
    return Status::invalid("a text of " + std::to_string(bytes) +
                           " bytes for all processes, expected at most " +
                           std::to_string(mostTextBytes));
  text.resize(bytes);
  return broadcast(std::as_writable_bytes(std::span(text)), root);
}

Status ProcessGroup::gather(std::span<const std::byte> mine,
                            std::span<std::byte> all) {
  std::vector<std::span<const std::byte>> send(processes(), mine);
  std::vector<std::span<std::byte>> receive(processes());
  if (all.size() != mine.size() * processes())
    return Status::invalid("gathers " + std::to_string(mine.size()) +
                           " bytes of each process into " +
                           std::to_string(all.size()));
  for (uint32_t p = 0; p < processes(); ++p)
    receive[p] = all.subspan(p * mine.size(), mine.size());
  return exchange(send, receive);
}

Status ProcessGroup::barrier() {
  std::vector<std::span<const std::byte>> send(processes());
  std::vector<std::span<std::byte>> receive(processes());
  return exchange(send, receive);
}

} // namespace ciuic::rt
