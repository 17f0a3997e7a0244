//===- BucketPlan.h - Which parameter lies where ----------------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_BUCKETPLAN_H
#define CIUIC_PASSES_COMM_BUCKETPLAN_H

#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Comm/ZeroRow.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::comm {

/// The elements of a static tensor; none if they are too many to lay out.
std::optional<int64_t> countElements(mlir::RankedTensorType type);

/// A parameter with the states that follow it, as a step of one device has
/// them.
struct LogicalParameter {
  train::StateOp state;
  train::StateOp gradient;
  train::StateOp master;
  llvm::SmallVector<train::StateOp> moments;
  /// The `adam` or `sgd` of @apply_step; null if nothing updates it.
  mlir::Operation *update = nullptr;
  /// The block of its first use, and the place of that among first uses.
  std::string block;
  int64_t firstUse = 0;
  int64_t elements = 0;
};

/// The logical parameters by name, in the order of the module.
using LogicalParameters = llvm::MapVector<mlir::StringAttr, LogicalParameter>;

/// Finds every parameter, its states, its update and its block. Fails after
/// emitting an error.
mlir::FailureOr<LogicalParameters> collectParameters(mlir::ModuleOp module);

struct Member {
  LogicalParameter *parameter = nullptr;
  /// In elements of the bucket; a multiple of kAlignment.
  int64_t offset = 0;
};

struct Bucket {
  std::string name;
  /// The block its parameters were first used in; several blocks that share
  /// it are "first.to.last".
  std::string block;
  bool trainable = false;
  bool persistent = false;
  bool hasMaster = false;
  mlir::Type elementType;
  llvm::SmallVector<Member> members;
  int64_t elements = 0;
  int64_t chunk = 0;
  /// Of `elements`: neither a member's, nor alignment.
  int64_t padding = 0;
  const ZeroRow *row = nullptr;

  /// The names of its storage: "layers.3.param", "layers.3.exp_avg".
  std::string stateName(llvm::StringRef part) const {
    return name + "." + part.str();
  }
  mlir::RankedTensorType type(Layout layout, mlir::Type element) const {
    return mlir::RankedTensorType::get(
        {layout == Layout::Whole ? elements : chunk}, element);
  }
};

struct BucketOptions {
  AxisAttr axis;
  int64_t stage = 0;
  int64_t persistenceThreshold = 0;
  int64_t minBucketElements = 0;
  int64_t maxBucketElements = 0;
};

struct BucketPlan {
  std::vector<Bucket> buckets;
  /// The bucket and member of a parameter, by name.
  llvm::StringMap<std::pair<unsigned, unsigned>> placeOf;
  /// The name of the group that a block was merged into, if it was.
  llvm::StringMap<std::string> mergedBlock;

  llvm::StringRef groupOf(llvm::StringRef block) const {
    auto it = mergedBlock.find(block);
    return it == mergedBlock.end() ? block : llvm::StringRef(it->second);
  }
};

/// Lays all parameters out. Fails after emitting an error.
mlir::FailureOr<BucketPlan> planBuckets(mlir::ModuleOp module,
                                        LogicalParameters &parameters,
                                        const BucketOptions &options);

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_BUCKETPLAN_H
