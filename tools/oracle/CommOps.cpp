//===- CommOps.cpp - Layout, and the ops in which ranks meet --------------===//
#include "dialect/Comm/Comm.h"
#include "tools/oracle/Kernels.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

/// result = operand[at, at + size(result)).
static LogicalResult slice(const Invocation &call, int64_t at) {
  std::copy_n(call.operand(0).data.begin() + at, call.out[0].size(),
              call.out[0].data.begin());
  return success();
}

static LogicalResult unpack(const Invocation &call) {
  return slice(call,
               static_cast<int64_t>(cast<comm::UnpackOp>(call.op).getAt()));
}

static LogicalResult pack(const Invocation &call) {
  ArrayRef<int64_t> offsets = cast<comm::PackOp>(call.op).getAt();
  for (auto [member, offset] : llvm::zip_equal(call.in, offsets))
    std::copy(member->data.begin(), member->data.end(),
              call.out[0].data.begin() + offset);
  return success();
}

static LogicalResult chunk(const Invocation &call) {
  return slice(call, call.rank * call.out[0].size());
}

static LogicalResult transfer(const Invocation &call) { return slice(call, 0); }

Kernel oracle::findLayoutKernel(Operation *op) {
  return llvm::TypeSwitch<Operation *, Kernel>(op)
      .Case([](comm::UnpackOp) { return unpack; })
      .Case([](comm::PackOp) { return pack; })
      .Case([](comm::ChunkOp) { return chunk; })
      .Case([](comm::TransferOp) { return transfer; })
      .Default([](Operation *) { return nullptr; });
}

bool oracle::dependsOnRank(Operation *op) {
  return isa<comm::ChunkOp, train::AdamOp, train::SGDOp>(op);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The elements of `input` on all ranks, summed in rank order.
static std::vector<double> combine(const RankValues &input,
                                   comm::Reduction reduction) {
  std::vector<double> sum(input.front()->data.size());
  for (const TensorRef &tensor : input)
    for (auto [total, value] : llvm::zip_equal(sum, tensor->data))
      total += value;
  if (reduction == comm::Reduction::Mean)
    for (double &total : sum)
      total /= static_cast<double>(input.size());
  return sum;
}

static RankValues allGather(Operation *op, const RankValues &input) {
  auto whole = std::make_shared<Tensor>();
  whole->element = input.front()->element;
  for (const TensorRef &tensor : input)
    whole->data.insert(whole->data.end(), tensor->data.begin(),
                       tensor->data.end());
  whole->shape = {whole->size()};
  return RankValues(input.size(), whole);
}

static RankValues allReduce(Operation *op, const RankValues &input) {
  auto result = std::make_shared<Tensor>(*input.front());
  result->data = combine(input, cast<comm::AllReduceOp>(op).getReduction());
  return RankValues(input.size(), result);
}

static RankValues reduceScatter(Operation *op, const RankValues &input) {
  std::vector<double> sum =
      combine(input, cast<comm::ReduceScatterOp>(op).getReduction());
  auto size = static_cast<int64_t>(sum.size() / input.size());
  RankValues result;
  for (size_t rank = 0; rank < input.size(); ++rank) {
    auto chunk = std::make_shared<Tensor>();
    chunk->element = input.front()->element;
    chunk->shape = {size};
    auto begin = sum.begin() + static_cast<int64_t>(rank) * size;
    chunk->data.assign(begin, begin + size);
    result.push_back(chunk);
  }
  return result;
}

Collective oracle::findCollective(Operation *op) {
  return llvm::TypeSwitch<Operation *, Collective>(op)
      .Case([](comm::AllGatherOp) { return allGather; })
      .Case([](comm::AllReduceOp) { return allReduce; })
      .Case([](comm::ReduceScatterOp) { return reduceScatter; })
      .Default([](Operation *) { return nullptr; });
}
