//===- Layout.cpp - Tensors by the names that users know ------------------===//
#include "tools/oracle/Layout.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

/// "P.grad", "P.exp_avg": what a state that belongs to parameter `P` is called.
static std::string nameOf(StringRef parameter, train::StateOp state) {
  switch (state.getRole()) {
  case train::Role::Gradient:
    return (parameter + ".grad").str();
  case train::Role::Master:
    return (parameter + ".master").str();
  case train::Role::Moment:
    return (parameter + "." + *state.getSlot()).str();
  default:
    return parameter.str();
  }
}

static NamedTensor makeTensor(std::string name, train::StateOp parameter,
                              train::StateOp storage, int64_t offset) {
  // Members of a bucket have the parameter's shape, others their own.
  train::StateOp shaped = parameter ? parameter : storage;
  ArrayRef<int64_t> shape = shaped.getTensorType().getShape();
  NamedTensor tensor{std::move(name),
                     storage.getRole(),
                     parameter,
                     storage,
                     offset,
                     SmallVector<int64_t, 4>(shape),
                     shaped.getTensorType().getNumElements()};
  return tensor;
}

/// A storage of a bucket holds the whole, or one rank's chunk if sharded.
static LogicalResult checkStorage(train::StateOp storage,
                                  comm::BucketOp bucket) {
  auto expected = static_cast<int64_t>(
      storage.getSharded() ? bucket.getChunk() : bucket.getElements());
  RankedTensorType type = storage.getTensorType();
  if (type.getRank() == 1 && type.getNumElements() == expected)
    return success();
  return storage.emitOpError()
         << "has type " << type << ", expected "
         << (storage.getSharded() ? "a chunk" : "the whole") << " of @"
         << bucket.getSymName() << ": one dimension of " << expected;
}

FailureOr<Layout> Layout::create(ModuleOp module) {
  Layout layout;
  llvm::StringMap<SmallVector<train::StateOp>> members;
  for (auto state : module.getOps<train::StateOp>())
    if (state.getBucket())
      members[*state.getBucket()].push_back(state);

  for (auto state : module.getOps<train::StateOp>()) {
    if (state.getBucket())
      continue; // Declared here, held by the states of its bucket.
    if (!state.getOf()) {
      if (state.getSharded())
        return state.emitOpError() << "is sharded, but in no bucket";
      auto parameter =
          state.getRole() == train::Role::Parameter ? state : train::StateOp();
      if (failed(layout.add(
              makeTensor(state.getSymName().str(), parameter, state, 0))))
        return failure();
      continue;
    }

    Operation *owner = SymbolTable::lookupSymbolIn(module, *state.getOf());
    if (auto parameter = dyn_cast_or_null<train::StateOp>(owner)) {
      if (state.getSharded() || state.getTensorType().getShape() !=
                                    parameter.getTensorType().getShape())
        return state.emitOpError()
               << "has type " << state.getType()
               << (state.getSharded() ? ", sharded," : "")
               << " but belongs to @" << parameter.getSymName() << " of "
               << parameter.getType() << "; expected its shape, whole";
      if (failed(layout.add(makeTensor(nameOf(parameter.getSymName(), state),
                                       parameter, state, 0))))
        return failure();
      continue;
    }
    auto bucket = dyn_cast_or_null<comm::BucketOp>(owner);
    if (!bucket)
      return state.emitOpError() << "belongs to @" << *state.getOf()
                                 << ", which is no parameter and no bucket";
    if (failed(checkStorage(state, bucket)))
      return failure();
    for (train::StateOp member : members[bucket.getSymName()]) {
      auto offset = static_cast<int64_t>(*member.getOffset());
      auto elements = static_cast<int64_t>(bucket.getElements());
      if (offset > elements ||
          member.getTensorType().getNumElements() > elements - offset)
        return member.emitOpError()
               << "of " << member.getTensorType().getNumElements()
               << " elements lies at " << offset << ", outside of @"
               << bucket.getSymName() << " of " << elements;
      if (failed(layout.add(makeTensor(nameOf(member.getSymName(), state),
                                       member, state, offset))))
        return failure();
    }
  }
  return layout;
}

LogicalResult Layout::add(NamedTensor tensor) {
  if (!byName.try_emplace(tensor.name, list.size()).second)
    return tensor.storage.emitOpError()
           << "holds \"" << tensor.name << "\", which another state holds too";
  list.push_back(std::move(tensor));
  return success();
}

const NamedTensor *Layout::find(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &list[found->second];
}

std::vector<double> Layout::get(const Interpreter &interpreter,
                                const NamedTensor &tensor) {
  train::StateOp storage = tensor.storage;
  const RankValues &values = interpreter.state(storage.getSymName());
  std::vector<double> elements(tensor.size);
  if (storage.getSharded()) {
    int64_t chunk = values.front()->size();
    for (int64_t i = 0; i < tensor.size; ++i) {
      int64_t place = tensor.offset + i;
      elements[i] = values[place / chunk]->data[place % chunk];
    }
    return elements;
  }
  bool isSum = tensor.role == train::Role::Metric;
  bool isMean = tensor.role == train::Role::Gradient;
  int64_t ranks = isSum || isMean ? interpreter.ranks() : 1;
  for (int64_t i = 0; i < tensor.size; ++i) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      elements[i] += values[rank]->data[tensor.offset + i];
    if (isMean)
      elements[i] /= static_cast<double>(ranks);
  }
  return elements;
}

void Layout::set(Interpreter &interpreter, const NamedTensor &tensor,
                 ArrayRef<double> elements) {
  train::StateOp storage = tensor.storage;
  StringRef state = storage.getSymName();
  Element element = tensor.element();
  int64_t held = storage.getTensorType().getNumElements();
  bool sharded = storage.getSharded();
  for (int64_t rank = 0; rank < interpreter.ranks(); ++rank) {
    std::vector<double> &data = interpreter.edit(state, rank);
    int64_t first = tensor.offset - (sharded ? rank * held : 0);
    for (int64_t i = 0; i < tensor.size; ++i)
      if (first + i >= 0 && first + i < held)
        data[first + i] =
            interpreter.isExact() ? elements[i] : roundTo(element, elements[i]);
  }
}
