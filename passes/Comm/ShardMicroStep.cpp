//===- ShardMicroStep.cpp - Gathers before use, reductions after ----------===//
//
// The functions that compute with parameters: @micro_step, @eval_step and
// @forward. A parameter's read becomes a view of its bucket, gathered anew for
// each use-group where ranks hold chunks; the gradients of a bucket become one
// flat value as soon as the last of them is known.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Shard.h"
#include "passes/Comm/UseGroups.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
class MicroStep {
public:
  MicroStep(func::FuncOp function, const ShardContext &context)
      : function(function), context(context) {}

  LogicalResult run() {
    // The list before anything is added to it.
    SmallVector<Operation *> ops;
    for (Operation &op : function.front()) {
      ops.push_back(&op);
      // Blocks that are gathered together are one block to all that follows.
      if (StringRef block = blockOf(&op);
          context.stage == kMaxStage && context.plan.groupOf(block) != block)
        setUseGroup(&op, context.plan.groupOf(block), isBackward(&op));
    }

    for (Operation *op : ops)
      if (auto accumulate = dyn_cast<train::AccumulateOp>(op)) {
        if (failed(noteGradient(accumulate)))
          return failure();
      } else {
        replaceParameters(op);
      }
    for (Operation *op : ops)
      if (auto read = dyn_cast<train::ReadOp>(op);
          read && context.bucketOf(read.getState()) && read->use_empty())
        read.erase();
    for (unsigned index = 0; index < context.plan.buckets.size(); ++index)
      if (failed(reduceGradients(index)))
        return failure();
    report();
    return success();
  }

private:
  void replaceParameters(Operation *op);
  Value view(StringRef parameter, Operation *user);
  Value wholeBucket(unsigned index, StringRef group, bool backward,
                    Operation *user);
  LogicalResult noteGradient(train::AccumulateOp accumulate);
  LogicalResult reduceGradients(unsigned index);
  void report();

  struct Contribution {
    Member member;
    train::AccumulateOp accumulate;
  };

  func::FuncOp function;
  const ShardContext &context;
  /// Of a bucket: its storage's value, and the whole of it for a use-group.
  llvm::DenseMap<unsigned, Value> storage;
  llvm::StringMap<Value> wholes;
  /// Of a parameter, for a use-group.
  llvm::StringMap<Value> views;
  llvm::MapVector<unsigned, SmallVector<Contribution>> gradients;
  llvm::DenseSet<LogicalParameter *> added; ///< Whose gradients are in there.
  int64_t gatheredBytes = 0, reducedBytes = 0, gathers = 0, reductions = 0;
};
} // namespace

void MicroStep::replaceParameters(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (auto read = operand.get().getDefiningOp<train::ReadOp>();
        read && context.bucketOf(read.getState()))
      operand.set(view(read.getState(), op));
}

/// The parameter as `user` is to see it, from what its use-group has gathered.
Value MicroStep::view(StringRef parameter, Operation *user) {
  auto [index, place] = context.plan.placeOf.at(parameter);
  const Bucket &bucket = context.plan.buckets[index];
  const Member &member = bucket.members[place];
  bool gathered = bucket.row->parameter == Layout::Chunk;
  StringRef group = blockOf(user);
  std::string key = parameter.str();
  if (gathered)
    key += " for " + useGroup(group, isBackward(user));
  Value &known = views[key];
  if (known)
    return known;
  Value whole = wholeBucket(index, group, isBackward(user), user);
  OpBuilder builder(user);
  auto unpack = UnpackOp::create(builder, named(user, parameter),
                                 member.parameter->state.getTensorType(), whole,
                                 builder.getI64IntegerAttr(member.offset));
  setUseGroup(unpack, group, gathered && isBackward(user));
  known = unpack;
  return known;
}

Value MicroStep::wholeBucket(unsigned index, StringRef group, bool backward,
                             Operation *user) {
  const Bucket &bucket = context.plan.buckets[index];
  OpBuilder builder(user);
  Value &own = storage[index];
  if (!own)
    own = train::ReadOp::create(
        builder, named(user, bucket.stateName("param")),
        bucket.type(bucket.row->parameter, bucket.elementType),
        bucket.stateName("param"));
  if (bucket.row->parameter == Layout::Whole)
    return own;
  std::string use = useGroup(group, backward);
  Value &whole = wholes[bucket.name + " for " + use];
  if (whole)
    return whole;
  auto gather = AllGatherOp::create(
      builder, named(user, use), bucket.type(Layout::Whole, bucket.elementType),
      own, context.axis, builder.getStringAttr(use));
  setUseGroup(gather, group, backward);
  gathers += 1;
  gatheredBytes += train::bytesOf(gather.getType());
  if (group != bucket.block)
    remark::analysis(gather.getLoc(), remark::RemarkOpts::name("TiedGather")
                                          .category("comm")
                                          .function(function.getName()))
        << remark::add("bucket {0} is gathered again for {1}: {2} bytes",
                       bucket.name, use, train::bytesOf(gather.getType()));
  whole = gather;
  return whole;
}

LogicalResult MicroStep::noteGradient(train::AccumulateOp accumulate) {
  auto state = context.symbols.lookup<train::StateOp>(accumulate.getState());
  if (!state || state.getRole() != train::Role::Gradient)
    return success(); // A metric: each rank counts its own tokens.
  StringRef parameter = state.getOf().value();
  auto [index, place] = context.plan.placeOf.at(parameter);
  const Bucket &bucket = context.plan.buckets[index];
  if (!bucket.trainable)
    return accumulate.emitOpError() << "adds to the gradient of @" << parameter
                                    << ", which no optimizer updates";
  const Member &member = bucket.members[place];
  SmallVector<Contribution> &list = gradients[index];
  if (!added.insert(member.parameter).second)
    return accumulate.emitOpError()
           << "is the second to add to " << accumulate.getStateAttr() << " in @"
           << function.getName() << ", expected one sum";
  list.push_back({member, accumulate});
  return success();
}

/// Replaces the accumulations of a bucket's members by one of the bucket, in
/// place of the last of them. A member without gradient contributes zeros.
LogicalResult MicroStep::reduceGradients(unsigned index) {
  auto it = gradients.find(index);
  if (it == gradients.end())
    return success();
  const Bucket &bucket = context.plan.buckets[index];
  SmallVector<Contribution> &list = it->second;
  train::AccumulateOp last = list.back().accumulate;
  OpBuilder builder(last);
  Location loc = named(last, bucket.stateName("grad"));

  // The widest type of any member: nothing is rounded on the way in.
  Type element = bucket.elementType;
  for (Contribution &entry : list) {
    Type own = getElementTypeOrSelf(entry.accumulate.getValue());
    if (own.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
      element = own;
  }
  llvm::sort(list, [](const Contribution &a, const Contribution &b) {
    return a.member.offset < b.member.offset;
  });
  SmallVector<Value> values;
  SmallVector<int64_t> offsets;
  for (Contribution &entry : list) {
    Value value =
        convertFloat(builder, loc, entry.accumulate.getValue(), element);
    values.push_back(value);
    offsets.push_back(entry.member.offset);
  }

  bool backward = isBackward(last) || llvm::any_of(values, [](Value value) {
                    Operation *op = value.getDefiningOp();
                    return op && isBackward(op);
                  });
  auto mark = [&](Operation *op) { setUseGroup(op, bucket.block, backward); };
  auto pack = PackOp::create(builder, loc, bucket.type(Layout::Whole, element),
                             values, builder.getDenseI64ArrayAttr(offsets));
  mark(pack);
  Value sum = pack;
  if (bucket.row->reduceAt == ReduceAt::MicroStep) {
    if (context.communicationType)
      sum = convertFloat(builder, loc, sum, context.communicationType);
    if (Operation *op = sum.getDefiningOp())
      mark(op);
    reductions += 1;
    reducedBytes += train::bytesOf(sum.getType());
    auto reduce = ReduceScatterOp::create(
        builder, loc, bucket.type(Layout::Chunk, getElementTypeOrSelf(sum)),
        sum, Reduction::Mean, context.axis,
        builder.getStringAttr(bucket.stateName("grad")));
    mark(reduce);
    sum = reduce;
  }
  mark(
      train::AccumulateOp::create(builder, loc, sum, bucket.stateName("grad")));
  for (Contribution &entry : list)
    entry.accumulate.erase();
  return success();
}

void MicroStep::report() {
  remark::analysis(function.getLoc(), remark::RemarkOpts::name("MicroStep")
                                          .category("comm")
                                          .function(function.getName()))
      << remark::add("@{0} gathers {1} bytes in {2} gathers and reduces {3} "
                     "bytes in {4} reductions over {5} ranks",
                     function.getName(), gatheredBytes, gathers, reducedBytes,
                     reductions, context.axis.getSize());
}

LogicalResult comm::shardMicroStep(func::FuncOp function,
                                   const ShardContext &context) {
  return MicroStep(function, context).run();
}
