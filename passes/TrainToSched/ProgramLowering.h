//===- ProgramLowering.h - One function on its way to a program -*- C++ -*-===//
//
// Holds what all parts of the lowering share: which view stands for which
// value, where values are to be computed to, and how tasks, buffers and
// kernels are made. The parts:
//   LowerFunction.cpp      order, views, destinations
//   LowerTensorOps.cpp     forward and backward ops
//   LowerUpdateOps.cpp     the optimizer step
//   LowerDiskUpdate.cpp    the optimizer step on states in files
//   LowerCommOps.cpp       collectives, packing, transfers
//   PointwiseKernels.cpp   arith and math on tensors
//   RowKernels.cpp         norms and rotary embeddings
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_TRAINTOSCHED_PROGRAMLOWERING_H
#define CIUIC_PASSES_TRAINTOSCHED_PROGRAMLOWERING_H

#include "dialect/Comm/Comm.h"
#include "dialect/Sched/Sched.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::sched {

/// Where a value lives.
struct Place {
  mlir::FlatSymbolRefAttr buffer;
  int64_t offset = 0;     ///< Bytes from the buffer's start.
  int64_t rankStride = 0; ///< Bytes to add for each rank.
  mlir::RankedTensorType type;

  explicit operator bool() const { return static_cast<bool>(buffer); }
  ViewAttr view(Access access) const {
    return ViewAttr::get(type.getContext(), access, buffer, offset, rankStride,
                         type);
  }
  /// `part` of this place, `bytes` further on.
  Place sub(int64_t bytes, mlir::RankedTensorType part) const {
    return {buffer, offset + bytes, rankStride, part};
  }
};

/// Kernels and buffers of the whole module, shared by its programs.
class ModuleLowering {
public:
  explicit ModuleLowering(mlir::ModuleOp module);

  /// Makes a buffer; `name` is made unique.
  mlir::FlatSymbolRefAttr makeBuffer(mlir::Location loc, llvm::StringRef name,
                                     int64_t bytes, Arena arena,
                                     mlir::FlatSymbolRefAttr state,
                                     mlir::FlatSymbolRefAttr program);

  /// The state of this name; null if there is none.
  train::StateOp stateNamed(mlir::FlatSymbolRefAttr state) const {
    return symbols.lookup<train::StateOp>(state.getAttr());
  }
  /// The state that `value` brings to the host from a file; null if it does
  /// not.
  train::StateOp fileStateOf(mlir::Value value) const;
  /// Whether `op` updates states that lie in files.
  bool updatesFiles(mlir::Operation *op) const;
  /// The place of a state's storage.
  Place stateOf(mlir::FlatSymbolRefAttr state);
  /// An f32 or i32 scalar that always holds `value`.
  Place constantOf(mlir::RankedTensorType type, double value);

  /// Where a place's buffer lies.
  Arena arenaOf(const Place &place) const;

  /// Adds `kernel` (detached, named by what it does) unless an equal one is
  /// there; returns the name to launch.
  mlir::FlatSymbolRefAttr addKernel(KernelOp kernel);

  /// Makes the buffers of all states and of the two inputs.
  mlir::LogicalResult declareStates();

  mlir::ModuleOp module;
  Place tokens, labels;
  int64_t diskPart = 0;    ///< Most bytes of a state that are staged at once.
  int64_t diskBuffers = 2; ///< Parts that are staged at once.

private:
  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::StringAttr, Place> states;
  llvm::StringMap<mlir::FlatSymbolRefAttr> kernels; ///< By what they hold.
  llvm::DenseMap<std::pair<mlir::Type, int64_t>, Place> constants;
  llvm::StringMap<int64_t> nameCounts;
};

/// Pointwise values of one shape that one kernel computes.
struct PointwiseGroup {
  llvm::SmallVector<mlir::Value> outputs;
  /// What it loads, in order of first use.
  llvm::SetVector<mlir::Value> roots;
  llvm::SetVector<llvm::StringRef> ops; ///< Their names, without casts.
  /// "sigmoid_mulf": at most `most` of them.
  std::string name(unsigned most) const;
};

struct KernelBuilder;
class RowKernel;

class ProgramLowering {
public:
  ProgramLowering(ModuleLowering &shared, mlir::func::FuncOp function,
                  llvm::StringRef name, bool adds);

  /// Lowers the whole function; emits an error at the op that has no lowering.
  mlir::LogicalResult run();

private:
  using Value = mlir::Value;
  using Operation = mlir::Operation;

  // LowerFunction.cpp
  mlir::LogicalResult check();
  void inlineRecompute();
  void collectAccesses();
  void planDestinations();
  void planPack(comm::PackOp pack);
  void planWrite(train::WriteOp write);
  bool isLastReader(train::StateOp state, Operation *before);
  mlir::LogicalResult lower(Operation *op);
  mlir::LogicalResult finishWrite(train::WriteOp write);

  // LowerTensorOps.cpp, LowerUpdateOps.cpp, LowerCommOps.cpp
  mlir::LogicalResult lowerTensorOp(Operation *op);
  mlir::LogicalResult lowerUpdateOp(Operation *op);
  mlir::LogicalResult lowerCommOp(Operation *op);
  mlir::LogicalResult lowerOptimizer(Operation *op, Kind kind,
                                     llvm::ArrayRef<Value> inPlace,
                                     llvm::ArrayRef<Value> inputs, Value skip,
                                     llvm::ArrayRef<int64_t> ints,
                                     llvm::ArrayRef<double> reals);
  mlir::LogicalResult lowerFileUpdate(Operation *op, Kind kind,
                                      llvm::ArrayRef<Value> inPlace,
                                      llvm::ArrayRef<Value> inputs, Value skip,
                                      llvm::ArrayRef<int64_t> ints,
                                      llvm::ArrayRef<double> reals);
  /// Whether a transfer is that of an update from files and needs no task.
  mlir::FailureOr<bool> lowerFileTransfer(comm::TransferOp transfer);
  void readAhead();
  mlir::LogicalResult lowerPack(comm::PackOp pack);
  bool reducesInPlace(comm::AllReduceOp op);
  mlir::LogicalResult lowerAccumulate(train::AccumulateOp accumulate);

  // PointwiseKernels.cpp
  void planPointwise();
  bool isStored(Value value) const;
  PointwiseGroup collectGroup(llvm::ArrayRef<Value> outputs) const;
  /// The scalar of `output`, one of `group`'s; `made` has those that are known.
  Value emitScalar(KernelBuilder &kernel, const PointwiseGroup &group,
                   Value output, llvm::function_ref<Value(Value)> load,
                   llvm::DenseMap<Value, Value> &made) const;
  mlir::LogicalResult lowerPointwiseGroup(llvm::ArrayRef<Value> outputs);

  // RowKernels.cpp
  mlir::LogicalResult lowerRMSNorm(train::RMSNormOp op,
                                   llvm::ArrayRef<Value> before);
  mlir::LogicalResult lowerRMSNormGrad(train::RMSNormGradOp op,
                                       llvm::ArrayRef<Value> before,
                                       llvm::ArrayRef<Value> after);
  mlir::LogicalResult addInputs(Operation *op, llvm::ArrayRef<Value> inputs,
                                llvm::ArrayRef<Value> computed,
                                RowKernel &kernel);
  /// Whether a row kernel over `x` may compute `group` before its own work,
  /// which needs `wanted` of it.
  bool joinsBefore(llvm::ArrayRef<Value> group, Value x,
                   llvm::ArrayRef<Value> wanted) const;
  /// Whether it may compute `group` from its result `dx`, and nothing else
  /// wants that.
  bool joinsAfter(llvm::ArrayRef<Value> group, Value dx) const;
  mlir::LogicalResult lowerRotary(train::RotaryOp op);
  void launch(Operation *op, llvm::StringRef name, KernelOp kernel,
              int64_t rows, int64_t columns, llvm::ArrayRef<ViewAttr> views);

  // Shared.
  Place placeOf(Value value);
  Place makePlace(Value value, llvm::StringRef hint = "");
  ViewAttr read(Value value) { return placeOf(value).view(Access::Read); }
  ViewAttr write(Value value) { return makePlace(value).view(Access::Write); }
  /// A task named for its origin and what is done; a suffix without a dot in
  /// front, such as a collective's use, is the whole name.
  TaskOp task(Operation *origin, Kind kind, Stream stream,
              llvm::ArrayRef<ViewAttr> views, llvm::ArrayRef<int64_t> ints = {},
              llvm::ArrayRef<double> reals = {}, llvm::StringRef suffix = "");
  void followSkip(TaskOp task, Value input, Value result);
  /// Reads a scalar in `arena`: copies it to the host, once a program, if the
  /// host needs one of the device.
  ViewAttr readScalar(Value value, Arena arena);
  std::string nameOf(Operation *op) const;
  Arena arenaOf(Value value) const;

  ModuleLowering &shared;
  mlir::func::FuncOp function;
  std::string name;
  bool adds; ///< Accumulators are added to, not started.
  ProgramOp program;
  mlir::OpBuilder builder;

  /// The function's accesses, by state.
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<train::ReadOp, 2>> reads;
  llvm::DenseMap<mlir::StringAttr, unsigned> accumulations;
  llvm::DenseSet<mlir::StringAttr> written;

  llvm::DenseMap<Value, Place> places;
  /// Where a value that is still to be computed will live.
  llvm::DenseMap<Value, Place> destinations;
  /// Packs whose members are computed straight into an accumulator.
  llvm::DenseSet<Operation *> directPacks;
  /// Products that add to their destination.
  llvm::DenseSet<Value> addsInPlace;
  /// States that an accumulation of this program has started.
  llvm::DenseSet<mlir::StringAttr> started;
  /// Pointwise values that get storage.
  llvm::DenseSet<Value> stored;
  /// Values that are not computed when a step is skipped, and the scalar that
  /// says so: parameters rounded by the optimizer, and what passes them on.
  llvm::DenseMap<Value, Value> skips;
  /// The host's copies of the device's scalars.
  llvm::DenseMap<Value, Place> hostScalars;
  /// Transfers that an update from files makes part by part.
  llvm::DenseSet<Operation *> doneByParts;
  /// What brings a part of a bucket's states from files, and what updates it.
  struct FilePart {
    llvm::SmallVector<Operation *> reads;
    Operation *update;
  };
  llvm::SmallVector<FilePart> fileParts;
  /// Values in host memory.
  llvm::DenseSet<Value> onHost;
};

/// Places in files are multiples of this many bytes, and what is read and
/// written there is.
inline constexpr int64_t kDiskBlock = 4096;

/// The value that `value` is a window into, through unpack and chunk.
mlir::Value rootOf(mlir::Value value);

/// Whether the bytes of `type`, of static shape, can be counted, and are not 0.
bool hasFiniteSize(mlir::RankedTensorType type);

/// Whether `op` works element by element on tensors of one shape.
bool isPointwise(mlir::Operation *op);

/// Builds kernels: a detached `sched.kernel` and a builder inside it.
struct KernelBuilder {
  KernelBuilder(mlir::MLIRContext *context, llvm::StringRef name,
                llvm::ArrayRef<mlir::RankedTensorType> inputs,
                llvm::ArrayRef<mlir::RankedTensorType> outputs);

  mlir::Value row() { return kernel.getBody().front().getArgument(0); }
  mlir::Value memref(unsigned i) {
    return kernel.getBody().front().getArgument(i + 1);
  }
  mlir::Value index(int64_t value);
  mlir::Value real(double value); ///< An f32 constant.
  /// Loads an element and extends it to f32 if it is narrower.
  mlir::Value load(unsigned memref, mlir::ValueRange indices);
  /// `value` in f32, if it is narrower.
  mlir::Value extended(mlir::Value value);
  /// Rounds an f32 to the memref's element type and stores it.
  void store(mlir::Value value, unsigned memref, mlir::ValueRange indices);
  /// A loop over [begin, end) without results.
  void forEach(mlir::Value begin, mlir::Value end,
               llvm::function_ref<void(mlir::Value)> body);
  /// The f32 sum of `term` over [0, n).
  mlir::Value sum(int64_t n, llvm::function_ref<mlir::Value(mlir::Value)> term);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);

  KernelOp kernel;
  mlir::OpBuilder builder;
  mlir::Location loc;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_TRAINTOSCHED_PROGRAMLOWERING_H
