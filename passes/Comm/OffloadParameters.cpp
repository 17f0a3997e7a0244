//===- OffloadParameters.cpp - Parameters on the host, copied up for use --===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/MapVector.h"
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

/// The reads and writes of one function by state, and the order of its ops as
/// they were: new ones change neither.
class Accesses {
public:
  explicit Accesses(func::FuncOp function) {
    unsigned position = 0;
    for (Operation &op : function.getBody().front()) {
      positions[&op] = position++;
      if (auto read = dyn_cast<train::ReadOp>(op))
        reads[read.getState()].push_back(read);
      else if (auto write = dyn_cast<train::WriteOp>(op))
        writes[write.getState()].push_back(write);
    }
  }

  bool isBefore(Operation *a, Operation *b) const {
    return positions.lookup(a) < positions.lookup(b);
  }
  SmallVector<train::ReadOp> readsOf(StateOp state) const {
    return reads.lookup(state.getSymName());
  }
  SmallVector<train::WriteOp> writesOf(StateOp state) const {
    return writes.lookup(state.getSymName());
  }

private:
  llvm::DenseMap<Operation *, unsigned> positions;
  llvm::StringMap<SmallVector<train::ReadOp>> reads;
  llvm::StringMap<SmallVector<train::WriteOp>> writes;
};

/// Copies one bucket's storage, as `read` gives it, to the device for each
/// use-group of a function.
class Uses {
public:
  Uses(train::ReadOp read, const Accesses &accesses)
      : read(read), accesses(accesses) {}

  /// Bytes that all copies move.
  int64_t copy();

private:
  /// The first op of each use-group, in the order in which they are met.
  using Firsts = llvm::MapVector<StringAttr, Operation *>;
  StringAttr groupOf(Operation *user) const;
  void meet(Firsts &firsts, StringAttr use, Operation *user) const;
  void copyForView(UnpackOp view);

  train::ReadOp read;
  const Accesses &accesses;
  llvm::DenseMap<StringAttr, Value> copies; ///< By use-group.
};
} // namespace

static Location named(Operation *near, StringRef name) {
  return NameLoc::get(StringAttr::get(near->getContext(), name),
                      near->getLoc());
}

StringAttr Uses::groupOf(Operation *user) const {
  return StringAttr::get(user->getContext(),
                         useGroup(blockOf(user), isBackward(user)));
}

void Uses::meet(Firsts &firsts, StringAttr use, Operation *user) const {
  auto [at, isNew] = firsts.try_emplace(use, user);
  if (!isNew && accesses.isBefore(user, at->second))
    at->second = user;
}

/// Each group that uses the view gets one of its own copy.
void Uses::copyForView(UnpackOp view) {
  Firsts firsts;
  for (Operation *user : view->getUsers())
    meet(firsts, groupOf(user), user);
  llvm::DenseMap<StringAttr, Value> views;
  for (auto [group, first] : firsts) {
    OpBuilder builder(first);
    auto own = UnpackOp::create(builder, view.getLoc(), view.getType(),
                                copies.lookup(group), view.getAtAttr());
    setUseGroup(own, blockOf(first), isBackward(first));
    views[group] = own;
  }
  for (OpOperand &use : llvm::make_early_inc_range(view->getUses()))
    use.set(views.lookup(groupOf(use.getOwner())));
  view.erase();
}

int64_t Uses::copy() {
  Firsts firsts;
  for (Operation *user : read->getUsers())
    if (auto gather = dyn_cast<AllGatherOp>(user))
      meet(firsts, gather.getUseAttr(), gather);
    else if (isa<UnpackOp>(user))
      for (Operation *reader : user->getUsers())
        meet(firsts, groupOf(reader), reader);
  int64_t bytes = 0;
  for (auto [use, first] : firsts) {
    OpBuilder builder(first);
    auto copy = TransferOp::create(builder, named(first, use), read.getResult(),
                                   Space::Device, use);
    setUseGroup(copy, blockOf(first), isBackward(first));
    copies[use] = copy;
    bytes += train::bytesOf(copy.getType());
  }
  for (Operation *user : llvm::make_early_inc_range(read->getUsers()))
    if (auto gather = dyn_cast<AllGatherOp>(user))
      gather.getInputMutable().assign(copies.lookup(gather.getUseAttr()));
    else if (auto view = dyn_cast<UnpackOp>(user))
      copyForView(view);
  return bytes;
}

/// Where the update works on the device: the old value comes from the host, if
/// it is needed, and the new one goes there. Returns the bytes moved each way.
static std::pair<int64_t, int64_t> moveUpdate(const Accesses &apply,
                                              StateOp state) {
  int64_t up = 0, down = 0;
  auto move = [](OpBuilder &builder, Operation *near, Value value,
                 Space to) -> Value {
    return TransferOp::create(builder, near->getLoc(), value, to);
  };
  for (train::ReadOp read : apply.readsOf(state)) {
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
  for (train::WriteOp write : apply.writesOf(state)) {
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
  std::vector<std::pair<StringRef, Accesses>> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      functions.emplace_back(function.getName(), function);
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
    for (const auto &[name, accesses] : functions) {
      if (name == train::kApplyStep) {
        inStep = moveUpdate(accesses, state);
        continue;
      }
      int64_t copied = 0;
      for (train::ReadOp read : accesses.readsOf(state))
        copied += Uses(read, accesses).copy();
      if (name == train::kMicroStep)
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
