//===- LowerCommOps.cpp - Collectives, packing, transfers -----------------===//
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

static int64_t elementBytes(RankedTensorType type) {
  return type.getElementTypeBitWidth() / 8;
}

/// Copies what could not be computed in place, and zeroes what lies between.
LogicalResult ProgramLowering::lowerPack(comm::PackOp pack) {
  Place whole = placeOf(pack.getResult());
  bool direct = directPacks.contains(pack);
  int64_t bytes = elementBytes(whole.type);
  int64_t end = 0;
  auto zeroUpTo = [&](int64_t next) {
    if (direct || next == end) // An accumulator's gaps are always zero.
      return;
    auto gap = RankedTensorType::get({next - end}, whole.type.getElementType());
    task(pack, Kind::Zero, Stream::Compute,
         {whole.sub(end * bytes, gap).view(Access::Write)}, {}, {}, ".padding");
  };
  for (auto [member, at] : llvm::zip(pack.getMembers(), pack.getAt())) {
    zeroUpTo(at);
    auto type = cast<RankedTensorType>(member.getType());
    end = at + type.getNumElements();
    Place target = whole.sub(at * bytes, type);
    Place source = placeOf(member);
    if (source.buffer == target.buffer && source.offset == target.offset)
      continue;
    if (direct)
      task(pack, Kind::Accumulate, Stream::Compute,
           {source.view(Access::Read),
            target.view(adds ? Access::Update : Access::Write)},
           {adds});
    else
      task(pack, Kind::Copy, Stream::Compute,
           {source.view(Access::Read), target.view(Access::Write)});
  }
  zeroUpTo(whole.type.getNumElements());
  return success();
}

/// Where a value is added to its state: after the reduction that made it, on
/// the reduction's stream, so that no computation waits for it.
static Stream streamOfAddition(Value value) {
  Operation *producer = value.getDefiningOp();
  return isa_and_nonnull<comm::ReduceScatterOp, comm::AllReduceOp>(producer)
             ? Stream::Reduce
             : Stream::Compute;
}

LogicalResult ProgramLowering::lowerAccumulate(train::AccumulateOp op) {
  Place state = shared.stateOf(op.getStateAttr());
  if (Operation *producer = op.getValue().getDefiningOp())
    if (directPacks.contains(producer))
      return success(); // Its members are there already.
  Place value = placeOf(op.getValue());
  bool first = started.insert(op.getStateAttr().getAttr()).second;
  bool add = adds || !first;
  task(op, Kind::Accumulate, streamOfAddition(op.getValue()),
       {value.view(Access::Read),
        state.view(add ? Access::Update : Access::Write)},
       {add}, {}, "." + op.getState().str());
  return success();
}

/// A gradient or metric that only this reduction reads is reduced in place.
bool ProgramLowering::reducesInPlace(comm::AllReduceOp op) {
  auto read = op.getInput().getDefiningOp<train::ReadOp>();
  if (!read || !read->hasOneUse())
    return false;
  if (reads.lookup(read.getStateAttr().getAttr()).size() != 1)
    return false;
  train::StateOp state = shared.stateNamed(read.getStateAttr());
  return state.getRole() == train::Role::Gradient ||
         state.getRole() == train::Role::Metric;
}

LogicalResult ProgramLowering::lowerCommOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](comm::UnpackOp unpack) {
        Place bucket = placeOf(unpack.getBucket());
        auto type = cast<RankedTensorType>(unpack.getResult().getType());
        places[unpack.getResult()] =
            bucket.sub(unpack.getAt() * elementBytes(type), type);
        return success();
      })
      .Case([&](comm::ChunkOp chunk) {
        Place place = placeOf(chunk.getWhole());
        place.type = cast<RankedTensorType>(chunk.getResult().getType());
        place.rankStride +=
            place.type.getNumElements() * elementBytes(place.type);
        places[chunk.getResult()] = place;
        return success();
      })
      .Case([&](comm::PackOp pack) { return lowerPack(pack); })
      .Case([&](comm::TransferOp transfer) -> LogicalResult {
        FailureOr<bool> inParts = lowerFileTransfer(transfer);
        if (failed(inParts) || *inParts)
          return failure(failed(inParts));
        bool toHost = transfer.getSpace() == train::Space::Host;
        std::string whole = toHost ? ".to_host" : ".to_device", hint;
        // Copies for uses are named for them, as gathers are.
        if (std::optional<StringRef> use = transfer.getUse()) {
          hint = nameOf(op);
          if (StringRef(hint).starts_with(*use))
            hint = use->str();
          hint += whole;
          whole = hint;
        }
        TaskOp copy =
            task(op, Kind::Copy, toHost ? Stream::D2H : Stream::H2D,
                 {read(transfer.getInput()),
                  makePlace(transfer.getResult(), hint).view(Access::Write)},
                 {}, {}, whole);
        if (transfer.getUse())
          copy->setAttr(kUseAttr, transfer.getUseAttr());
        followSkip(copy, transfer.getInput(), transfer.getResult());
        return success();
      })
      .Case([&](comm::AllGatherOp gather) {
        TaskOp made = task(
            op, Kind::AllGather, Stream::Gather,
            {read(gather.getInput()),
             makePlace(gather.getResult(), "gathered." + gather.getUse().str())
                 .view(Access::Write)},
            {}, {}, gather.getUse());
        followSkip(made, gather.getInput(), gather.getResult());
        return success();
      })
      .Case([&](comm::ReduceScatterOp reduce) {
        bool mean = reduce.getReduction() == comm::Reduction::Mean;
        task(op, Kind::ReduceScatter, Stream::Reduce,
             {read(reduce.getInput()),
              makePlace(reduce.getResult(), "reduced." + reduce.getUse().str())
                  .view(Access::Write)},
             {mean}, {}, reduce.getUse());
        return success();
      })
      .Case([&](comm::AllReduceOp reduce) {
        if (reducesInPlace(reduce))
          places[reduce.getResult()] = placeOf(reduce.getInput());
        bool mean = reduce.getReduction() == comm::Reduction::Mean;
        task(op, Kind::AllReduce, Stream::Reduce,
             {read(reduce.getInput()), write(reduce.getResult())}, {mean}, {},
             reduce.getUse());
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError() << "has no lowering to sched";
      });
}
