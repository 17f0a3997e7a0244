//===- ModuleLowering.cpp - Buffers and kernels of the whole module -------===//
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

ModuleLowering::ModuleLowering(ModuleOp module)
    : module(module), symbols(module) {}

FlatSymbolRefAttr ModuleLowering::makeBuffer(Location loc, StringRef name,
                                             int64_t bytes, Arena arena,
                                             FlatSymbolRefAttr state,
                                             FlatSymbolRefAttr program) {
  std::string unique = ("buf." + name).str();
  int64_t &count = nameCounts[unique];
  if (count++ > 0)
    unique += "." + std::to_string(count);
  OpBuilder builder(module.getBodyRegion());
  builder.setInsertionPointToEnd(module.getBody());
  auto buffer = BufferOp::create(
      builder, loc, builder.getStringAttr(unique),
      builder.getI64IntegerAttr(std::max<int64_t>(bytes, 1)),
      ArenaAttr::get(module.getContext(), arena), state, program,
      /*constant=*/FloatAttr(), /*at=*/IntegerAttr());
  return FlatSymbolRefAttr::get(symbols.insert(buffer));
}

Place ModuleLowering::stateOf(FlatSymbolRefAttr state) {
  return states.lookup(state.getAttr());
}

Place ModuleLowering::constantOf(RankedTensorType type, double value) {
  Place &place = constants[{type, llvm::bit_cast<int64_t>(value)}];
  if (!place) {
    FlatSymbolRefAttr name =
        makeBuffer(module.getLoc(), "constant", train::bytesOf(type),
                   Arena::Device, {}, {});
    auto buffer = symbols.lookup<BufferOp>(name.getAttr());
    buffer.setConstantAttr(Builder(module.getContext()).getF64FloatAttr(value));
    place = Place{name, 0, 0, type};
  }
  return place;
}

/// Appends what the region holds: types and attributes, which are unique in
/// their context, values by number. Regions of one text are alike but for
/// locations and the names of values.
static void appendContents(Region &region, std::string &text,
                           llvm::DenseMap<Value, uint32_t> &numbers) {
  auto append = [&](auto word) {
    text.append(reinterpret_cast<const char *>(&word), sizeof(word));
  };
  auto define = [&](Value value) {
    append(value.getType().getAsOpaquePointer());
    numbers.try_emplace(value, numbers.size());
  };
  for (Block &block : region) {
    append(block.getNumArguments());
    for (BlockArgument argument : block.getArguments())
      define(argument);
    for (Operation &op : block) {
      append(op.getName().getAsOpaquePointer());
      append(op.getAttrDictionary().getAsOpaquePointer());
      append(op.getNumOperands());
      for (Value operand : op.getOperands())
        append(numbers.lookup(operand));
      append(op.getNumResults());
      for (Value result : op.getResults())
        define(result);
      append(op.getNumRegions());
      for (Region &inner : op.getRegions())
        appendContents(inner, text, numbers);
    }
    append(uintptr_t(0)); // No op's name.
  }
}

FlatSymbolRefAttr ModuleLowering::addKernel(KernelOp kernel) {
  // Two kernels are one if they differ in nothing but the name.
  std::string body = std::to_string(kernel.getOutputs()) + ":";
  llvm::DenseMap<Value, uint32_t> numbers;
  appendContents(kernel.getBody(), body, numbers);
  auto [it, isNew] = kernels.try_emplace(body);
  if (isNew) {
    std::string unique = kernel.getSymName().str();
    int64_t &count = nameCounts["kernel." + unique];
    if (count++ > 0)
      unique += "_" + std::to_string(count);
    kernel.setSymName(unique);
    symbols.insert(kernel);
    it->second = FlatSymbolRefAttr::get(kernel.getSymNameAttr());
  } else {
    kernel.erase();
  }
  return it->second;
}

Arena ModuleLowering::arenaOf(const Place &place) const {
  return symbols.lookup<BufferOp>(place.buffer.getAttr()).getArena();
}

static Arena arenaOf(train::Space space) {
  switch (space) {
  case train::Space::Device:
    return Arena::Device;
  case train::Space::Host:
    return Arena::Host;
  case train::Space::Nvme:
    return Arena::Nvme;
  }
  llvm_unreachable("unknown space");
}

LogicalResult ModuleLowering::declareStates() {
  for (auto state :
       llvm::make_early_inc_range(module.getOps<train::StateOp>())) {
    if (state.getBucket())
      continue; // Stored in its bucket's state.
    if (!hasFiniteSize(state.getTensorType()))
      return state.emitOpError() << "holds " << state.getTensorType()
                                 << ", expected 1 to 2^48 bytes";
    Arena arena = ::arenaOf(state.getSpace());
    int64_t bytes = train::bytesOf(state.getType());
    if (arena == Arena::Nvme)
      bytes = llvm::alignTo(bytes, kDiskBlock);
    auto symbol = FlatSymbolRefAttr::get(state.getSymNameAttr());
    FlatSymbolRefAttr buffer = makeBuffer(state.getLoc(), state.getSymName(),
                                          bytes, arena, symbol, {});
    states[state.getSymNameAttr()] = Place{buffer, 0, 0, state.getTensorType()};
  }

  // The inputs' shape is that of any function's arguments.
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getNumArguments() != 2)
      continue;
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[0]);
    if (!type || type != function.getArgumentTypes()[1])
      return function.emitOpError()
             << "takes " << function.getFunctionType()
             << ", expected tokens and labels of one type";
    if (tokens && tokens.type != type)
      return function.emitOpError() << "takes tokens of " << type
                                    << ", other functions of " << tokens.type;
    if (tokens)
      continue;
    int64_t bytes = train::bytesOf(type);
    Location loc = module.getLoc();
    tokens = Place{makeBuffer(loc, "tokens", bytes, Arena::Device, {}, {}), 0,
                   0, type};
    labels = Place{makeBuffer(loc, "labels", bytes, Arena::Device, {}, {}), 0,
                   0, type};
  }
  return success();
}
