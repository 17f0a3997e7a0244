//===- AddScratch.cpp - Plans the memory that tasks use while they run ----===//
#include "dialect/Sched/Sched.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Sched/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_ADDSCRATCHPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

static constexpr int64_t kMiB = 1 << 20;

/// Rows of view `i`; a scalar or vector is one.
static int64_t rowsOf(TaskOp task, unsigned i) {
  RankedTensorType type = cast<ViewAttr>(task.getViews()[i]).getType();
  return type.getRank() == 2 ? type.getDimSize(0) : 1;
}

static int64_t columnsOf(TaskOp task, unsigned i) {
  RankedTensorType type = cast<ViewAttr>(task.getViews()[i]).getType();
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

static int64_t elementsOf(TaskOp task, unsigned i) {
  return cast<ViewAttr>(task.getViews()[i]).getType().getNumElements();
}

/// cuBLASLt wants 32 MiB on Hopper and newer; products that split along K keep
/// partial sums of the result there, so small results need less.
static int64_t gemmBytes(TaskOp task, int architecture) {
  int64_t wanted = (architecture >= 90 ? 32 : 4) * kMiB;
  return std::min(wanted, std::max(kMiB, 4 * elementsOf(task, 2)));
}

/// Sums over the rows of view 0 by blocks of at least 32 rows.
static int64_t columnPartsBytes(TaskOp task) {
  constexpr int64_t mostParts = 128, rowsAPart = 32;
  int64_t parts =
      std::min(mostParts, llvm::divideCeilSigned(rowsOf(task, 0), rowsAPart));
  return parts * columnsOf(task, 0) * 4;
}

/// The bundle's kernels need none. cuDNN's fused forward, which takes 16 bits
/// only, asks for 256 bytes on Hopper; some more for versions to come.
static int64_t attentionBytes(TaskOp task) {
  auto queries = cast<ViewAttr>(task.getViews()[0]).getType();
  return queries.getElementTypeBitWidth() == 16 ? 64 * 1024 : 0;
}

/// Bytes that a device task needs on CUDA, a multiple of 4; 0: none.
static int64_t scratchBytes(TaskOp task, int architecture) {
  switch (task.getKind()) {
  case Kind::Gemm:
    return gemmBytes(task, architecture);
  case Kind::AttentionForward:
    return attentionBytes(task);
  case Kind::AttentionBackward:
    // No more heads than columns, whatever edited IR says.
    return 4 * rowsOf(task, 0) *
           std::clamp<int64_t>(task.getInts()[1], 1, columnsOf(task, 0));
  case Kind::ColumnSum:
  case Kind::NormWeightGrad:
    return columnPartsBytes(task);
  case Kind::EmbeddingGrad:
    // dy, tokens -> out (V x D).
    return 4 * (2 * rowsOf(task, 0) + rowsOf(task, 2) + 1 + 1024);
  case Kind::SquareSum:
    return 8 * 1024;
  case Kind::CrossEntropy:
    return 8 * rowsOf(task, 0);
  case Kind::CrossEntropyWithGrad:
    return 8 * rowsOf(task, 1);
  default:
    return 0;
  }
}

namespace {
struct AddScratch : impl::AddScratchPassBase<AddScratch> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    if (!isForCuda(module))
      return;
    SymbolTable symbols(module);
    int architecture = getNewestArchitecture(module);
    for (auto program : module.getOps<ProgramOp>()) {
      int64_t count = 0, largest = 0;
      for (auto task : program.getBody().getOps<TaskOp>()) {
        if (task.getScratch()) {
          task.emitOpError()
              << "\"" << task.getName() << "\" has scratch already";
          return signalPassFailure();
        }
        bool onHost = task.getStream() == Stream::Host;
        int64_t bytes = onHost ? 0 : scratchBytes(task, architecture);
        if (bytes == 0)
          continue;
        add(task, bytes, symbols);
        ++count;
        largest = std::max(largest, bytes);
      }
      remark::analysis(program.getLoc(),
                       remark::RemarkOpts::name("Scratch").category("memory"))
          << remark::add("program {0}: {1} tasks have scratch, the largest "
                         "{2} bytes",
                         program.getSymName(), count, largest);
    }
  }

  static void add(TaskOp task, int64_t bytes, SymbolTable &symbols) {
    auto program = task->getParentOfType<ProgramOp>();
    OpBuilder builder(program);
    std::string name =
        ("buf." + program.getSymName() + "." + task.getName() + ".scratch")
            .str();
    auto buffer = BufferOp::create(
        builder, task.getLoc(), builder.getStringAttr(name),
        builder.getI64IntegerAttr(bytes),
        ArenaAttr::get(task.getContext(), Arena::Device), /*state=*/{},
        FlatSymbolRefAttr::get(program.getSymNameAttr()),
        /*constant=*/FloatAttr(), /*at=*/IntegerAttr());
    // Two tasks may have one name: the table makes the buffer's unique.
    StringAttr unique = symbols.insert(buffer);
    task.setScratchAttr(ViewAttr::get(
        task.getContext(), Access::Write, FlatSymbolRefAttr::get(unique), 0, 0,
        RankedTensorType::get({bytes / 4}, builder.getI32Type())));
  }
};
} // namespace
} // namespace ciuic::sched
