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

FlatSymbolRefAttr ModuleLowering::addKernel(KernelOp kernel) {
  // Two kernels are one if they print alike but for the name.
  std::string body;
  llvm::raw_string_ostream os(body);
  os << kernel.getOutputs();
  for (BlockArgument argument : kernel.getBody().front().getArguments())
    os << argument.getType() << ',';
  for (Operation &op : kernel.getBody().front())
    op.print(os, OpPrintingFlags().useLocalScope());
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
