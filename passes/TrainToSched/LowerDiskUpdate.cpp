//===- LowerDiskUpdate.cpp - Updates of states that lie in files ----------===//
//
// An update whose states have `space nvme` becomes one for each part of its
// bucket: reads of the states' parts into host memory, the gradient's part
// copied there, the update, the new parameter's part copied to the device, and
// writes of the states' parts. Parts are small and so is the host memory they
// take: a part's reads start while the one before it is updated, and what they
// fill is filled again for the part after that one.
//
//===----------------------------------------------------------------------===//
#include "passes/TrainToSched/ProgramLowering.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

train::StateOp ModuleLowering::fileStateOf(Value value) const {
  auto transfer = value.getDefiningOp<comm::TransferOp>();
  auto read = transfer ? transfer.getInput().getDefiningOp<train::ReadOp>()
                       : train::ReadOp();
  train::StateOp state =
      read ? stateNamed(read.getStateAttr()) : train::StateOp();
  return state && state.getSpace() == train::Space::Nvme ? state
                                                         : train::StateOp();
}

/// By its first moment: the parameter may lie in host memory.
bool ModuleLowering::updatesFiles(Operation *op) const {
  return isa<train::AdamOp, train::SGDOp>(op) && fileStateOf(op->getOperand(2));
}

/// Transfers that an update from files makes part by part have no task of
/// their own: their results stand for what they take.
FailureOr<bool> ProgramLowering::lowerFileTransfer(comm::TransferOp op) {
  if (doneByParts.contains(op))
    return true;
  bool fromFile = static_cast<bool>(shared.fileStateOf(op.getResult()));
  bool isGradient = op.getSpace() == train::Space::Host &&
                    op.getResult().hasOneUse() &&
                    shared.updatesFiles(*op->user_begin()) &&
                    (*op->user_begin())->getOperand(1) == op.getResult();
  if (!fromFile && !isGradient) {
    if (op.getSpace() == train::Space::Nvme)
      return op.emitOpError()
             << "moves to nvme what no update of a state there makes";
    return false;
  }
  if (fromFile)
    for (Operation *user : op->getUsers())
      if (!shared.updatesFiles(user))
        return op.emitOpError() << "brings a state from nvme for "
                                << user->getName() << ", expected an update";
  places[op.getResult()] = placeOf(op.getInput());
  return true;
}

namespace {
/// Where the updated parameter goes, part by part.
struct Outcome {
  /// On the device: from f32, and from its rounding.
  SmallVector<Place> wide, narrow;
  Place wideOnHost;   ///< Whole, where the host needs it so.
  Place narrowOnHost; ///< Also where the rounding is made, if set.
  RankedTensorType narrowType;
  Value rounded;
};
} // namespace

/// A window of `type` into host memory that a part alone uses.
static Place stagedPlace(ModuleLowering &shared, Location loc, StringRef name,
                         RankedTensorType type, int64_t bytes,
                         ProgramOp program) {
  FlatSymbolRefAttr buffer =
      shared.makeBuffer(loc, name, bytes, Arena::Host, {},
                        FlatSymbolRefAttr::get(program.getSymNameAttr()));
  return Place{buffer, 0, 0, type};
}

/// `pairs` counted from `first`, as far as any rank's part has them.
static void appendRanges(SmallVectorImpl<int64_t> &to, ArrayRef<int64_t> pairs,
                         int64_t first) {
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    int64_t begin = std::max<int64_t>(pairs[i] - first, 0);
    int64_t end = std::max<int64_t>(pairs[i + 1] - first, 0);
    if (begin < end)
      to.append({begin, end});
  }
}

LogicalResult ProgramLowering::lowerFileUpdate(
    Operation *op, Kind kind, ArrayRef<Value> inPlace, ArrayRef<Value> inputs,
    Value skip, ArrayRef<int64_t> ints, ArrayRef<double> reals) {
  for (auto [i, value] : llvm::enumerate(inPlace)) {
    train::StateOp state = shared.fileStateOf(value);
    if (auto read = rootOf(value).getDefiningOp<train::ReadOp>();
        !state && read && onHost.contains(read.getResult()))
      state = shared.stateNamed(read.getStateAttr());
    if (!state)
      return op->emitOpError() << "takes operand " << i
                               << ", which lies neither in a file nor in host "
                                  "memory";
    if (!isLastReader(state, op))
      return op->emitOpError()
             << "cannot update operand " << i << " in place: it is read later";
    places[op->getResult(i)] = placeOf(value);
  }

  // What becomes of the parameter.
  Outcome out;
  Place ofState = placeOf(inPlace[0]);
  bool roundedOnHost = false;
  auto toDevice = [&](comm::TransferOp transfer, SmallVector<Place> &to) {
    to.push_back(makePlace(transfer.getResult()));
    doneByParts.insert(transfer);
    if (&to == &out.narrow)
      skips[transfer.getResult()] = skip;
  };
  for (Operation *user : op->getResult(0).getUsers()) {
    auto transfer = dyn_cast<comm::TransferOp>(user);
    if (transfer && transfer.getSpace() == train::Space::Device) {
      toDevice(transfer, out.wide);
    } else if (auto narrow = dyn_cast<arith::TruncFOp>(user)) {
      auto type = cast<RankedTensorType>(narrow.getType());
      if (out.rounded)
        return narrow.emitOpError()
               << "rounds the parameter a second time, to " << type;
      out.rounded = narrow.getResult();
      out.narrowType = type;
      skips[out.rounded] = skip;
      for (Operation *reader : narrow->getUsers()) {
        auto move = dyn_cast<comm::TransferOp>(reader);
        if (move && move.getSpace() == train::Space::Device)
          toDevice(move, out.narrow);
        else
          roundedOnHost = true;
      }
    } else if (!transfer && !out.wideOnHost && shared.fileStateOf(inPlace[0])) {
      places.erase(op->getResult(0));
      out.wideOnHost = makePlace(op->getResult(0), nameOf(op) + ".new");
    }
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    for (Operation *user : result.getUsers())
      if (auto move = dyn_cast<comm::TransferOp>(user);
          move && move.getSpace() == train::Space::Nvme) {
        places[move.getResult()] = placeOf(inPlace[i]);
        doneByParts.insert(move);
      }
  if (roundedOnHost)
    out.narrowOnHost = makePlace(out.rounded, nameOf(op) + ".half");
  else if (out.rounded)
    places[out.rounded] = out.narrow.empty() ? ofState : out.narrow.front();

  Type f32 = builder.getF32Type();
  int64_t elements = ofState.type.getNumElements();
  int64_t most = shared.diskPart / 4;
  auto vectorOf = [&](int64_t size, Type element) {
    return RankedTensorType::get({size}, element);
  };
  unsigned heads = kind == Kind::Adam ? 3 : 2;
  ViewAttr skipView = readScalar(skip, Arena::Host);
  Location loc = op->getLoc();
  Place gradient = placeOf(inputs.front());
  bool gradientOnDevice = shared.arenaOf(gradient) == Arena::Device;

  for (int64_t first = 0, part = 0; first < elements; first += most, ++part) {
    int64_t size = std::min(most, elements - first);
    bool isOne = elements <= most;
    std::string number = isOne ? "" : "." + std::to_string(part);
    std::string at = isOne ? "" : "[" + std::to_string(part) + "]";
    // Whole blocks; what lies beyond the last element is read and written back.
    int64_t bytes = llvm::alignTo(4 * size, kDiskBlock);
    RankedTensorType blocks = vectorOf(bytes / 4, f32);
    RankedTensorType type = vectorOf(size, f32);
    auto labelOf = [&](const Place &place) {
      StringRef label = place.buffer.getValue();
      label.consume_front("buf.");
      return label.str();
    };
    auto stage = [&](const Twine &label, RankedTensorType of, int64_t size) {
      return stagedPlace(shared, loc, (name + "." + label + number).str(), of,
                         size, program);
    };

    FilePart group;
    SmallVector<Place> staged;
    for (Value value : inPlace) {
      Place place = placeOf(value);
      if (!shared.fileStateOf(value)) {
        staged.push_back(place.sub(4 * first, type));
        continue;
      }
      Place buffer = stage(labelOf(place) + ".staged", type, bytes);
      Place inFile = place.sub(4 * first, blocks);
      group.reads.push_back(task(op, Kind::Copy, Stream::Disk,
                                 {inFile.view(Access::Read),
                                  buffer.sub(0, blocks).view(Access::Write)},
                                 {}, {}, labelOf(place) + ".read" + at));
      staged.push_back(buffer);
    }

    Place own = gradient.sub(4 * first, type);
    if (gradientOnDevice) {
      Place buffer = stage(nameOf(op) + ".grad.staged", type, 4 * size);
      task(op, Kind::Copy, Stream::D2H,
           {own.view(Access::Read), buffer.view(Access::Write)}, {}, {},
           nameOf(op) + ".grad.to_host" + at);
      own = buffer;
    }

    SmallVector<ViewAttr> views;
    views.push_back(staged[0].view(Access::Update));
    views.push_back(own.view(Access::Read));
    for (const Place &moment : ArrayRef(staged).drop_front())
      views.push_back(moment.view(Access::Update));
    for (Value input : inputs.drop_front())
      views.push_back(readScalar(input, Arena::Host));
    Place half;
    if (out.rounded) {
      Type narrow = out.narrowType.getElementType();
      half = out.narrowOnHost
                 ? out.narrowOnHost.sub(2 * first, vectorOf(size, narrow))
                 : stage(nameOf(op) + ".half.staged", vectorOf(size, narrow),
                         2 * size);
      views.push_back(half.view(Access::Write));
    }
    SmallVector<int64_t> partInts(ints.take_front(heads));
    appendRanges(partInts, ints.drop_front(heads), first);
    TaskOp update =
        task(op, kind, Stream::Host, views, partInts, reals, nameOf(op) + at);
    update.setSkipAttr(skipView);
    group.update = update;

    if (out.wideOnHost) {
      TaskOp copy =
          task(op, Kind::Copy, Stream::Host,
               {staged[0].view(Access::Read),
                out.wideOnHost.sub(4 * first, type).view(Access::Write)},
               {}, {}, nameOf(op) + ".new" + at);
      copy.setSkipAttr({});
    }
    for (const Place &to : out.wide)
      task(op, Kind::Copy, Stream::H2D,
           {staged[0].view(Access::Read),
            to.sub(4 * first, type).view(Access::Write)},
           {}, {}, nameOf(op) + ".to_device" + at);
    for (const Place &to : out.narrow)
      task(op, Kind::Copy, Stream::H2D,
           {half.view(Access::Read),
            to.sub(2 * first, half.type).view(Access::Write)},
           {}, {}, nameOf(op) + ".to_device" + at)
          .setSkipAttr(readScalar(skip, Arena::Device));
    for (auto [value, buffer] : llvm::zip_equal(inPlace, staged)) {
      if (!shared.fileStateOf(value))
        continue;
      Place place = placeOf(value);
      TaskOp write = task(op, Kind::Copy, Stream::Disk,
                          {buffer.sub(0, blocks).view(Access::Read),
                           place.sub(4 * first, blocks).view(Access::Write)},
                          {}, {}, labelOf(place) + ".write" + at);
      write.setSkipAttr(skipView);
    }
    fileParts.push_back(std::move(group));
  }
  return success();
}

/// Moves reads ahead: those of a part before the update of the part that is
/// `diskBuffers` - 1 before it, so that as many parts are held at once.
void ProgramLowering::readAhead() {
  size_t buffers = shared.diskBuffers;
  Block &block = program.getBody().front();
  Operation *start = block.empty() ? nullptr : &block.front();
  for (auto [k, part] : llvm::enumerate(fileParts)) {
    Operation *before = k < buffers ? start : fileParts[k - buffers + 1].update;
    for (Operation *read : part.reads)
      if (read != before)
        read->moveBefore(before);
  }
}
