//===- Launchers.h - What starts a device task on CUDA ----------*- C++ -*-===//
//
// A device task of a bundle for CUDA names a function that enqueues it
// (abi::CudaLaunchFn). That of an emitted kernel is printed with the kernel;
// that of a kind the runtime knows is one line that instantiates a template of
// runtime/kernels/cuda for the task's element types. A job prints what its
// tasks name, each once.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_CODEGEN_LAUNCHERS_H
#define CIUIC_PASSES_CODEGEN_LAUNCHERS_H

#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace ciuic::codegen {

/// How the launchers of library kinds are made.
struct Launcher {
  std::string header; ///< "runtime/kernels/cuda/Update.cuh"
  std::string call;   ///< "launchAdam<bf16>", of namespace ciuic::cuda.
  std::string first;  ///< The first task that names it, for people.
};

/// The kernels and launchers of a job.
class Launchers {
public:
  /// Emits an error at a task whose types have no kernel.
  static llvm::FailureOr<Launchers> of(mlir::ModuleOp module);

  /// The function that enqueues `task`, a device task of a module for CUDA;
  /// "" if the runtime does without: products, collectives, copies between
  /// memories, and tasks of the host.
  llvm::StringRef nameOf(sched::TaskOp task) const {
    return byTask.lookup(task);
  }

  /// All launchers, in the order of their names.
  llvm::SmallVector<llvm::StringRef> names() const {
    return llvm::map_to_vector(library, [](const auto &entry) {
      return llvm::StringRef(entry.first);
    });
  }

  /// Whether `kernel` is one of the host: on CPUs all are, on CUDA those that
  /// tasks of the host launch.
  bool isOnHost(sched::KernelOp kernel) const {
    return !cuda || hostKernels.contains(kernel.getSymNameAttr());
  }
  /// Whether it is one of the device; it may be both.
  bool isOnDevice(sched::KernelOp kernel) const {
    return cuda && (deviceKernels.contains(kernel.getSymNameAttr()) ||
                    !hostKernels.contains(kernel.getSymNameAttr()));
  }

  /// `src/library.cu`, or `src/attention.cu` with the launchers of attention,
  /// which take longest to compile; "" if there is nothing to hold. Ranks that
  /// share a device are reduced by a function of the former.
  std::string print(llvm::StringRef model, bool attention) const;

  /// Whether there is `reduce_ranks`.
  bool reducesRanks() const { return cuda && ranks > 1; }

private:
  bool cuda = false;
  int64_t ranks = 1;
  llvm::DenseMap<mlir::Operation *, llvm::StringRef> byTask;
  llvm::DenseSet<mlir::StringAttr> deviceKernels, hostKernels;
  /// By name; without a call if a kernel is printed with its launcher.
  std::map<std::string, Launcher> library;
};

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_LAUNCHERS_H
