//===- OffloadParameters.cpp - Parameters on the host, copied up for use --===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_OFFLOADPARAMETERSPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::Space;
using train::StateOp;

namespace {
struct OffloadParameters
    : comm::impl::OffloadParametersPassBase<OffloadParameters> {
  using OffloadParametersPassBase::OffloadParametersPassBase;

  void runOnOperation() final {
    if (failed(offload()))
      signalPassFailure();
  }

  LogicalResult offload();
};

/// Copies one bucket's storage, as `read` gives it, to the device for each
/// use-group of a function.
class Uses {
public:
  explicit Uses(train::ReadOp read) : read(read) {}

  /// Bytes that all copies move.
  int64_t copy();

private:
  void copyForGather(AllGatherOp gather);
  void copyForView(UnpackOp view);
  Value copyFor(StringRef use, Operation *user);

  train::ReadOp read;
  llvm::StringMap<TransferOp> copies; ///< By use-group.
  int64_t bytes = 0;
};
} // namespace

static Location named(Operation *near, StringRef name) {
  return NameLoc::get(StringAttr::get(near->getContext(), name),
                      near->getLoc());
}

/// The value on the device for the group `use`, known to `user`, one of it.
Value Uses::copyFor(StringRef use, Operation *user) {
  TransferOp &copy = copies[use];
  if (copy) {
    if (user->isBeforeInBlock(copy))
      copy->moveBefore(user);
    return copy;
  }
  OpBuilder builder(user);
  copy = TransferOp::create(builder, named(user, use), read.getResult(),
                            Space::Device, builder.getStringAttr(use));
  setUseGroup(copy, blockOf(user), isBackward(user));
  bytes += train::bytesOf(copy.getType());
  return copy;
}

void Uses::copyForGather(AllGatherOp gather) {
  gather.getInputMutable().assign(copyFor(gather.getUse(), gather));
}

/// Each group that uses the view gets one of its own copy.
void Uses::copyForView(UnpackOp view) {
  llvm::StringMap<UnpackOp> views;
  for (OpOperand &use : llvm::make_early_inc_range(view->getUses())) {
    Operation *user = use.getOwner();
    bool backward = isBackward(user);
    std::string group = useGroup(blockOf(user), backward);
    Value whole = copyFor(group, user);
    UnpackOp &own = views[group];
    if (!own) {
      OpBuilder builder(user);
      own = UnpackOp::create(builder, view.getLoc(), view.getType(), whole,
                             view.getAtAttr());
      setUseGroup(own, blockOf(user), backward);
    } else if (user->isBeforeInBlock(own)) {
      own->moveBefore(user);
    }
    use.set(own);
  }
  view.erase();
}

int64_t Uses::copy() {
  for (Operation *user : llvm::make_early_inc_range(read->getUsers()))
    if (auto gather = dyn_cast<AllGatherOp>(user))
      copyForGather(gather);
    else if (auto view = dyn_cast<UnpackOp>(user))
      copyForView(view);
  return bytes;
}

/// Where the update works on the device: the old value comes from the host, if
/// it is needed, and the new one goes there. Returns the bytes moved each way.
static std::pair<int64_t, int64_t> moveUpdate(func::FuncOp apply,
                                              StateOp state) {
  int64_t up = 0, down = 0;
  auto move = [](OpBuilder &builder, Operation *near, Value value,
                 Space to) -> Value {
    return TransferOp::create(builder, near->getLoc(), value, to);
  };
  for (auto read : llvm::to_vector(apply.getOps<train::ReadOp>())) {
    if (read.getState() != state.getSymName())
      continue;
    // A rank that updates a chunk of the whole copies no more than that.
    SmallVector<Value> moved;
    for (Operation *user : read->getUsers())
      if (auto chunk = dyn_cast<ChunkOp>(user))
        moved.push_back(chunk);
    if (llvm::any_of(read->getUsers(),
                     [](Operation *user) { return !isa<ChunkOp>(user); }))
      moved.push_back(read);
    for (Value value : moved) {
      Operation *producer = value.getDefiningOp();
      OpBuilder builder(producer->getContext());
      builder.setInsertionPointAfter(producer);
      Value copy = move(builder, producer, value, Space::Device);
      value.replaceUsesWithIf(copy, [&](OpOperand &use) {
        return use.getOwner() != copy.getDefiningOp() &&
               !isa<ChunkOp>(use.getOwner());
      });
      up += train::bytesOf(value.getType());
    }
  }
  for (auto write : apply.getOps<train::WriteOp>())
    if (write.getState() == state.getSymName()) {
      OpBuilder builder(write);
      write.getValueMutable().assign(
          move(builder, write, write.getValue(), Space::Host));
      down += train::bytesOf(write.getValue().getType());
    }
  return {up, down};
}

LogicalResult OffloadParameters::offload() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter || !state.getOf())
      continue;
    StringRef bucket = *state.getOf();
    auto declared = symbols.lookup<BucketOp>(bucket);
    if (!declared)
      return state.emitError()
             << "parameter @" << state.getSymName() << " stores @" << bucket
             << ", which is no bucket; expected sharded IR";
    if (state.getSpace() == Space::Host)
      return state.emitError() << "parameter @" << state.getSymName()
                               << " lives on the host already";
    int64_t bytes = train::bytesOf(state.getType());
    if (declared.getPersistent()) {
      remark::missed(state.getLoc(), commRemark("ParametersNotOffloaded"))
          << remark::reason("{0} is persistent: its {1} bytes stay on the "
                            "device, whole",
                            bucket, bytes);
      continue;
    }
    state.setSpaceAttr(train::SpaceAttr::get(&getContext(), Space::Host));
    int64_t inMicroStep = 0;
    std::pair<int64_t, int64_t> inStep(0, 0);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      if (function.getName() == train::kApplyStep) {
        inStep = moveUpdate(function, state);
        continue;
      }
      int64_t copied = 0;
      for (auto read : llvm::to_vector(function.getOps<train::ReadOp>()))
        if (read.getState() == state.getSymName())
          copied += Uses(read).copy();
      if (function.getName() == train::kMicroStep)
        inMicroStep = copied;
    }
    remark::passed(state.getLoc(), commRemark("ParametersOffloaded"))
        << remark::add("{0} keeps {1} bytes of parameters a rank on the host; "
                       "a micro-step copies {2} bytes up, an update {3} up and "
                       "{4} down",
                       bucket, bytes, inMicroStep, inStep.first, inStep.second);
  }
  return success();
}
