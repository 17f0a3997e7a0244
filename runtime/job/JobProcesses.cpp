//===- JobProcesses.cpp - States that other processes store ---------------===//
//
// Process 0 writes checkpoints and exports. It asks for the elements of one
// parameter at a time, piece by piece, and the others answer until it says that
// it is done: no process ever holds more than a piece of another's states.
//
//===----------------------------------------------------------------------===//
#include "runtime/abi/Staging.h"
#include "runtime/base/StagedBytes.h"
#include "runtime/job/Job.h"
#include "runtime/job/StateElements.h"

#include <algorithm>

namespace ciuic::rt {
namespace {

/// Elements that one request asks for at most.
constexpr uint64_t mostRequested = abi::kSavePieceBytes / sizeof(float);

/// What process 0 tells the others while it collects states.
struct Request {
  uint64_t isLast = 1; ///< Nothing is asked for any more.
  uint64_t member = 0;
  uint64_t state = 0;
  uint64_t begin = 0, end = 0; ///< Elements of the member.
};

std::span<std::byte> bytesOf(Request &request) {
  return std::as_writable_bytes(std::span(&request, 1));
}

/// Of bucket elements [first, last) those that a process stores of a sharded
/// state: its ranks' chunks follow each other.
std::pair<uint64_t, uint64_t> partOf(const abi::State &state, RankRange ranks,
                                     uint64_t first, uint64_t last) {
  uint64_t held = elementsOf(state);
  uint64_t begin = std::max(first, ranks.first * held);
  return {begin, std::max(begin, std::min(last, ranks.end() * held))};
}

} // namespace

Status Job::exchangeElements(const abi::Member &member, const abi::State &state,
                             uint64_t begin, uint64_t end, float *out) const {
  uint64_t first = member.offset + begin, last = member.offset + end;
  std::vector<std::span<const std::byte>> send(group->processes());
  std::vector<std::span<std::byte>> receive(group->processes());
  auto [mineBegin, mineEnd] = partOf(state, ranks, first, last);
  if (group->process() == 0)
    for (uint32_t p = 1; p < group->processes(); ++p) {
      auto [from, to] = partOf(
          state, ranksOf(p, group->processes(), tables->ranks), first, last);
      receive[p] = std::as_writable_bytes(
          std::span(out + (from < to ? from - first : 0), to - from));
    }
  else
    send[0] = std::as_bytes(
        std::span(out + (mineBegin < mineEnd ? mineBegin - first : 0),
                  mineEnd - mineBegin));
  return group->exchange(send, receive);
}

Status Job::readMember(const abi::Member &member, const abi::State &state,
                       uint64_t begin, uint64_t end, float *out) const {
  CIUIC_TRY(readLocal(member, state, begin, end, out));
  auto [mineBegin, mineEnd] =
      partOf(state, ranks, member.offset + begin, member.offset + end);
  if (isAlone() || !state.sharded || mineEnd - mineBegin == end - begin)
    return {};
  for (uint64_t at = begin; at < end; at += mostRequested) {
    uint64_t to = std::min(end, at + mostRequested);
    Request request{0, static_cast<uint64_t>(&member - tables->members),
                    static_cast<uint64_t>(&state - tables->states), at, to};
    CIUIC_TRY(group->broadcast(bytesOf(request), 0));
    CIUIC_TRY(exchangeElements(member, state, at, to, out + (at - begin)));
  }
  return {};
}

Status Job::serveStates() {
  std::vector<float> values;
  for (;;) {
    Request request;
    CIUIC_TRY(group->broadcast(bytesOf(request), 0));
    if (request.isLast)
      return {};
    if (request.member >= tables->memberCount ||
        request.state >= tables->stateCount)
      return Status::machine("process 0 asked for what there is not");
    const abi::Member &member = tables->members[request.member];
    const abi::State &state = tables->states[request.state];
    if (state.bucket != member.bucket || !state.sharded ||
        request.begin > request.end || request.end > elementsOf(member) ||
        request.end - request.begin > mostRequested)
      return Status::machine("process 0 asked for what there is not");
    values.resize(request.end - request.begin);
    StagedBytes counted(values.size() * sizeof(float));
    CIUIC_TRY(
        readLocal(member, state, request.begin, request.end, values.data()));
    CIUIC_TRY(exchangeElements(member, state, request.begin, request.end,
                               values.data()));
  }
}

Status Job::collectStates(const std::function<Status()> &body) {
  if (group->process() != 0)
    return serveStates();
  // If it fails the others hear it from the group.
  CIUIC_TRY(body());
  if (isAlone())
    return {};
  Request last;
  return group->broadcast(bytesOf(last), 0);
}

} // namespace ciuic::rt
