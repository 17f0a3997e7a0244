//===- LowerUpdateOps.cpp - The optimizer step ----------------------------===//
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

/// Updates `inPlace` (parameter and moments) where they are; the op's results
/// take their places. A 16-bit rounding of the parameter rides along.
LogicalResult ProgramLowering::lowerOptimizer(
    Operation *op, Kind kind, ArrayRef<Value> inPlace, ArrayRef<Value> inputs,
    Value skip, ArrayRef<int64_t> ints, ArrayRef<double> reals) {
  if (shared.updatesFiles(op))
    return lowerFileUpdate(op, kind, inPlace, inputs, skip, ints, reals);
  // p, grad, m[, v], then the scalars.
  SmallVector<ViewAttr> views;
  Arena arena = onHost.contains(op->getResult(0)) ? Arena::Host : Arena::Device;
  for (auto [i, value] : llvm::enumerate(inPlace)) {
    Place place = placeOf(value);
    if (auto root = rootOf(value).getDefiningOp<train::ReadOp>()) {
      if (!isLastReader(shared.stateNamed(root.getStateAttr()), op))
        return op->emitOpError() << "cannot update operand " << i
                                 << " in place: it is read later";
    } else if (auto copy = value.getDefiningOp<comm::TransferOp>();
               !copy || !copy->hasOneUse()) {
      // A copy of a state that lives elsewhere may change, too.
      return op->emitOpError()
             << "cannot update operand " << i
             << " in place: it is neither a state nor a copy of its own";
    }
    places[op->getResult(i)] = place;
    views.push_back(place.view(Access::Update));
    if (i == 0)
      views.push_back(read(inputs.front()));
  }
  for (Value input : inputs.drop_front())
    views.push_back(readScalar(input, arena));

  Place half;
  for (Operation *user : op->getResult(0).getUsers()) {
    if (!isa<arith::TruncFOp>(user))
      continue;
    Value rounded = user->getResult(0);
    if (!half) {
      half = makePlace(rounded, nameOf(op) + ".half");
      views.push_back(half.view(Access::Write));
    }
    // Roundings to one type are one value.
    if (half.type != rounded.getType())
      continue;
    places[rounded] = half;
    skips[rounded] = skip;
  }
  TaskOp made =
      task(op, kind, arena == Arena::Host ? Stream::Host : Stream::Compute,
           views, ints, reals);
  made.setSkipAttr(readScalar(skip, arena));
  return success();
}

/// A rank's part of the parameter starts at rank times this many elements.
static int64_t rankStride(Value parameter, const ModuleLowering &shared) {
  int64_t elements =
      cast<RankedTensorType>(parameter.getType()).getNumElements();
  Operation *op = parameter.getDefiningOp();
  if (auto transfer = dyn_cast_or_null<comm::TransferOp>(op))
    op = transfer.getInput().getDefiningOp();
  if (isa_and_nonnull<comm::ChunkOp>(op))
    return elements;
  auto read = dyn_cast_or_null<train::ReadOp>(op);
  if (!read)
    return 0;
  train::StateOp state = shared.stateNamed(read.getStateAttr());
  return state && state.getSharded() ? elements : 0;
}

LogicalResult ProgramLowering::lowerUpdateOp(Operation *op) {
  auto named = [&](Value value, StringRef suffix) {
    return makePlace(value, suffix).view(Access::Write);
  };
  constexpr Stream compute = Stream::Compute;
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](train::SquareSumOp sum) {
        // One task a gradient, into slots that are added up in order.
        int64_t count = sum.getValues().size();
        auto scalar = cast<RankedTensorType>(sum.getResult().getType());
        auto slots = RankedTensorType::get({std::max<int64_t>(count, 1)},
                                           scalar.getElementType());
        Place place{
            shared.makeBuffer(op->getLoc(), name + ".square_sums",
                              train::bytesOf(slots), Arena::Device, {},
                              FlatSymbolRefAttr::get(program.getSymNameAttr())),
            0, 0, slots};
        for (auto [i, value] : llvm::enumerate(sum.getValues())) {
          StringRef of = placeOf(value).buffer.getValue();
          of.consume_front("buf.");
          task(op, Kind::SquareSum, compute,
               {read(value), place.sub(i * 8, scalar).view(Access::Write)}, {},
               {}, ("." + of).str());
        }
        if (count == 0)
          task(op, Kind::Zero, compute, {place.view(Access::Write)});
        task(op, Kind::SumSlots, compute,
             {place.view(Access::Read), named(sum.getResult(), "square_sum")});
        return success();
      })
      .Case([&](train::GradScaleOp scale) {
        task(op, Kind::GradScale, compute,
             {read(scale.getSquareSum()), read(scale.getCount()),
              read(scale.getScale()), named(scale.getCoef(), "coef"),
              named(scale.getNorm(), "norm"), named(scale.getSkip(), "skip")},
             {scale.getCheck()},
             {scale.getSlots().convertToDouble(),
              scale.getClip().convertToDouble()});
        return success();
      })
      .Case([&](train::LearningRateOp rate) {
        train::ScheduleAttr s = rate.getSchedule();
        task(op, Kind::LearningRate, compute,
             {read(rate.getStep()), named(rate.getResult(), "lr")},
             {static_cast<int64_t>(s.getKind()), s.getWarmup(), s.getTotal(),
              s.getLogarithmic()},
             {s.getBase(), s.getMin(), s.getMax(), s.getWarmupRatio(),
              s.getCosMinRatio()});
        return success();
      })
      .Case([&](train::AdvanceOp advance) {
        task(op, Kind::Advance, compute,
             {read(advance.getStep()), read(advance.getSkip()),
              named(advance.getResult(), "step")});
        return success();
      })
      .Case([&](train::UpdateLossScaleOp scale) {
        task(op, Kind::UpdateLossScale, compute,
             {read(scale.getScale()), read(scale.getIteration()),
              read(scale.getLastOverflow()), read(scale.getHysteresisLeft()),
              read(scale.getSkip()), named(scale.getNextScale(), "scale"),
              named(scale.getNextIteration(), "iteration"),
              named(scale.getNextLastOverflow(), "last_overflow"),
              named(scale.getNextHysteresis(), "hysteresis"),
              named(scale.getStopped(), "stopped")},
             {static_cast<int64_t>(scale.getWindow()),
              static_cast<int64_t>(scale.getHysteresis()),
              scale.getConsecutive()},
             {scale.getMin().convertToDouble()});
        return success();
      })
      .Case([&](train::AdamOp adam) {
        SmallVector<int64_t> ints = {adam.getDecoupled(),
                                     adam.getBiasCorrection(),
                                     rankStride(adam.getP(), shared)};
        llvm::append_range(ints, adam.getUndecayed());
        return lowerOptimizer(
            op, Kind::Adam, {adam.getP(), adam.getM(), adam.getV()},
            {adam.getGrad(), adam.getLr(), adam.getCoef(), adam.getStep(),
             adam.getSkip()},
            adam.getSkip(), ints,
            {adam.getBeta1().convertToDouble(),
             adam.getBeta2().convertToDouble(), adam.getEps().convertToDouble(),
             adam.getDecay().convertToDouble()});
      })
      .Case([&](train::SGDOp sgd) {
        SmallVector<int64_t> ints = {sgd.getNesterov(),
                                     rankStride(sgd.getP(), shared)};
        llvm::append_range(ints, sgd.getUndecayed());
        return lowerOptimizer(
            op, Kind::Sgd, {sgd.getP(), sgd.getM()},
            {sgd.getGrad(), sgd.getLr(), sgd.getCoef(), sgd.getSkip()},
            sgd.getSkip(), ints,
            {sgd.getMomentum().convertToDouble(),
             sgd.getDecay().convertToDouble()});
      })
      .Default([](Operation *other) {
        return other->emitOpError() << "has no lowering to sched";
      });
}
