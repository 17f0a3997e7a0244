//===- LocalCollectives.cpp - Collectives within one process --------------===//
#include "runtime/comm/local/LocalCollectives.h"

#include "runtime/abi/Sizes.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Parallel.h"

#include <cstring>

namespace ciuic::rt {
namespace {

/// Elements of one piece of a collective.
constexpr int64_t pieceElements = int64_t(1) << 16;
constexpr uint32_t mostRanks = mostReducedRanks;

/// The two views of each rank, checked.
struct Sides {
  std::vector<Tensor> in, out;
  abi::DType dtype = abi::DType::F32;
  int64_t inElements = 0, outElements = 0;
};

Result<Sides> checkSides(const TaskArguments &a) {
  if (a.ranks == 0 || a.views.size() != size_t(2) * a.ranks)
    return Status::invalid("found " + std::to_string(a.views.size()) +
                           " views, expected 2 of each of " +
                           std::to_string(a.ranks) + " ranks");
  Sides sides;
  sides.dtype = a.views[0].dtype;
  sides.inElements = a.views[0].elements();
  sides.outElements = a.views[1].elements();
  if (sides.dtype == abi::DType::I32)
    return Status::invalid("i32 values do not travel");
  for (uint32_t rank = 0; rank < a.ranks; ++rank) {
    const Tensor &in = a.views[2 * rank], &out = a.views[2 * rank + 1];
    if (!in.isDense() || !out.isDense() || in.dtype != sides.dtype ||
        out.dtype != sides.dtype || in.elements() != sides.inElements ||
        out.elements() != sides.outElements)
      return Status::invalid("from " + describe(in) + " to " + describe(out) +
                             ": expected dense tensors of one type and size");
    sides.in.push_back(in);
    sides.out.push_back(out);
  }
  return sides;
}

Status expectElements(int64_t found, int64_t expected) {
  if (found == expected)
    return {};
  return Status::invalid("the whole has " + std::to_string(found) +
                         " elements, expected " + std::to_string(expected));
}

std::byte *at(const Tensor &tensor, int64_t element) {
  return tensor.as<std::byte>() +
         element * static_cast<int64_t>(byteSize(tensor.dtype));
}

/// out[i] = factor * sum over ranks of in[rank][offset + i].
void reduce(const Sides &sides, int64_t offset, void *out, int64_t n,
            double factor) {
  const void *parts[mostRanks]; // On the stack: a step allocates nothing.
  for (size_t rank = 0; rank < sides.in.size(); ++rank)
    parts[rank] = at(sides.in[rank], offset);
  reduceParts(sides.dtype, parts, static_cast<int64_t>(sides.in.size()), out, n,
              factor);
}

Status expectFewRanks(const TaskArguments &a) {
  if (a.ranks <= mostRanks)
    return {};
  return Status::invalid("a reduction over " + std::to_string(a.ranks) +
                         " ranks, expected at most " +
                         std::to_string(mostRanks));
}

} // namespace

void reduceParts(abi::DType dtype, const void *const *parts, int64_t ranks,
                 void *out, int64_t n, double factor) {
  if (dtype != abi::DType::F64) {
    hostKernels().reduceRanks(dtype, parts, ranks, out, n, factor);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t rank = 0; rank < ranks; ++rank)
      sum += static_cast<const double *>(parts[rank])[i];
    static_cast<double *>(out)[i] = sum * factor;
  }
}

Result<OperationPtr> makeAllGather(const TaskArguments &a) {
  CIUIC_TRY_ASSIGN(Sides sides, checkSides(a));
  int64_t ranks = a.ranks, chunk = sides.inElements;
  CIUIC_TRY(expectElements(sides.outElements, chunk * ranks));
  int64_t pieces = chunkCount(chunk, pieceElements);
  return makeLambdaOperation([=, sides = std::move(sides)]() -> Status {
    // A piece is read once and written to every rank while it is in cache.
    parallelFor(ranks * pieces, [&](int64_t index) {
      int64_t from = index / pieces, begin = index % pieces * pieceElements;
      int64_t n = std::min(pieceElements, chunk - begin);
      const std::byte *source = at(sides.in[static_cast<size_t>(from)], begin);
      for (const Tensor &whole : sides.out) {
        std::byte *target = at(whole, from * chunk + begin);
        if (target != source)
          std::memcpy(target, source,
                      static_cast<size_t>(n) * byteSize(sides.dtype));
      }
    });
    return {};
  });
}

Result<OperationPtr> makeReduceScatter(const TaskArguments &a) {
  CIUIC_TRY_ASSIGN(Sides sides, checkSides(a));
  CIUIC_TRY(expectFewRanks(a));
  if (a.ints.empty())
    return Status::invalid("does not say whether it is a sum or a mean");
  int64_t ranks = a.ranks, chunk = sides.outElements;
  CIUIC_TRY(expectElements(sides.inElements, chunk * ranks));
  double factor = a.ints[0] ? 1.0 / static_cast<double>(ranks) : 1.0;
  int64_t pieces = chunkCount(chunk, pieceElements);
  return makeLambdaOperation([=, sides = std::move(sides)]() -> Status {
    parallelFor(ranks * pieces, [&](int64_t index) {
      int64_t to = index / pieces, begin = index % pieces * pieceElements;
      reduce(sides, to * chunk + begin,
             at(sides.out[static_cast<size_t>(to)], begin),
             std::min(pieceElements, chunk - begin), factor);
    });
    return {};
  });
}

Result<OperationPtr> makeAllReduce(const TaskArguments &a) {
  CIUIC_TRY_ASSIGN(Sides sides, checkSides(a));
  CIUIC_TRY(expectFewRanks(a));
  if (a.ints.empty())
    return Status::invalid("does not say whether it is a sum or a mean");
  CIUIC_TRY(expectElements(sides.inElements, sides.outElements));
  double factor = a.ints[0] ? 1.0 / static_cast<double>(a.ranks) : 1.0;
  return makeLambdaOperation([=, sides = std::move(sides)]() -> Status {
    parallelChunks(sides.outElements, pieceElements,
                   [&](int64_t begin, int64_t end) {
                     std::byte *first = at(sides.out[0], begin);
                     reduce(sides, begin, first, end - begin, factor);
                     size_t bytes = static_cast<size_t>(end - begin) *
                                    byteSize(sides.dtype);
                     for (size_t rank = 1; rank < sides.out.size(); ++rank)
                       std::memcpy(at(sides.out[rank], begin), first, bytes);
                   });
    return {};
  });
}

} // namespace ciuic::rt
