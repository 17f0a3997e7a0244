//===- OffloadOptimizer.cpp - Optimizer states and updates on the host ----===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Comm/NearestSubset.h"
#include "passes/Comm/Passes.h"
#include <cmath>
#include <numeric>

namespace ciuic::comm {
#define GEN_PASS_DEF_OFFLOADOPTIMIZERPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::Space;
using train::StateOp;

namespace {
struct OffloadOptimizer
    : comm::impl::OffloadOptimizerPassBase<OffloadOptimizer> {
  using OffloadOptimizerPassBase::OffloadOptimizerPassBase;

  void runOnOperation() final {
    if (failed(offload()))
      signalPassFailure();
  }

  LogicalResult offload();
  LogicalResult offloadUpdate(Operation *update, SymbolTable &symbols);
  void moveToFiles(Operation *update, SymbolTable &symbols);

  Space space() { return device == "nvme" ? Space::Nvme : Space::Host; }
};
} // namespace

static StateOp stateOf(Value value, SymbolTable &symbols) {
  auto read = value.getDefiningOp<train::ReadOp>();
  return read ? symbols.lookup<StateOp>(read.getState()) : StateOp();
}

static int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

/// Whether `op` writes a state that does not live on the device.
static bool writesOffDevice(Operation *op, SymbolTable &symbols) {
  auto write = dyn_cast<train::WriteOp>(op);
  auto state = write ? symbols.lookup<StateOp>(write.getState()) : StateOp();
  return state && state.getSpace() != Space::Device;
}

static Value transfer(OpBuilder &builder, Location loc, Value value,
                      Space space) {
  return TransferOp::create(builder, loc, value, space);
}

LogicalResult OffloadOptimizer::offload() {
  ModuleOp module = getOperation();
  if (!(ratio >= 0.0 && ratio <= 1.0))
    return module.emitError()
           << "option ratio is " << ratio.getValue() << ", expected 0 to 1";
  if (device != "cpu" && device != "nvme")
    return module.emitError() << "option device is \"" << device.getValue()
                              << "\", expected cpu or nvme";
  auto apply = module.lookupSymbol<func::FuncOp>(train::kApplyStep);
  if (!apply || apply.isDeclaration())
    return module.emitError() << "has no @apply_step, whose updates the host "
                                 "could run";
  SmallVector<Operation *> updates;
  SmallVector<int64_t> elements;
  for (Operation &op : apply.getOps())
    if (isa<train::AdamOp, train::SGDOp>(op)) {
      updates.push_back(&op);
      elements.push_back(elementsOf(op.getOperand(0)));
    }
  // Whole buckets that come nearest to the share.
  int64_t total = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  int64_t wanted = static_cast<int64_t>(std::llround(ratio * double(total)));
  llvm::BitVector chosen = nearestSubset(elements, wanted);
  SymbolTable symbols(module);
  int64_t offloaded = 0;
  for (auto [i, update] : llvm::enumerate(updates)) {
    if (!chosen[i]) {
      remark::missed(update->getLoc(), commRemark("NotOffloaded"))
          << remark::reason(
                 "the share of {0:f4} is offloaded without these {1} "
                 "elements",
                 ratio.getValue(), elements[i]);
      continue;
    }
    offloaded += elements[i];
    if (failed(offloadUpdate(update, symbols)))
      return failure();
  }
  if (ratio < 1.0 && total > 0)
    remark::passed(apply.getLoc(), commRemark("OptimizerShare"))
        << remark::add("{0} of {1} buckets are offloaded, {2} of {3} elements "
                       "a rank: a share of {4:f4}, wanted {5:f4}",
                       chosen.count(), updates.size(), offloaded, total,
                       double(offloaded) / double(total), ratio.getValue());
  return success();
}

LogicalResult OffloadOptimizer::offloadUpdate(Operation *update,
                                              SymbolTable &symbols) {
  OpBuilder builder(update);
  Location loc = update->getLoc();
  // Operands: value, gradient, moments, then scalars; results: value, moments.
  unsigned moments = update->getNumResults() - 1;
  int64_t hostBytes = 0;
  auto toHost = [&](StateOp state) {
    state.setSpaceAttr(train::SpaceAttr::get(&getContext(), space()));
    hostBytes += train::bytesOf(state.getType());
  };
  StringRef bucket;
  bool sharded = false;
  for (unsigned i = 0; i < moments; ++i) {
    StateOp moment = stateOf(update->getOperand(2 + i), symbols);
    if (!moment || moment.getRole() != Role::Moment)
      return update->emitOpError()
             << "takes a moment that is not train.read of one";
    if (moment.getSpace() != Space::Device)
      return update->emitOpError() << "runs on the host already: @"
                                   << moment.getSymName() << " lives there";
    bucket = *moment.getOf();
    sharded = moment.getSharded();
    toHost(moment);
  }
  auto declared = symbols.lookup<BucketOp>(bucket);
  if (!declared)
    return update->emitOpError()
           << "updates what lies in no bucket; expected sharded IR";

  // The most precise copy lives on the host: an f32 parameter gets one there,
  // unless it lives there itself.
  Value value = update->getOperand(0);
  StateOp master = stateOf(value, symbols);
  auto copy = value.getDefiningOp<TransferOp>();
  bool inPlace = copy && copy.getSpace() == Space::Device && !copy.getUse();
  bool made = !inPlace && (!master || master.getRole() != Role::Master);
  if (inPlace) {
    update->setOperand(0, copy.getInput());
    if (copy->use_empty())
      copy.erase();
  }
  if (made) {
    std::string name = (bucket + ".master").str();
    if (Operation *taken = symbols.lookup(name))
      return taken->emitError()
             << "@" << name << " is the name of what bucket @" << bucket
             << " needs";
    OpBuilder atEnd(declared->getContext());
    atEnd.setInsertionPointAfter(declared);
    master = StateOp::create(
        atEnd, declared.getLoc(), /*trainable=*/false, Role::Master, name,
        FlatSymbolRefAttr::get(declared.getSymNameAttr()), /*slot=*/nullptr,
        cast<RankedTensorType>(value.getType()),
        train::ConstantInitAttr::get(&getContext(), train::Real(0.0)),
        /*bucket=*/nullptr, /*offset=*/nullptr, sharded);
    symbols.insert(master);
    update->setOperand(0, train::ReadOp::create(builder, loc, value.getType(),
                                                master.getSymName()));
    // A chunk of the device's parameter may have no other use.
    if (Operation *op = value.getDefiningOp(); op && op->use_empty())
      if (Value source = op->getNumOperands() ? op->getOperand(0) : Value();
          isa<ChunkOp, train::ReadOp>(op)) {
        op->erase();
        if (auto read = source ? source.getDefiningOp<train::ReadOp>()
                               : train::ReadOp();
            read && read->use_empty())
          read.erase();
      }
  }
  if (master)
    toHost(master);

  Value gradient = update->getOperand(1);
  update->setOperand(1, transfer(builder, loc, gradient, Space::Host));
  int64_t downBytes = train::bytesOf(gradient.getType());

  // Down to the parameter's own type on the host, then over.
  builder.setInsertionPointAfter(update);
  Value next = update->getResult(0);
  int64_t upBytes = 0;
  // What would go to the device and back is where it belongs.
  auto stayOnHost = [](Value result) {
    for (Operation *user : llvm::make_early_inc_range(result.getUsers()))
      if (auto back = dyn_cast<TransferOp>(user);
          back && back.getSpace() == Space::Host) {
        back.getResult().replaceAllUsesWith(result);
        back.erase();
      }
  };
  stayOnHost(next);
  SmallVector<OpOperand *> onDevice;
  for (OpOperand &use : next.getUses()) {
    Operation *user = use.getOwner();
    if (writesOffDevice(user, symbols))
      continue;
    if (auto narrow = dyn_cast<arith::TruncFOp>(user)) {
      stayOnHost(narrow.getResult());
      if (llvm::all_of(narrow->getUsers(), [&](Operation *reader) {
            return writesOffDevice(reader, symbols);
          }))
        continue;
      OpBuilder after(narrow);
      after.setInsertionPointAfter(narrow);
      Value moved = transfer(after, loc, narrow.getResult(), Space::Device);
      narrow.getResult().replaceAllUsesExcept(moved, moved.getDefiningOp());
      upBytes += train::bytesOf(moved.getType());
      continue;
    }
    onDevice.push_back(&use);
  }
  if (made)
    train::WriteOp::create(builder, loc, next, master.getSymName());
  if (!onDevice.empty()) {
    Value moved = transfer(builder, loc, next, Space::Device);
    for (OpOperand *use : onDevice)
      use->set(moved);
    upBytes += train::bytesOf(moved.getType());
  }
  // All states of a file go to the host and back, too.
  int64_t fileBytes = space() == Space::Nvme ? hostBytes : 0;
  remark::passed(loc, commRemark("OptimizerOffloaded")) << remark::add(
      "{0} keeps {1} bytes a rank {4}; a step moves {2} "
      "bytes there and {3} back",
      bucket, hostBytes, downBytes + fileBytes, upBytes + fileBytes,
      space() == Space::Nvme ? "in files" : "on the host");
  if (space() == Space::Nvme)
    moveToFiles(update, symbols);
  return success();
}

/// Brings the states of an update from files to the host, and back.
void OffloadOptimizer::moveToFiles(Operation *update, SymbolTable &symbols) {
  Location loc = update->getLoc();
  OpBuilder builder(update);
  for (unsigned i = 0; i < update->getNumResults(); ++i) {
    OpOperand &operand = update->getOpOperand(i == 0 ? 0 : i + 1);
    if (StateOp state = stateOf(operand.get(), symbols);
        !state || state.getSpace() != Space::Nvme)
      continue;
    operand.set(transfer(builder, loc, operand.get(), Space::Host));
  }
  for (OpResult result : update->getResults()) {
    SmallVector<train::WriteOp> writes;
    for (Operation *user : result.getUsers())
      if (auto write = dyn_cast<train::WriteOp>(user);
          write &&
          symbols.lookup<StateOp>(write.getState()).getSpace() == Space::Nvme)
        writes.push_back(write);
    for (train::WriteOp write : writes) {
      OpBuilder before(write);
      write.getValueMutable().assign(
          transfer(before, loc, result, Space::Nvme));
    }
  }
}
