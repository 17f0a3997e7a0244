//===- CppKernel.cpp - Kernels as C++ functions over rows -----------------===//
#include "passes/Codegen/KernelText.h"
#include "passes/Codegen/ProgramPrinter.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

namespace {
class CppKernel : KernelText {
public:
  CppKernel(sched::KernelOp kernel, raw_ostream &os)
      : KernelText(kernel, Language::Cpp, os) {}

  LogicalResult print();

private:
  LogicalResult printOp(Operation &op);
  LogicalResult printLoop(scf::ForOp loop);
};
} // namespace

LogicalResult CppKernel::printLoop(scf::ForOp loop) {
  if (failed(checkLoop(loop)))
    return failure();
  std::string sum;
  if (loop.getNumResults() == 1) {
    sum = fresh("sum");
    line() << "float " << sum << " = " << names.lookup(loop.getInitArgs()[0])
           << ";\n";
    names[loop.getRegionIterArgs().front()] = sum;
  }
  std::string index = fresh("j");
  names[loop.getInductionVar()] = index;
  if (isInnermost(loop)) {
    if (sum.empty())
      line() << "CIUIC_SIMD\n";
    else
      line() << "#pragma omp simd reduction(+ : " << sum << ")\n";
  }
  line() << "for (int64_t " << index << " = "
         << names.lookup(loop.getLowerBound()) << "; " << index << " < "
         << names.lookup(loop.getUpperBound()) << "; ++" << index << ") {\n";
  ++depth;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (!sum.empty() &&
        &op == loop.getYieldedValues().front().getDefiningOp()) {
      line() << sum << " += " << names.lookup(op.getOperand(1)) << ";\n";
      continue;
    }
    if (failed(printOp(op)))
      return failure();
  }
  --depth;
  line() << "}\n";
  if (!sum.empty())
    names[loop.getResult(0)] = sum;
  return success();
}

LogicalResult CppKernel::printOp(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return printLoop(loop);
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return declare(load.getResult(),
                   address(load.getMemRef(), load.getIndices()));
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    line() << address(store.getMemRef(), store.getIndices()) << " = "
           << names.lookup(store.getValueToStore()) << ";\n";
    return success();
  }
  return printPure(op);
}

LogicalResult CppKernel::print() {
  if (failed(nameMemrefs()))
    return failure();
  os << "/// " << kernel.getSymName();
  if (kernel.getOrigin())
    os << ": first for " << escaped(*kernel.getOrigin());
  os << ".\nextern \"C\" void " << kernel.getSymName()
     << "(int64_t begin, int64_t end,\n    void *const *pointers) {\n";
  for (auto [i, argument] : llvm::enumerate(memrefs()))
    line() << "auto *CIUIC_RESTRICT " << names[argument] << " = static_cast<"
           << types[i] << " *>(pointers[" << i << "]); // "
           << shapeText(argument) << "\n";
  line() << "for (int64_t row = begin; row < end; ++row) {\n";
  ++depth;
  for (Operation &op : kernel.getBody().front())
    if (failed(printOp(op)))
      return failure();
  --depth;
  line() << "}\n";
  os << "}\n";
  return success();
}

LogicalResult codegen::printCppKernel(sched::KernelOp kernel, raw_ostream &os) {
  return CppKernel(kernel, os).print();
}
