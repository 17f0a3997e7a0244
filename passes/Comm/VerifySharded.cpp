//===- VerifySharded.cpp - The gate after sharding ------------------------===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Comm/BucketPlan.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::StateOp;

namespace {
/// What the module declares of one bucket.
struct Declared {
  BucketOp bucket;
  SmallVector<StateOp> members;
  SmallVector<StateOp> parameters, gradients, masters;
  SmallVector<StateOp> storage; ///< These and the moments.
};

struct VerifySharded : comm::impl::VerifyShardedPassBase<VerifySharded> {
  using VerifyShardedPassBase::VerifyShardedPassBase;

  void runOnOperation() final {
    if (failed(verify()))
      signalPassFailure();
  }

  LogicalResult verify();
  LogicalResult collect();
  LogicalResult verifyMembers(Declared &declared);
  LogicalResult verifyStorage(Declared &declared);
  LogicalResult verifyAxes();
  LogicalResult verifyFunction(func::FuncOp function);
  LogicalResult verifyAccess(Operation *op);
  LogicalResult verifyUnpack(UnpackOp unpack);
  LogicalResult verifyAccumulate(train::AccumulateOp accumulate);
  LogicalResult verifyGather(AllGatherOp gather);

  /// The bucket whose storage `value` is read or gathered from.
  Declared *bucketOf(Value value);
  /// Whether a member of `declared` has this place and shape.
  bool isMember(Declared &declared, int64_t offset, Type type);

  llvm::MapVector<StringRef, Declared> buckets;
  llvm::StringMap<StateOp> states;
};
} // namespace

LogicalResult VerifySharded::verify() {
  buckets.clear();
  states.clear();
  if (failed(collect()))
    return failure();
  for (auto &[name, declared] : buckets)
    if (failed(verifyMembers(declared)) || failed(verifyStorage(declared)))
      return failure();
  if (failed(verifyAxes()))
    return failure();
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (!function.isDeclaration() && failed(verifyFunction(function)))
      return failure();
  return success();
}

LogicalResult VerifySharded::collect() {
  for (auto bucket : getOperation().getOps<BucketOp>())
    buckets[bucket.getSymName()].bucket = bucket;
  for (auto state : getOperation().getOps<StateOp>()) {
    states[state.getSymName()] = state;
    Role role = state.getRole();
    bool member = role == Role::Parameter && !state.getOf();
    if (member && !state.getBucket())
      return state.emitError()
             << "parameter @" << state.getSymName()
             << " lies in no bucket, expected 'in @bucket at N'";
    std::optional<StringRef> owner = member ? state.getBucket() : state.getOf();
    if (!owner)
      continue; // Tables, metrics and scalars.
    auto it = buckets.find(*owner);
    if (it == buckets.end())
      return state.emitError()
             << stringifyRole(role) << " @" << state.getSymName() << " names @"
             << *owner << ", which is no comm.bucket";
    Declared &declared = it->second;
    (member ? declared.members : declared.storage).push_back(state);
    if (member)
      continue;
    if (role == Role::Parameter)
      declared.parameters.push_back(state);
    else if (role == Role::Gradient)
      declared.gradients.push_back(state);
    else if (role == Role::Master)
      declared.masters.push_back(state);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

LogicalResult VerifySharded::verifyMembers(Declared &declared) {
  BucketOp bucket = declared.bucket;
  if (declared.members.empty())
    return bucket.emitError()
           << "bucket @" << bucket.getSymName() << " has no member";
  llvm::sort(declared.members, [](StateOp a, StateOp b) {
    return *a.getOffset() < *b.getOffset();
  });
  uint64_t end = 0;
  StateOp before;
  for (StateOp member : declared.members) {
    uint64_t offset = *member.getOffset();
    std::optional<int64_t> counted = countElements(member.getTensorType());
    if (!counted)
      return member.emitError()
             << "parameter @" << member.getSymName() << " of "
             << member.getTensorType() << " has too many elements to lay out";
    uint64_t elements = *counted;
    auto place = [&]() {
      return member.emitError()
             << "parameter @" << member.getSymName() << " of " << elements
             << " elements at " << offset << " of bucket @"
             << bucket.getSymName();
    };
    if (offset % kAlignment != 0)
      return place() << " does not start at a multiple of " << kAlignment;
    if (offset < end) {
      InFlightDiagnostic diag = place() << " overlaps the one before it, which "
                                           "ends at "
                                        << end;
      diag.attachNote(before.getLoc())
          << "@" << before.getSymName() << " is declared here";
      return diag;
    }
    if (offset > bucket.getElements() ||
        elements > bucket.getElements() - offset)
      return place() << " ends outside of its " << bucket.getElements()
                     << " elements";
    end = offset + elements;
    before = member;
  }
  return success();
}

LogicalResult VerifySharded::verifyStorage(Declared &declared) {
  BucketOp bucket = declared.bucket;
  auto count = [&](ArrayRef<StateOp> found, StringRef what,
                   size_t expected) -> LogicalResult {
    if (found.size() == expected)
      return success();
    return bucket.emitError()
           << "bucket @" << bucket.getSymName() << " has " << found.size()
           << " states for its " << what << ", expected " << expected;
  };
  if (failed(count(declared.parameters, "parameters", 1)) ||
      failed(count(declared.gradients, "gradients", bucket.getTrainable())))
    return failure();
  Type element = declared.parameters.front().getTensorType().getElementType();
  bool narrow = element.getIntOrFloatBitWidth() < 32;
  if (bucket.getTrainable() && narrow &&
      failed(count(declared.masters, "master copies", 1)))
    return failure();
  for (StateOp member : declared.members)
    if (member.getTensorType().getElementType() != element)
      return member.emitError()
             << "parameter @" << member.getSymName() << " of "
             << member.getTensorType() << " lies in bucket @"
             << bucket.getSymName() << " of " << element;

  for (StateOp state : declared.storage) {
    RankedTensorType type = state.getTensorType();
    auto expected =
        int64_t(state.getSharded() ? bucket.getChunk() : bucket.getElements());
    if (type.getRank() != 1 || type.getDimSize(0) != expected)
      return state.emitError()
             << stringifyRole(state.getRole()) << " @" << state.getSymName()
             << " has type " << type << ", expected " << expected
             << " elements: " << (state.getSharded() ? "a chunk" : "the whole")
             << " of bucket @" << bucket.getSymName();
    if (state.getRole() != Role::Parameter && !type.getElementType().isF32())
      return state.emitError()
             << stringifyRole(state.getRole()) << " @" << state.getSymName()
             << " has type " << type << ", expected f32";
  }
  return success();
}

/// One name, one size, over buckets and collectives alike.
LogicalResult VerifySharded::verifyAxes() {
  llvm::StringMap<int64_t> sizes;
  WalkResult result = getOperation().walk([&](Operation *op) {
    auto axis = op->getAttrOfType<AxisAttr>("axis");
    if (!axis)
      return WalkResult::advance();
    int64_t size =
        sizes.try_emplace(axis.getName(), axis.getSize()).first->second;
    if (size == axis.getSize())
      return WalkResult::advance();
    op->emitOpError() << "has " << axis.getSize() << " ranks along axis \""
                      << axis.getName() << "\", which has " << size
                      << " elsewhere";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isCollective(Operation *op) {
  return isa<AllGatherOp, ReduceScatterOp, AllReduceOp>(op);
}

LogicalResult VerifySharded::verifyFunction(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << "@" << function.getName() << " has "
           << function.getBody().getBlocks().size()
           << " basic blocks, expected straight-line code: all ranks run the "
              "same collectives in the same order";
  bool applies = function.getName() == train::kApplyStep;
  WalkResult result = function.walk([&](Operation *op) {
    if (isCollective(op) && op->getParentOp() != function) {
      op->emitOpError() << "is inside a region of '"
                        << op->getParentOp()->getName()
                        << "', expected at the level of @"
                        << function.getName();
      return WalkResult::interrupt();
    }
    LogicalResult good = success();
    if (isa<train::ReadOp, train::WriteOp, train::AccumulateOp>(op))
      good = verifyAccess(op);
    if (auto unpack = dyn_cast<UnpackOp>(op); unpack && succeeded(good))
      good = verifyUnpack(unpack);
    if (auto gather = dyn_cast<AllGatherOp>(op);
        gather && !applies && succeeded(good))
      good = verifyGather(gather);
    return failed(good) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult VerifySharded::verifyAccess(Operation *op) {
  StringRef name = op->getAttrOfType<FlatSymbolRefAttr>("state").getValue();
  StateOp state = states.lookup(name);
  if (state && state.getBucket())
    return op->emitOpError()
           << "names parameter @" << name << ", which lies in bucket @"
           << *state.getBucket() << "; expected a state of the bucket";
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op);
      accumulate && state && state.getRole() == Role::Gradient)
    return verifyAccumulate(accumulate);
  return success();
}

Declared *VerifySharded::bucketOf(Value value) {
  while (isa_and_nonnull<AllGatherOp, TransferOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto read = value.getDefiningOp<train::ReadOp>();
  StateOp state = read ? states.lookup(read.getState()) : StateOp();
  if (!state || !state.getOf())
    return nullptr;
  auto it = buckets.find(*state.getOf());
  return it == buckets.end() ? nullptr : &it->second;
}

bool VerifySharded::isMember(Declared &declared, int64_t offset, Type type) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  // They are sorted by their offsets, of which no two are equal.
  auto it = llvm::partition_point(declared.members, [&](StateOp member) {
    return int64_t(*member.getOffset()) < offset;
  });
  return it != declared.members.end() &&
         int64_t(*(*it).getOffset()) == offset &&
         StateOp(*it).getTensorType().getShape() == shape;
}

LogicalResult VerifySharded::verifyUnpack(UnpackOp unpack) {
  Declared *declared = bucketOf(unpack.getBucket());
  if (!declared)
    return unpack.emitOpError()
           << "takes from a value that is no bucket's, expected train.read or "
              "comm.all_gather of a bucket's parameters";
  BucketOp bucket = declared->bucket;
  int64_t elements =
      cast<RankedTensorType>(unpack.getBucket().getType()).getNumElements();
  if (elements != int64_t(bucket.getElements()))
    return unpack.emitOpError()
           << "takes from " << elements << " elements of bucket @"
           << bucket.getSymName() << ", expected all " << bucket.getElements();
  if (!isMember(*declared, unpack.getAt(), unpack.getType()))
    return unpack.emitOpError() << "takes " << unpack.getType() << " at "
                                << unpack.getAt() << ", where bucket @"
                                << bucket.getSymName() << " has no such member";
  return success();
}

/// A bucket's gradient is a packed value of its members, perhaps reduced.
LogicalResult VerifySharded::verifyAccumulate(train::AccumulateOp accumulate) {
  StateOp state = states.lookup(accumulate.getState());
  auto it = buckets.find(*state.getOf());
  Value value = accumulate.getValue();
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReduceScatterOp, AllReduceOp, arith::ExtFOp, arith::TruncFOp>(op))
      break;
    value = op->getOperand(0);
  }
  auto pack = value.getDefiningOp<PackOp>();
  if (!pack)
    return accumulate.emitOpError()
           << "adds a value to " << accumulate.getStateAttr()
           << " that is no comm.pack of its members' gradients";
  BucketOp bucket = it->second.bucket;
  for (auto [member, offset] : llvm::zip(pack.getMembers(), pack.getAt()))
    if (!isMember(it->second, offset, member.getType()))
      return pack.emitOpError() << "lays " << member.getType() << " at "
                                << offset << ", where bucket @"
                                << bucket.getSymName() << " has no such member";
  return success();
}

LogicalResult VerifySharded::verifyGather(AllGatherOp gather) {
  auto leaves = [&](Operation *user) -> LogicalResult {
    InFlightDiagnostic diag = gather.emitOpError()
                              << "for \"" << gather.getUse()
                              << "\" is used outside of that group";
    diag.attachNote(user->getLoc())
        << "used here, by an op of \""
        << useGroup(blockOf(user), isBackward(user)) << "\"";
    return diag;
  };
  for (Operation *user : gather->getUsers()) {
    auto unpack = dyn_cast<UnpackOp>(user);
    if (!unpack)
      return user->emitOpError() << "uses a gathered bucket, which only "
                                    "comm.unpack views";
    for (Operation *reader : unpack->getUsers())
      if (useGroup(blockOf(reader), isBackward(reader)) != gather.getUse())
        return leaves(reader);
  }
  return success();
}
