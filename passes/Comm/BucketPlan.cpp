//===- BucketPlan.cpp - Which parameter lies where ------------------------===//
#include "passes/Comm/BucketPlan.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::StateOp;

//===----------------------------------------------------------------------===//
// Parameters and what follows them
//===----------------------------------------------------------------------===//

/// The block of parameters that no op uses.
static constexpr llvm::StringLiteral kUnusedBlock = "unused";

/// The functions in the order in which they decide a parameter's block:
/// @micro_step first, since it uses all that is trained.
static SmallVector<func::FuncOp> functionsByWeight(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (bool first : {true, false})
    for (auto function : module.getOps<func::FuncOp>())
      if ((function.getName() == train::kMicroStep) == first)
        functions.push_back(function);
  return functions;
}

std::optional<int64_t> comm::countElements(RankedTensorType type) {
  int64_t elements = 1;
  for (int64_t dim : type.getShape()) {
    std::optional<int64_t> product = llvm::checkedMul(elements, dim);
    // Headroom for padding and for bytes.
    if (!product || *product > (int64_t(1) << 56))
      return std::nullopt;
    elements = *product;
  }
  return elements;
}

/// As above of a parameter, of which there must be some.
static FailureOr<int64_t> countParameter(StateOp state) {
  std::optional<int64_t> elements = countElements(state.getTensorType());
  if (elements.value_or(0) > 0)
    return *elements;
  return state.emitError() << "parameter @" << state.getSymName() << " of "
                           << state.getTensorType()
                           << (elements ? " has no elements"
                                        : " has too many elements to lay out");
}

/// The parameter whose value, in its own or in its master's precision, is
/// operand 0 of an update.
static LogicalParameter *findUpdated(Operation *update,
                                     LogicalParameters &parameters,
                                     SymbolTable &symbols) {
  auto read = update->getOperand(0).getDefiningOp<train::ReadOp>();
  if (!read)
    return nullptr;
  auto state = symbols.lookup<StateOp>(read.getState());
  if (!state)
    return nullptr;
  StringAttr name = state.getSymNameAttr();
  if (state.getRole() == Role::Master)
    name = state.getOfAttr().getAttr();
  auto it = parameters.find(name);
  return it == parameters.end() ? nullptr : &it->second;
}

static LogicalResult findBlocks(ModuleOp module,
                                LogicalParameters &parameters) {
  int64_t position = 0;
  for (func::FuncOp function : functionsByWeight(module)) {
    if (function.isDeclaration() || function.getName() == train::kApplyStep)
      continue;
    for (Operation &op : function.front()) {
      for (Value operand : op.getOperands()) {
        auto read = operand.getDefiningOp<train::ReadOp>();
        auto it = read ? parameters.find(read.getStateAttr().getAttr())
                       : parameters.end();
        if (it == parameters.end())
          continue;
        if (blockOf(&op).empty())
          return op.emitOpError() << "uses parameter " << read.getStateAttr()
                                  << " but belongs to no block; expected the "
                                     "attribute train.block";
        if (it->second.block.empty()) {
          it->second.block = blockOf(&op).str();
          it->second.firstUse = ++position;
        }
      }
    }
  }
  // What nothing uses is kept all the same: checkpoints hold it.
  for (auto &[name, parameter] : parameters)
    if (parameter.block.empty()) {
      parameter.block = kUnusedBlock.str();
      parameter.firstUse = ++position;
    }
  return success();
}

FailureOr<LogicalParameters> comm::collectParameters(ModuleOp module) {
  LogicalParameters parameters;
  SymbolTable symbols(module);
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter)
      continue;
    if (state.getBucket() || state.getOf())
      return state.emitError() << "parameter @" << state.getSymName()
                               << " lies in a bucket already: the module is "
                                  "sharded";
    if (Type type = state.getTensorType().getElementType();
        !type.isF32() && !type.isBF16() && !type.isF16())
      return state.emitError()
             << "parameter @" << state.getSymName() << " of "
             << state.getTensorType()
             << " is of no type that a bucket can hold, expected f32, bf16 or "
                "f16";
    FailureOr<int64_t> elements = countParameter(state);
    if (failed(elements))
      return failure();
    LogicalParameter parameter;
    parameter.state = state;
    parameter.elements = *elements;
    parameters.insert({state.getSymNameAttr(), std::move(parameter)});
  }

  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getOf() || state.getRole() == Role::Parameter)
      continue;
    auto it = parameters.find(state.getOfAttr().getAttr());
    if (it == parameters.end())
      return state.emitError()
             << stringifyRole(state.getRole()) << " @" << state.getSymName()
             << " belongs to " << state.getOfAttr()
             << ", which is no parameter";
    if (state.getTensorType().getShape() !=
        it->second.state.getTensorType().getShape())
      return state.emitError()
             << stringifyRole(state.getRole()) << " @" << state.getSymName()
             << " of " << state.getTensorType() << " belongs to "
             << state.getOfAttr() << " of " << it->second.state.getTensorType()
             << "; expected one shape";
    if (state.getRole() == Role::Moment)
      it->second.moments.push_back(state);
    else if (StateOp &slot = state.getRole() == Role::Gradient
                                 ? it->second.gradient
                                 : it->second.master)
      return state.emitError()
             << "is the second " << stringifyRole(state.getRole()) << " of "
             << state.getOfAttr() << ", after @" << slot.getSymName();
    else
      slot = state;
  }

  if (auto apply = module.lookupSymbol<func::FuncOp>(train::kApplyStep);
      apply && !apply.isDeclaration())
    for (Operation &op : apply.front()) {
      if (!isa<train::AdamOp, train::SGDOp>(op))
        continue;
      LogicalParameter *parameter = findUpdated(&op, parameters, symbols);
      if (!parameter)
        return op.emitOpError() << "updates a value that is no parameter's, "
                                   "expected train.read of one";
      if (parameter->update)
        return op.emitOpError()
               << "is the second update of @" << parameter->state.getSymName();
      parameter->update = &op;
    }

  if (failed(findBlocks(module, parameters)))
    return failure();
  return parameters;
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

static int64_t aligned(int64_t elements) {
  return llvm::alignTo(elements, kAlignment);
}

/// Consecutive blocks join while either side is smaller than `minElements`.
/// Names the groups of more than one block in `plan`.
static void
mergeBlocks(llvm::MapVector<StringRef, SmallVector<LogicalParameter *>> &blocks,
            int64_t minElements, BucketPlan &plan) {
  struct Group {
    SmallVector<StringRef> blocks;
    int64_t elements = 0;
  };
  SmallVector<Group> groups;
  for (auto &[block, parameters] : blocks) {
    int64_t elements = 0;
    for (LogicalParameter *parameter : parameters)
      elements += aligned(parameter->elements);
    if (block == kUnusedBlock)
      continue; // What nothing uses has no neighbours.
    if (groups.empty() || (groups.back().elements >= minElements))
      groups.emplace_back();
    groups.back().blocks.push_back(block);
    groups.back().elements += elements;
  }
  // A small last group has no right neighbour.
  if (groups.size() > 1 && groups.back().elements < minElements) {
    Group last = groups.pop_back_val();
    groups.back().blocks.append(last.blocks);
    groups.back().elements += last.elements;
  }
  for (Group &group : groups)
    if (group.blocks.size() > 1)
      for (StringRef block : group.blocks)
        plan.mergedBlock[block] =
            (group.blocks.front() + ".to." + group.blocks.back()).str();
}

/// Offsets of the members, then chunk and padding of the whole.
static void layOut(Bucket &bucket, const BucketOptions &options) {
  int64_t end = 0;
  for (Member &member : bucket.members) {
    member.offset = end;
    end = aligned(end + member.parameter->elements);
  }
  int64_t ranks = options.axis.getSize();
  bucket.chunk = aligned(llvm::divideCeil(end, ranks));
  bucket.elements = bucket.chunk * ranks;
  bucket.padding = bucket.elements - end;
  bucket.row = &zeroRow(options.stage, bucket.persistent);
}

/// Appends `bucket`, in parts if it is larger than the limit. A parameter is
/// never cut: one that is larger than the limit is a part of its own.
static void appendParts(Bucket bucket, const BucketOptions &options,
                        std::vector<Bucket> &buckets) {
  SmallVector<SmallVector<Member>> parts(1);
  int64_t size = 0;
  for (Member member : bucket.members) {
    int64_t elements = aligned(member.parameter->elements);
    if (options.maxBucketElements > 0 && !parts.back().empty() &&
        size + elements > options.maxBucketElements) {
      parts.emplace_back();
      size = 0;
    }
    parts.back().push_back(member);
    size += elements;
  }
  for (auto [index, members] : llvm::enumerate(parts)) {
    Bucket part = bucket;
    part.members = members;
    if (parts.size() > 1)
      part.name += "." + std::to_string(index);
    layOut(part, options);
    buckets.push_back(std::move(part));
  }
}

FailureOr<BucketPlan> comm::planBuckets(ModuleOp module,
                                        LogicalParameters &parameters,
                                        const BucketOptions &options) {
  BucketPlan plan;
  bool applies = module.lookupSymbol(train::kApplyStep) != nullptr;

  SmallVector<LogicalParameter *> byUse;
  for (auto &[name, parameter] : parameters)
    byUse.push_back(&parameter);
  llvm::sort(byUse, [](LogicalParameter *a, LogicalParameter *b) {
    return a->firstUse < b->firstUse;
  });
  llvm::MapVector<StringRef, SmallVector<LogicalParameter *>> blocks;
  for (LogicalParameter *parameter : byUse)
    blocks[parameter->block];
  // Within a block, parameters keep the order in which they are declared.
  for (auto &[name, parameter] : parameters)
    blocks[parameter.block].push_back(&parameter);
  if (options.minBucketElements > 0)
    mergeBlocks(blocks, options.minBucketElements, plan);

  // (group, frozen, persistent, element type): one bucket each.
  using Key = std::tuple<StringRef, unsigned, unsigned, Type>;
  llvm::MapVector<Key, Bucket> byKey;
  llvm::StringMap<Type> firstType;
  for (auto &[block, members] : blocks)
    for (LogicalParameter *parameter : members) {
      // Without an optimizer the declaration tells what will be trained.
      bool trainable = applies ? parameter->update != nullptr
                               : parameter->state.getTrainable();
      bool persistent = options.stage == kMaxStage &&
                        parameter->elements < options.persistenceThreshold;
      Type type = parameter->state.getTensorType().getElementType();
      StringRef group = plan.groupOf(block);
      Bucket &bucket =
          byKey[{group, !trainable ? 1u : 0u, persistent ? 1u : 0u, type}];
      if (bucket.members.empty()) {
        bucket.name = group.str();
        if (!trainable)
          bucket.name += ".frozen";
        if (persistent)
          bucket.name += ".whole";
        // Names tell element types apart where a block has several.
        Type &first = firstType.try_emplace(bucket.name, type).first->second;
        if (first != type)
          llvm::raw_string_ostream(bucket.name) << "." << type;
        bucket.block = group.str();
        bucket.trainable = trainable;
        bucket.persistent = persistent;
        bucket.elementType = type;
        bucket.hasMaster = trainable && parameter->master;
      }
      if (trainable && bucket.hasMaster != bool(parameter->master))
        return parameter->state.emitError()
               << "parameter @" << parameter->state.getSymName()
               << (parameter->master ? " has" : " has no")
               << " master copy, unlike @"
               << bucket.members.front().parameter->state.getSymName()
               << " of the same block and type";
      bucket.members.push_back({parameter, 0});
    }
  for (auto &[key, bucket] : byKey)
    appendParts(std::move(bucket), options, plan.buckets);

  for (auto [index, bucket] : llvm::enumerate(plan.buckets))
    for (auto [place, member] : llvm::enumerate(bucket.members))
      plan.placeOf[member.parameter->state.getSymName()] = {index, place};
  return plan;
}
