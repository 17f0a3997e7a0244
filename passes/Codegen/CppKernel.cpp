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
  LogicalResult printSum(scf::ForOp loop, const std::string &index,
                         const std::string &bounds);
};
} // namespace

LogicalResult CppKernel::printLoop(scf::ForOp loop) {
  if (failed(checkLoop(loop)))
    return failure();
  std::string index = fresh("j");
  names[loop.getInductionVar()] = index;
  std::string begin = names.lookup(loop.getLowerBound());
  std::string end = names.lookup(loop.getUpperBound());
  if (loop.getNumResults() == 1)
    return printSum(loop, index, begin + ", " + end);
  if (isInnermost(loop))
    line() << "CIUIC_SIMD\n";
  line() << "for (int64_t " << index << " = " << begin << "; " << index << " < "
         << end << "; ++" << index << ") {\n";
  ++depth;
  for (Operation &op : loop.getBody()->without_terminator())
    if (failed(printOp(op)))
      return failure();
  --depth;
  line() << "}\n";
  return success();
}

LogicalResult CppKernel::printSum(scf::ForOp loop, const std::string &index,
                                  const std::string &bounds) {
  std::string sum = fresh("sum"), start = names.lookup(loop.getInitArgs()[0]);
  line() << "const float " << sum << " = "
         << (start == "0.0f" ? "" : start + " + ") << "sumOf(" << bounds
         << ", [&](int64_t " << index << ") CIUIC_INLINED {\n";
  ++depth;
  Operation *add = loop.getYieldedValues().front().getDefiningOp();
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != add && failed(printOp(op)))
      return failure();
  // Last, so that what follows the addition is done as well.
  line() << "return " << names.lookup(add->getOperand(1)) << ";\n";
  --depth;
  line() << "});\n";
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
