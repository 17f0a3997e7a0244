//===- RemoteCollectives.cpp - Collectives among processes ----------------===//
#include "runtime/comm/remote/RemoteCollectives.h"

#include "runtime/abi/Sizes.h"
#include "runtime/abi/Staging.h"
#include "runtime/comm/local/LocalCollectives.h"
#include "runtime/kernels/host/Parallel.h"

#include <cstring>

namespace ciuic::rt {

RemoteWorld::RemoteWorld(ProcessGroup &group, uint32_t ranks)
    : group(group), ranks(ranks),
      local(ranksOf(group.process(), group.processes(), ranks)),
      mostLocal((ranks + group.processes() - 1) / group.processes()) {}

Status RemoteWorld::commit() {
  if (reserved <= memory.bytes())
    return {};
  memory = HostArena();
  CIUIC_TRY_ASSIGN(memory, HostArena::allocate(
                               reserved, "messages to other processes", false));
  return {};
}

namespace {

/// Elements that one thread adds at a time.
constexpr int64_t grain = int64_t(1) << 14;

/// What the three kinds have in common: the views of this process's ranks.
class RemoteOperation : public Operation {
public:
  RemoteOperation(RemoteWorld &world, abi::DType dtype)
      : world(world), dtype(dtype),
        width(static_cast<int64_t>(byteSize(dtype))),
        send(world.group.processes()), receive(world.group.processes()) {}

  /// Pairs of input and output, of each local rank.
  void takeViews(std::span<const Tensor> views) {
    for (size_t i = 0; i < views.size(); i += 2) {
      in.push_back(views[i].as<std::byte>());
      out.push_back(views[i + 1].as<std::byte>());
    }
  }

protected:
  uint32_t processes() const { return world.group.processes(); }
  bool isOwn(uint32_t p) const { return p == world.group.process(); }
  int64_t localRanks() const { return world.local.count; }
  std::byte *at(std::byte *base, int64_t element) const {
    return base + element * width;
  }
  size_t bytes(int64_t elements) const {
    return static_cast<size_t>(elements * width);
  }

  RemoteWorld &world;
  const abi::DType dtype;
  const int64_t width;              ///< Of an element, in bytes.
  std::vector<std::byte *> in, out; ///< Of each local rank.
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
};

/// Every rank's chunk goes once to every process, straight into the whole of
/// its first rank, which is copied to the others.
class RemoteAllGather final : public RemoteOperation {
public:
  RemoteAllGather(RemoteWorld &world, abi::DType dtype, int64_t chunk)
      : RemoteOperation(world, dtype), chunk(chunk) {}

  Status run() override {
    const int64_t here = localRanks(), first = world.local.first;
    copy(here * here, [&](int64_t index) {
      auto from = static_cast<size_t>(index / here);
      auto to = static_cast<size_t>(index % here);
      return Move{in[from], at(out[to], (first + index / here) * chunk)};
    });
    // The i-th ranks of all processes at a time.
    for (uint32_t i = 0; i < world.mostLocal; ++i) {
      for (uint32_t p = 0; p < processes(); ++p) {
        RankRange theirs = world.ranksOfProcess(p);
        send[p] = {};
        receive[p] = {};
        if (isOwn(p))
          continue;
        if (i < world.local.count)
          send[p] = {in[i], bytes(chunk)};
        if (i < theirs.count)
          receive[p] = {at(out[0], int64_t{theirs.first + i} * chunk),
                        bytes(chunk)};
      }
      CIUIC_TRY(world.group.exchange(send, receive));
    }
    const int64_t others = here - 1;
    copy(others * world.ranks, [&](int64_t index) {
      int64_t from = index / others;
      std::byte *target =
          at(out[static_cast<size_t>(1 + index % others)], from * chunk);
      bool isHere = world.local.holds(static_cast<uint32_t>(from));
      return Move{isHere ? target : at(out[0], from * chunk), target};
    });
    return {};
  }

private:
  struct Move {
    const std::byte *from;
    std::byte *to;
  };

  /// Copies the chunks of `count` moves in pieces, on all threads.
  template <typename Fn> void copy(int64_t count, const Fn &moveOf) {
    int64_t pieces = chunkCount(chunk, grain);
    parallelFor(count * pieces, [&](int64_t index) {
      Move move = moveOf(index / pieces);
      int64_t begin = index % pieces * grain;
      if (move.from != move.to)
        std::memcpy(move.to + begin * width, move.from + begin * width,
                    bytes(std::min(grain, chunk - begin)));
    });
  }

  const int64_t chunk;
};

/// Sums of the values of all ranks, in pieces: one for each local rank of its
/// chunk, or one of the whole for all.
class RemoteReduce final : public RemoteOperation {
public:
  RemoteReduce(RemoteWorld &world, abi::DType dtype, int64_t elements,
               bool scatter, double factor)
      : RemoteOperation(world, dtype), elements(elements), scatter(scatter),
        factor(factor) {
    // Of the same size in all processes, for the one with most ranks.
    int64_t perElement =
        width * world.ranks * (scatter ? 2 * int64_t{world.mostLocal} : 1);
    piece = std::clamp(abi::kExchangeBytes / perElement, abi::kLeastExchanged,
                       int64_t(1) << 16);
    piece = std::min(piece, std::max<int64_t>(elements, 1));
    world.reserve(static_cast<uint64_t>(piece * perElement));
  }

  Status run() override {
    for (int64_t begin = 0; begin < elements; begin += piece)
      CIUIC_TRY(runPiece(begin, std::min(piece, elements - begin)));
    return {};
  }

private:
  int64_t targets() const { return scatter ? localRanks() : 1; }

  /// What local rank `from` adds to the result of rank `to`, from `begin` on.
  std::byte *source(int64_t from, int64_t to, int64_t begin) const {
    return at(in[static_cast<size_t>(from)],
              (scatter ? to * elements : 0) + begin);
  }

  Status runPiece(int64_t begin, int64_t n) {
    // For process p: for each of its results, each local rank's values. A sum
    // that all want is packed once.
    std::byte *cursor = world.staging();
    auto pack = [&](int64_t to) {
      for (int64_t from = 0; from < localRanks(); ++from) {
        std::memcpy(cursor, source(from, to, begin), bytes(n));
        cursor += bytes(n);
      }
    };
    if (!scatter)
      pack(0);
    const std::span<const std::byte> forAll(world.staging(), cursor);
    for (uint32_t p = 0; p < processes(); ++p) {
      send[p] = {};
      receive[p] = {};
      if (isOwn(p))
        continue;
      RankRange theirs = world.ranksOfProcess(p);
      std::byte *packed = cursor;
      for (uint32_t to = theirs.first; scatter && to < theirs.end(); ++to)
        pack(to);
      send[p] = scatter ? std::span<const std::byte>(packed, cursor) : forAll;
      receive[p] = {cursor, bytes(n * targets() * theirs.count)};
      cursor += receive[p].size();
    }
    CIUIC_TRY(world.group.exchange(send, receive));
    for (int64_t target = 0; target < targets(); ++target)
      addUp(target, begin, n);
    return {};
  }

  void addUp(int64_t target, int64_t begin, int64_t n) {
    const void *parts[mostReducedRanks];
    for (uint32_t p = 0; p < processes(); ++p) {
      RankRange theirs = world.ranksOfProcess(p);
      for (int64_t i = 0; i < theirs.count; ++i)
        parts[theirs.first + i] =
            isOwn(p)
                ? source(i, world.local.first + target, begin)
                : receive[p].data() + bytes(n * (target * theirs.count + i));
    }
    std::byte *result = at(out[static_cast<size_t>(target)], begin);
    parallelChunks(n, grain, [&](int64_t first, int64_t last) {
      const void *here[mostReducedRanks];
      for (uint32_t rank = 0; rank < world.ranks; ++rank)
        here[rank] =
            static_cast<const std::byte *>(parts[rank]) + first * width;
      reduceParts(dtype, here, world.ranks, result + first * width,
                  last - first, factor);
      for (size_t rank = 1; !scatter && rank < out.size(); ++rank)
        std::memcpy(at(out[rank], begin + first), result + first * width,
                    bytes(last - first));
    });
  }

  const int64_t elements; ///< Of one result.
  const bool scatter;
  const double factor;
  int64_t piece = 1;
};

Status checkViews(const TaskArguments &a, const RemoteWorld &world) {
  if (world.local.count == 0 || a.ranks != world.ranks ||
      a.views.size() != size_t{2} * world.local.count)
    return Status::invalid("found " + std::to_string(a.views.size()) +
                           " views, expected 2 of each of " +
                           std::to_string(world.local.count) + " ranks");
  const Tensor &in = a.views[0], &out = a.views[1];
  if (in.dtype == abi::DType::I32)
    return Status::invalid("i32 values do not travel");
  for (size_t i = 0; i < a.views.size(); ++i) {
    const Tensor &expected = i % 2 ? out : in;
    if (!a.views[i].isDense() || a.views[i].dtype != in.dtype ||
        a.views[i].elements() != expected.elements())
      return Status::invalid("from " + describe(in) + " to " +
                             describe(a.views[i]) +
                             ": expected dense tensors of one type and size");
  }
  return {};
}

} // namespace

Result<OperationPtr> makeRemoteCollective(const TaskArguments &a,
                                          RemoteWorld &world) {
  CIUIC_TRY(checkViews(a, world));
  const Tensor &in = a.views[0], &out = a.views[1];
  const bool gather = a.kind == abi::TaskKind::AllGather;
  const bool scatter = a.kind == abi::TaskKind::ReduceScatter;
  int64_t whole = scatter ? in.elements() : out.elements();
  int64_t part = scatter ? out.elements() : in.elements();
  int64_t expected = gather || scatter ? part * world.ranks : part;
  if (whole != expected)
    return Status::invalid("the whole has " + std::to_string(whole) +
                           " elements, expected " + std::to_string(expected));
  std::unique_ptr<RemoteOperation> operation;
  if (gather) {
    operation = std::make_unique<RemoteAllGather>(world, in.dtype, part);
  } else {
    if (a.ints.empty())
      return Status::invalid("does not say whether it is a sum or a mean");
    if (world.ranks > mostReducedRanks)
      return Status::invalid("a reduction over " + std::to_string(world.ranks) +
                             " ranks, expected at most " +
                             std::to_string(mostReducedRanks));
    double factor = a.ints[0] ? 1.0 / static_cast<double>(world.ranks) : 1.0;
    operation =
        std::make_unique<RemoteReduce>(world, in.dtype, part, scatter, factor);
  }
  operation->takeViews(a.views);
  return OperationPtr(std::move(operation));
}

} // namespace ciuic::rt
