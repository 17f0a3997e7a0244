//===- LowerFunction.cpp - Order, views and destinations ------------------===//
#include "mlir/IR/IRMapping.h"
#include "passes/TrainToSched/ProgramLowering.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

ProgramLowering::ProgramLowering(ModuleLowering &shared, func::FuncOp function,
                                 StringRef name, bool adds)
    : shared(shared), function(function), name(name), adds(adds),
      builder(function.getContext()) {}

/// The user's name for what an op computes, else the op's own.
std::string ProgramLowering::nameOf(Operation *op) const {
  std::string found;
  // The function's own location says nothing of the op.
  if (op->getLoc() != func::FuncOp(function).getLoc())
    op->getLoc()->walk([&](Location loc) {
      if (auto named = dyn_cast<NameLoc>(loc)) {
        found = named.getName().str();
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
  if (found.empty())
    found = op->getName().stripDialect().str();
  if (op->hasAttr(train::kBackwardAttr))
    found += ".bwd";
  return found;
}

Arena ProgramLowering::arenaOf(Value value) const {
  return onHost.contains(value) ? Arena::Host : Arena::Device;
}

Place ProgramLowering::placeOf(Value value) { return places.lookup(value); }

/// Gives `value` a place to be computed into: its destination, or a buffer.
Place ProgramLowering::makePlace(Value value, StringRef hint) {
  if (Place place = places.lookup(value))
    return place;
  Place place = destinations.lookup(value);
  if (!place) {
    auto type = cast<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    std::string label = name + "." + (hint.empty() ? nameOf(op) : hint.str());
    FlatSymbolRefAttr buffer = shared.makeBuffer(
        value.getLoc(), label, train::bytesOf(type), arenaOf(value), {},
        FlatSymbolRefAttr::get(program.getSymNameAttr()));
    place = Place{buffer, 0, 0, type};
  }
  places[value] = place;
  return place;
}

TaskOp ProgramLowering::task(Operation *origin, Kind kind, Stream stream,
                             ArrayRef<ViewAttr> views, ArrayRef<int64_t> ints,
                             ArrayRef<double> reals, StringRef suffix) {
  SmallVector<Attribute> attrs(views.begin(), views.end());
  MLIRContext *context = builder.getContext();
  bool isWhole = !suffix.empty() && suffix.front() != '.';
  TaskOp made = TaskOp::create(
      builder, origin->getLoc(), EventType::get(context),
      KindAttr::get(context, kind),
      builder.getStringAttr(isWhole ? suffix.str() : nameOf(origin) + suffix),
      StreamAttr::get(context, stream), ValueRange{},
      /*kernel=*/FlatSymbolRefAttr(), builder.getArrayAttr(attrs),
      DenseI64ArrayAttr::get(context, ints),
      DenseF64ArrayAttr::get(context, reals), /*skip=*/ViewAttr(),
      /*scratch=*/ViewAttr());
  if (Attribute backward = origin->getAttr(train::kBackwardAttr))
    made->setAttr(train::kBackwardAttr, backward);
  return made;
}

/// A task that passes on what a skipped step did not compute is skipped too.
void ProgramLowering::followSkip(TaskOp task, Value input, Value result) {
  Value skip = skips.lookup(input);
  if (!skip)
    return;
  task.setSkipAttr(readScalar(
      skip, task.getStream() == Stream::Host ? Arena::Host : Arena::Device));
  if (result)
    skips[result] = skip;
}

ViewAttr ProgramLowering::readScalar(Value value, Arena arena) {
  Place place = placeOf(value);
  if (arena == Arena::Device || shared.arenaOf(place) == Arena::Host)
    return place.view(Access::Read);
  Place &copy = hostScalars[value];
  if (!copy) {
    StringRef label = place.buffer.getValue();
    label.consume_front("buf.");
    label.consume_front(name + ".");
    Location loc = value.getLoc();
    copy = Place{
        shared.makeBuffer(loc, name + ".host." + label.str(),
                          train::bytesOf(place.type), Arena::Host, {},
                          FlatSymbolRefAttr::get(program.getSymNameAttr())),
        0, 0, place.type};
    // The name is that of what is copied, whichever task needs it first.
    Operation *origin = value.getDefiningOp();
    task(origin ? origin : function.getOperation(), Kind::Copy, Stream::D2H,
         {place.view(Access::Read), copy.view(Access::Write)}, {}, {},
         label.str() + ".to_host");
  }
  return copy.view(Access::Read);
}

/// Recompute regions end here: from now on order is by position.
void ProgramLowering::inlineRecompute() {
  SmallVector<train::RecomputeOp> regions;
  function.walk([&](train::RecomputeOp op) { regions.push_back(op); });
  for (train::RecomputeOp op : regions) {
    OpBuilder inliner(op);
    IRMapping map;
    Block &body = op.getBody().front();
    map.map(body.getArguments(), op.getInputs());
    for (Operation &inner : body.without_terminator())
      inliner.clone(inner, map)
          ->setAttr(train::kBackwardAttr, inliner.getUnitAttr());
    for (auto [result, value] :
         llvm::zip(op.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(map.lookupOrDefault(value));
    op.erase();
  }
}

void ProgramLowering::collectAccesses() {
  for (Operation &op : function.getBody().front())
    if (auto read = dyn_cast<train::ReadOp>(op))
      reads[read.getStateAttr().getAttr()].push_back(read);
    else if (auto sum = dyn_cast<train::AccumulateOp>(op))
      ++accumulations[sum.getStateAttr().getAttr()];
    else if (auto write = dyn_cast<train::WriteOp>(op))
      written.insert(write.getStateAttr().getAttr());
}

Value sched::rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<comm::UnpackOp, comm::ChunkOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Whether no op from `before` on reads `state`, so that `before` may write to
/// its storage; `before` itself may read it if it can be done in place.
bool ProgramLowering::isLastReader(train::StateOp state, Operation *before) {
  // Updates of scalars read all of their operands before they write.
  bool readsFirst = isa<train::AdvanceOp, train::UpdateLossScaleOp,
                        train::AdamOp, train::SGDOp>(before);
  auto isLate = [&](Operation *user) {
    return user == before
               ? !readsFirst
               : before->isBeforeInBlock(user) && !isa<train::WriteOp>(user);
  };
  for (train::ReadOp read : reads.lookup(state.getSymNameAttr())) {
    SmallVector<Value> views = {read.getResult()};
    while (!views.empty()) {
      for (Operation *user : views.pop_back_val().getUsers()) {
        if (isa<comm::UnpackOp, comm::ChunkOp>(user))
          views.push_back(user->getResult(0));
        else if (isLate(user) || isPointwise(user))
          return false; // A pointwise user may be computed again later.
      }
    }
  }
  return true;
}

/// Lets the producer of a written value compute straight into the state.
void ProgramLowering::planWrite(train::WriteOp write) {
  Value value = write.getValue();
  Operation *producer = value.getDefiningOp();
  if (!producer || destinations.contains(value) ||
      isa<train::ReadOp, comm::UnpackOp, comm::ChunkOp, arith::ConstantOp>(
          producer))
    return;
  if (isLastReader(shared.stateNamed(write.getStateAttr()), producer))
    destinations[value] = shared.stateOf(write.getStateAttr());
}

/// Lets the producers of a pack's members compute straight into the bucket;
/// in f32, straight into the accumulator that the pack is added to.
void ProgramLowering::planPack(comm::PackOp pack) {
  auto type = cast<RankedTensorType>(pack.getResult().getType());
  auto isOurs = [&](Value member) {
    Operation *producer = member.getDefiningOp();
    return producer && !destinations.contains(member) &&
           !isa<train::ReadOp, comm::UnpackOp, comm::ChunkOp,
                arith::ConstantOp>(producer);
  };

  Place whole;
  bool direct = false;
  if (pack->hasOneUse() && type.getElementType().isF32()) {
    if (auto user = dyn_cast<train::AccumulateOp>(*pack->user_begin())) {
      Place state = shared.stateOf(user.getStateAttr());
      if (state.type == type &&
          accumulations.lookup(user.getStateAttr().getAttr()) == 1 &&
          llvm::all_of(pack.getMembers(), isOurs)) {
        whole = state;
        direct = true;
      }
    }
  }
  if (direct) {
    directPacks.insert(pack);
    places[pack.getResult()] = whole;
  } else {
    whole = makePlace(pack.getResult(), nameOf(pack));
  }

  int64_t elementBytes = type.getElementTypeBitWidth() / 8;
  for (auto [member, at] : llvm::zip(pack.getMembers(), pack.getAt())) {
    if (!isOurs(member))
      continue;
    // Only a product can add to what is there, and only if nothing else wants
    // the product by itself; others go through a buffer.
    bool canAdd = member.getDefiningOp<train::MatmulOp>() && member.hasOneUse();
    if (direct && adds && !canAdd)
      continue;
    destinations[member] =
        whole.sub(at * elementBytes, cast<RankedTensorType>(member.getType()));
    if (direct && adds)
      addsInPlace.insert(member);
  }
}

void ProgramLowering::planDestinations() {
  for (auto pack : function.getOps<comm::PackOp>())
    planPack(pack);
  for (auto write : function.getOps<train::WriteOp>())
    planWrite(write);
}

LogicalResult ProgramLowering::finishWrite(train::WriteOp write) {
  Place state = shared.stateOf(write.getStateAttr());
  Place value = placeOf(write.getValue());
  if (!value)
    return write.emitOpError() << "has no place for its value";
  if (value.buffer == state.buffer && value.offset == state.offset)
    return success();
  // Another state's old value may be gone by now.
  if (auto read = rootOf(write.getValue()).getDefiningOp<train::ReadOp>();
      read && written.contains(read.getStateAttr().getAttr()))
    return write.emitOpError() << "copies from @" << read.getState()
                               << ", which the function writes too";
  bool onHosts = arenaOf(write.getValue()) == Arena::Host;
  TaskOp copy =
      task(write, Kind::Copy, onHosts ? Stream::Host : Stream::Compute,
           {value.view(Access::Read), state.view(Access::Write)});
  followSkip(copy, write.getValue(), Value());
  return success();
}

LogicalResult ProgramLowering::lower(Operation *op) {
  if (auto read = dyn_cast<train::ReadOp>(op)) {
    places[read.getResult()] = shared.stateOf(read.getStateAttr());
    return success();
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(constant.getType());
    auto dense = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (type && !dense)
      return op->emitOpError() << "holds different values, expected one";
    bool needsPlace = llvm::any_of(
        op->getUsers(), [](Operation *user) { return !isPointwise(user); });
    if (!needsPlace)
      return success();
    if (!type || type.getRank() != 0 || !dense ||
        !type.getElementType().isF32())
      return op->emitOpError() << "is no f32 scalar; an op that is not "
                                  "pointwise cannot take it";
    places[constant.getResult()] = shared.constantOf(
        type, dense.getSplatValue<APFloat>().convertToFloat());
    return success();
  }
  if (isa<func::ReturnOp, train::WriteOp>(op))
    return success();
  for (Value operand : op->getOperands())
    if (!placeOf(operand))
      return op->emitOpError()
             << "reads a value that has no place, the result of "
             << (operand.getDefiningOp()
                     ? operand.getDefiningOp()->getName().getStringRef()
                     : StringRef("no op"));
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op))
    return lowerAccumulate(accumulate);
  StringRef dialect = op->getName().getDialectNamespace();
  if (dialect == "comm")
    return lowerCommOp(op);
  if (isa<train::SquareSumOp, train::GradScaleOp, train::LearningRateOp,
          train::AdvanceOp, train::UpdateLossScaleOp, train::AdamOp,
          train::SGDOp>(op))
    return lowerUpdateOp(op);
  return lowerTensorOp(op);
}

/// Whether the bytes of `type` are at least 1 and can be counted.
bool sched::hasFiniteSize(RankedTensorType type) {
  int64_t bytes = 8; // Of the widest element.
  for (int64_t size : type.getShape())
    if (size < 1 || llvm::MulOverflow(bytes, size, bytes) || bytes > kMostBytes)
      return false;
  return true;
}

/// What the lowering counts on and IR that was edited may not keep.
LogicalResult ProgramLowering::check() {
  FunctionType signature = function.getFunctionType();
  if (function.isExternal() || !function.getBody().hasOneBlock() ||
      signature.getNumResults() != 0 ||
      (signature.getNumInputs() != 0 && signature.getNumInputs() != 2))
    return function.emitOpError()
           << "is " << signature
           << ", expected one block that takes nothing, or tokens and labels, "
              "and returns nothing";
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type)
        continue;
      if (!type.hasStaticShape() || type.getRank() > 2 ||
          !type.getElementType().isIntOrFloat() || !hasFiniteSize(type))
        return op.emitOpError()
               << "makes " << type
               << ", expected numbers in a static shape of at most 2 "
                  "dimensions, of 1 to 2^48 bytes";
    }

  // A state is read at the start and written or added to once, at the end.
  llvm::StringMap<Operation *> accumulated, written;
  for (auto op : function.getOps<train::AccumulateOp>())
    accumulated[op.getState()] = op;
  for (auto op : function.getOps<train::WriteOp>()) {
    if (!written.try_emplace(op.getState(), op).second)
      return op.emitOpError()
             << "writes @" << op.getState() << " a second time";
    if (accumulated.contains(op.getState()))
      return op.emitOpError() << "writes @" << op.getState()
                              << ", which the function also adds to";
  }
  for (auto op : function.getOps<train::ReadOp>())
    if (accumulated.contains(op.getState()))
      return op.emitOpError()
             << "reads @" << op.getState() << ", which the function adds to";
  return success();
}

LogicalResult ProgramLowering::run() {
  if (failed(check()))
    return failure();
  inlineRecompute();
  collectAccesses();
  MLIRContext *context = function.getContext();
  OpBuilder moduleBuilder(context);
  moduleBuilder.setInsertionPointToEnd(shared.module.getBody());
  program = ProgramOp::create(moduleBuilder, function.getLoc(),
                              moduleBuilder.getStringAttr(name));
  Block &block = program.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&block);

  if (function.getNumArguments() == 2) {
    places[function.getArgument(0)] = shared.tokens;
    places[function.getArgument(1)] = shared.labels;
  }
  for (Operation &op : function.getBody().front())
    if (auto transfer = dyn_cast<comm::TransferOp>(op)) {
      if (transfer.getSpace() == train::Space::Host)
        onHost.insert(transfer.getResult());
    } else if (isPointwise(&op) &&
               llvm::any_of(op.getOperands(), [&](Value operand) {
                 return onHost.contains(rootOf(operand));
               })) {
      onHost.insert(op.getResult(0));
    } else if (auto read = dyn_cast<train::ReadOp>(op)) {
      if (shared.stateNamed(read.getStateAttr()).getSpace() ==
          train::Space::Host)
        onHost.insert(read.getResult());
    } else if (auto adam = dyn_cast<train::AdamOp>(op)) {
      if (onHost.contains(rootOf(adam.getP())))
        onHost.insert_range(adam->getResults());
    } else if (auto sgd = dyn_cast<train::SGDOp>(op)) {
      if (onHost.contains(rootOf(sgd.getP())))
        onHost.insert_range(sgd->getResults());
    }
  planPointwise();
  planDestinations();

  // Pointwise outputs wait for a neighbour of their shape to share a kernel, or
  // for a norm that needs them; a norm's gradient waits for those it goes into.
  SmallVector<Value> group, beforeNorm;
  train::RMSNormGradOp waiting;
  auto flush = [&]() {
    LogicalResult result = success();
    if (waiting) {
      bool joined = joinsAfter(group, waiting.getDx());
      result =
          lowerRMSNormGrad(waiting, beforeNorm,
                           joined ? ArrayRef<Value>(group) : ArrayRef<Value>());
      waiting = {};
      beforeNorm.clear();
      if (joined)
        group.clear();
    }
    if (succeeded(result) && !group.empty())
      result = lowerPointwiseGroup(group);
    group.clear();
    return result;
  };
  for (Operation &op : function.getBody().front()) {
    if (isPointwise(&op) && !isa<arith::ConstantOp>(op)) {
      Value value = op.getResult(0);
      if (!isStored(value))
        continue;
      bool fits = group.empty() ||
                  (cast<ShapedType>(group.front().getType()).getShape() ==
                       cast<ShapedType>(value.getType()).getShape() &&
                   arenaOf(group.front()) == arenaOf(value));
      if (!fits && failed(flush()))
        return failure();
      group.push_back(value);
      continue;
    }
    // Views and constants make no task, so a group may reach past them.
    bool makesTask = !isa<train::ReadOp, comm::UnpackOp, comm::ChunkOp,
                          arith::ConstantOp, train::WriteOp>(op);
    if (isa<comm::UnpackOp, comm::ChunkOp>(op))
      makesTask = !placeOf(op.getOperand(0)); // A view of one of the group.
    // A copy for uses is ordered by what it waits for, not by where it stands.
    if (auto copy = dyn_cast<comm::TransferOp>(op); copy && copy.getUse())
      makesTask = !placeOf(copy.getInput());
    if (auto norm = dyn_cast<train::RMSNormOp>(op);
        norm && !waiting && joinsBefore(group, norm.getX(), {norm.getX()})) {
      if (failed(lowerRMSNorm(norm, group)))
        return failure();
      group.clear();
      continue;
    }
    if (auto grad = dyn_cast<train::RMSNormGradOp>(op)) {
      if (waiting ||
          !joinsBefore(group, grad.getX(), {grad.getDy(), grad.getX()})) {
        if (failed(flush()))
          return failure();
      }
      beforeNorm = std::move(group);
      group.clear();
      waiting = grad;
      continue;
    }
    if (makesTask && failed(flush()))
      return failure();
    if (failed(lower(&op)))
      return failure();
  }
  if (failed(flush()))
    return failure();
  for (auto write : function.getOps<train::WriteOp>())
    if (failed(finishWrite(write)))
      return failure();
  readAhead();
  return success();
}
