//===- CudaKernel.cpp - Kernels as CUDA functions and their launchers -----===//
#include "passes/Codegen/CudaKernel.h"
#include "passes/Codegen/ProgramPrinter.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

/// Registers that a multiprocessor has for its threads.
static constexpr int64_t kRegisters = 65536;
/// Registers of a thread at work, besides what it keeps between passes.
static constexpr int64_t kWorkRegisters = 64;
/// Registers of a thread that row values may take between passes.
static constexpr int64_t kMostHeldRegisters = 40;

//===----------------------------------------------------------------------===//
// Flat
//===----------------------------------------------------------------------===//

LogicalResult CudaKernel::printFlat() {
  Block &block = kernel.getBody().front();
  scf::ForOp loop = *block.getOps<scf::ForOp>().begin();
  line() << "const " << indexType << " threads = gridDim.x * blockDim.x;\n";
  line() << "const " << indexType
         << " thread = blockIdx.x * blockDim.x + threadIdx.x;\n";
  // What the loop has one of; rows and their bounds are no more.
  for (Operation &op : block) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      if (failed(declare(load.getResult(),
                         address(load.getMemRef(), load.getIndices()))))
        return failure();
    } else if (&op != loop && !isIndex(op) && failed(printPure(op))) {
      return failure();
    }
  }
  for (auto constant : loop.getBody()->getOps<arith::ConstantOp>())
    if (failed(printPure(*constant)))
      return failure();
  Value j = loop.getInductionVar();
  if (failed(hoistInvariants(*loop.getBody(), j)))
    return failure();
  auto sweep = [&](int vector, const std::string &begin,
                   const std::string &end) {
    std::string times = vector > 1 ? " * " + std::to_string(vector) : "";
    line() << "for (" << indexType << " i = " << begin << times << "; i < "
           << end << "; i += threads" << times << ") {\n";
    ++depth;
    vectors.clear();
    if (failed(printColumns({loop.getBody(), j, vector, "i"})))
      return failure();
    --depth;
    line() << "}\n";
    return success();
  };
  if (form.elements % form.vector == 0)
    return sweep(form.vector, "thread", "elements");
  line() << "const " << indexType << " whole = elements / " << form.vector
         << " * " << form.vector << ";\n";
  if (failed(sweep(form.vector, "thread", "whole")))
    return failure();
  line() << "// The last few, one by one.\n";
  return sweep(1, "whole + thread", "elements");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Decides what a thread keeps: what a later pass of a row loads again, and
/// what all rows load, as far as registers reach.
void CudaKernel::planHeld() {
  if (form.chunks == 0)
    return;
  struct Use {
    Place place;
    Value memref;
    memref::LoadOp load; ///< One of them, if any.
    unsigned passes = 0;
    bool again = false; ///< Loaded after the first pass that had it.
    bool stored = false;
  };
  SmallVector<Use> uses;
  for (auto loop : kernel.getBody().front().getOps<scf::ForOp>()) {
    std::set<Place> here;
    for (Operation &op : *loop.getBody()) {
      if (!isa<memref::LoadOp, memref::StoreOp>(op))
        continue;
      Access access = accessOf(&op);
      if (access.element.of(loop.getInductionVar()) == 0)
        continue;
      Place place = placeOf(access, loop.getInductionVar());
      auto it = llvm::find_if(uses, [&](Use &u) { return u.place == place; });
      if (it == uses.end())
        it = uses.insert(uses.end(), {place, access.memref, {}});
      it->passes += here.insert(place).second;
      it->stored |= access.isStore;
      if (auto load = dyn_cast<memref::LoadOp>(op)) {
        it->load = load;
        it->again |= it->passes > 1;
      }
    }
  }
  auto registersOf = [&](const Use &use) {
    int64_t bytes =
        cast<MemRefType>(use.memref.getType()).getElementTypeBitWidth() / 8;
    if (form.vector == 1)
      bytes = std::max<int64_t>(bytes, 4);
    return form.chunks * form.vector * bytes / 4;
  };
  // What is not kept is loaded all at once all the same.
  for (const Use &use : uses)
    if (use.load)
      rowRegisters += registersOf(use);
  int64_t most = std::min(
      kMostHeldRegisters,
      std::max<int64_t>(0, kRegisters / form.threads - kWorkRegisters) / 2);
  int64_t registers = 0;
  auto hold = [&](Use &use) {
    int64_t more = registersOf(use);
    if (held.contains(use.place))
      return true;
    // What is stored and loaded again cannot be done without.
    if (registers + more > most && !(use.stored && use.again))
      return false;
    registers += more;
    std::string name = fresh(names.lookup(use.memref) + "_held");
    held[use.place] = name;
    heldArrays.push_back({use.memref, name});
    return true;
  };
  for (Use &use : uses)
    if (use.stored && use.again)
      hold(use);
  for (Use &use : uses)
    if (use.again)
      hold(use);
  for (Use &use : uses)
    if (!use.stored && use.place.second == Linear() && hold(use))
      heldAcrossRows.push_back({held[use.place], use.load});
}

/// Opens the loop over a thread's vectors of a row; names the first column.
void CudaKernel::openChunks(const std::string &column) {
  std::string times =
      form.vector > 1 ? " * " + std::to_string(form.vector) : "";
  if (form.chunks == 0) {
    line() << "for (" << indexType << " " << column << " = lane" << times
           << "; " << column << " < " << form.columns << "; " << column
           << " += " << int64_t{form.perRow} * form.vector << ") {\n";
    ++depth;
    return;
  }
  line() << "#pragma unroll\n";
  line() << "for (int c = 0; c < " << form.chunks << "; ++c) {\n";
  ++depth;
  line() << "const " << indexType << " " << column << " = "
         << (form.vector > 1 ? "(" : "") << "c * " << form.perRow << " + lane"
         << (form.vector > 1 ? ")" : "") << times << ";\n";
  if (!fillsThreads()) {
    line() << "if (" << column << " < " << form.columns << ") {\n";
    ++depth;
  }
}

void CudaKernel::closeChunks() {
  if (form.chunks > 0 && !fillsThreads()) {
    --depth;
    line() << "}\n";
  }
  --depth;
  line() << "}\n";
}

LogicalResult CudaKernel::printPass(scf::ForOp loop) {
  openSum(loop);
  std::string column = fresh("j");
  names[loop.getInductionVar()] = column;
  for (auto constant : loop.getBody()->getOps<arith::ConstantOp>())
    if (failed(printPure(*constant)))
      return failure();
  if (failed(hoistInvariants(*loop.getBody(), loop.getInductionVar())))
    return failure();
  openChunks(column);
  vectors.clear();
  if (failed(printColumns(
          {loop.getBody(), loop.getInductionVar(), form.vector, ""})))
    return failure();
  closeChunks();
  closeSum(loop, form.perRow == 32 ? "warpSum" : "blockSum");
  return success();
}

LogicalResult CudaKernel::printRows() {
  bool isWarp = form.perRow == 32;
  unsigned rowsPerBlock = form.threads / form.perRow;
  line() << "const " << indexType << " lane = threadIdx.x"
         << (isWarp ? " % 32" : "") << ";\n";
  // What a thread holds of each row, or of all rows.
  for (const auto &[memref, name] : heldArrays)
    line() << "Vector<" << typeOf(memref) << ", " << form.vector << "> " << name
           << "[" << form.chunks << "];\n";
  if (!heldAcrossRows.empty()) {
    line() << "// The same for all rows.\n";
    openChunks("j");
    for (auto &[name, load] : heldAcrossRows) {
      known.insert(placeOf(accessOf(load), load.getIndices().back()));
      line() << name << "[c] = loadVector<" << form.vector << ">("
             << names.lookup(load.getMemRef()) << " + j);\n";
    }
    closeChunks();
  }
  line() << "for (" << indexType << " row = blockIdx.x"
         << (isWarp
                 ? " * " + std::to_string(rowsPerBlock) + " + threadIdx.x / 32"
                 : std::string())
         << "; row < rows; row += gridDim.x"
         << (isWarp ? " * " + std::to_string(rowsPerBlock) : std::string())
         << ") {\n";
  ++depth;
  for (Operation &op : kernel.getBody().front()) {
    LogicalResult result = success();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      result = printPass(loop);
    } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
      result = declare(load.getResult(),
                       address(load.getMemRef(), load.getIndices()));
    } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
      line() << "if (lane == 0)\n";
      line() << "  " << address(store.getMemRef(), store.getIndices()) << " = "
             << names.lookup(store.getValueToStore()) << ";\n";
    } else {
      result = printPure(op);
    }
    if (failed(result))
      return failure();
  }
  --depth;
  line() << "}\n";
  return success();
}

//===----------------------------------------------------------------------===//
// Nest
//===----------------------------------------------------------------------===//

LogicalResult CudaKernel::printNest() {
  Block &block = kernel.getBody().front();
  scf::ForOp outer = *block.getOps<scf::ForOp>().begin();
  scf::ForOp inner = *outer.getBody()->getOps<scf::ForOp>().begin();
  int64_t across = form.columns / form.vector;
  unsigned each = form.outer / form.groups;
  std::string i = fresh("j"), j = fresh("j");
  names[outer.getInductionVar()] = i;
  names[inner.getInductionVar()] = j;
  // Divisors of 1 would only be noise.
  auto quotient = [](StringRef text, int64_t by) {
    return by == 1 ? text.str() : (text + " / " + Twine(by)).str();
  };
  line() << "// A unit: " << form.vector << " columns of "
         << (each == form.outer ? "all" : std::to_string(each)) << " parts, "
         << form.groups << " apart.\n";
  line() << "const " << indexType << " units = rows * " << across * form.groups
         << ";\n";
  line() << "for (" << indexType
         << " unit = blockIdx.x * blockDim.x + threadIdx.x; unit < units;\n";
  line() << "     unit += gridDim.x * blockDim.x) {\n";
  ++depth;
  line() << "const " << indexType << " " << j << " = "
         << (across == 1 ? "0"
                         : "unit % " + std::to_string(across) + " * " +
                               std::to_string(form.vector))
         << ";\n";
  line() << "const " << indexType
         << " row = " << quotient("unit", across * form.groups) << ";\n";
  for (Operation &op : block)
    if (!isa<scf::ForOp>(op) && failed(printPure(op)))
      return failure();
  for (auto constant : outer.getBody()->getOps<arith::ConstantOp>())
    if (failed(printPure(*constant)))
      return failure();
  for (auto constant : inner.getBody()->getOps<arith::ConstantOp>())
    if (failed(printPure(*constant)))
      return failure();
  // What all parts have in common is loaded once.
  Columns columns{inner.getBody(), inner.getInductionVar(), form.vector, ""};
  vectors.clear();
  auto isCommon = [&](memref::LoadOp load) {
    return llvm::all_of(load.getIndices(), [&](Value index) {
      return index == columns.induction || index == row() ||
             (index.getDefiningOp() &&
              (index.getDefiningOp()->getBlock() == &block ||
               isa<arith::ConstantOp>(index.getDefiningOp())));
    });
  };
  if (failed(loadColumns(columns, isCommon)))
    return failure();
  line() << "#pragma unroll\n";
  line() << "for (int part = 0; part < " << each << "; ++part) {\n";
  ++depth;
  line() << "const " << indexType << " " << i << " = part";
  if (form.groups > 1)
    os << " * " << form.groups;
  if (form.groups > 1)
    os << " + " << quotient("unit", across) << " % " << form.groups;
  os << ";\n";
  for (Operation &op : outer.getBody()->without_terminator())
    if (!isa<scf::ForOp, arith::ConstantOp>(op) && failed(printPure(op)))
      return failure();
  if (failed(printColumns(columns)))
    return failure();
  --depth;
  line() << "}\n";
  --depth;
  line() << "}\n";
  return success();
}

//===----------------------------------------------------------------------===//
// General
//===----------------------------------------------------------------------===//

LogicalResult CudaKernel::printGeneralLoop(scf::ForOp loop) {
  openSum(loop);
  bool shared = isInnermost(loop);
  std::string j = fresh("j");
  names[loop.getInductionVar()] = j;
  std::string begin = names.lookup(loop.getLowerBound());
  line() << "for (" << indexType << " " << j << " = ";
  if (shared)
    os << (begin == "0" ? "" : begin + " + ") << "threadIdx.x; ";
  else
    os << begin << "; ";
  os << j << " < " << names.lookup(loop.getUpperBound()) << "; "
     << (shared ? j + " += blockDim.x" : "++" + j) << ") {\n";
  ++depth;
  Operation *sum = nullptr;
  if (loop.getNumResults() == 1)
    sum = loop.getYieldedValues().front().getDefiningOp();
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op == sum)
      line() << names.lookup(op.getOperand(0))
             << " += " << names.lookup(op.getOperand(1)) << ";\n";
    else if (failed(printGeneralOp(op)))
      return failure();
  --depth;
  line() << "}\n";
  // What a thread has stored others may load.
  if (shared && form.loadsStored)
    line() << "__syncthreads();\n";
  closeSum(loop, "blockSum");
  return success();
}

LogicalResult CudaKernel::printGeneralOp(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return printGeneralLoop(loop);
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return declare(load.getResult(),
                   address(load.getMemRef(), load.getIndices()));
  auto store = dyn_cast<memref::StoreOp>(op);
  if (!store)
    return printPure(op);
  // Outside of the loops that threads share, one of them speaks for the row.
  auto loop = store->getParentOfType<scf::ForOp>();
  bool alone = !loop || !isInnermost(loop);
  line() << (alone ? "if (threadIdx.x == 0) " : "")
         << address(store.getMemRef(), store.getIndices()) << " = "
         << names.lookup(store.getValueToStore()) << ";\n";
  if (alone && form.loadsStored)
    line() << "__syncthreads();\n";
  return success();
}

LogicalResult CudaKernel::printGeneral() {
  line() << "[[maybe_unused]] const int64_t row = blockIdx.x;\n";
  for (Operation &op : kernel.getBody().front())
    if (failed(printGeneralOp(op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Around the body
//===----------------------------------------------------------------------===//

/// A comment, broken at 80 columns.
void CudaKernel::printSentence(StringRef text) {
  size_t column = 0;
  while (!text.empty()) {
    auto [word, rest] = text.split(' ');
    if (column > 3 && column + 1 + word.size() > 80) {
      os << "\n";
      column = 0;
    }
    if (column == 0) {
      os << "///";
      column = 3;
    }
    os << " " << word;
    column += 1 + word.size();
    text = rest;
  }
  os << "\n";
}

/// Says what the kernel does, for whom, and on what.
void CudaKernel::printHead() {
  std::string text;
  llvm::raw_string_ostream work(text);
  work << kernel.getSymName() << ": ";
  switch (form.form) {
  case Form::Flat:
    work << form.elements << " elements";
    break;
  case Form::Rows:
    work << "rows of " << form.columns << " columns, "
         << (form.perRow == 32
                 ? std::string("a warp")
                 : "a block of " + std::to_string(form.threads) + " threads")
         << " a row";
    break;
  case Form::Nest:
    work << "rows of " << form.outer << " parts of " << form.columns
         << " columns, " << form.outer / form.groups << " parts a thread";
    break;
  case Form::General:
    work << "a block a row";
    break;
  }
  if (form.vector > 1)
    work << ", in vectors of " << form.vector;
  work << (held.empty() ? "." : "; what is wanted again stays in registers.");
  printSentence(text);
  if (kernel.getOrigin())
    printSentence("First for " + escaped(*kernel.getOrigin()) + ".");
  unsigned inputs = memrefs().size() - kernel.getOutputs();
  text.clear();
  for (auto [i, memref] : llvm::enumerate(memrefs()))
    work << (i == 0 && inputs > 0 ? "Reads "
             : i == inputs        ? (i ? ". Writes " : "Writes ")
                                  : ", ")
         << names[memref] << " (" << shapeText(memref) << " " << typeOf(memref)
         << ")";
  if (!text.empty())
    printSentence(text + ".");
}

void CudaKernel::printSignature() {
  // The second bound, blocks that a multiprocessor should hold, keeps the
  // compiler from spilling for the sake of still more of them.
  int64_t registers =
      std::max(kWorkRegisters, kWorkRegisters * 3 / 4 + rowRegisters * 4 / 3);
  int64_t blocks =
      std::clamp<int64_t>(kRegisters / (form.threads * registers), 1, 16);
  os << "__global__ void __launch_bounds__(" << form.threads << ", " << blocks
     << ")\n"
     << kernel.getSymName() << "(";
  for (auto [i, memref] : llvm::enumerate(memrefs()))
    os << "\n    " << types[i] << " *__restrict__ " << names[memref] << ", // "
       << shapeText(memref);
  os << "\n    ";
  if (form.form == Form::Flat)
    os << indexType << " elements, ";
  else if (form.form != Form::General)
    os << indexType << " rows, ";
  os << "const float *skip) {\n";
  line() << "if (isSkipped(skip))\n";
  line() << "  return;\n";
}

/// Refuses operands that vectors cannot be loaded from. For the tasks of the
/// bundle alignment is proven; this is for whoever else calls.
void CudaKernel::printAlignmentCheck() {
  bool first = true;
  for (auto [i, memref] : llvm::enumerate(memrefs())) {
    if (form.vector == 1 || !moving.contains(memref))
      continue;
    if (!first)
      os << " ||\n";
    line() << (first ? "if (" : "    ") << "!isAligned<" << typeOf(memref)
           << ", " << form.vector << ">(task.pointers[" << i << "])";
    first = false;
  }
  if (!first) {
    os << ")\n";
    line() << "  return cudaErrorMisalignedAddress;\n";
  }
}

/// The function that a task names: chooses a grid that fills the chip.
void CudaKernel::printLauncher() {
  os << "\nextern \"C\" int launch_" << kernel.getSymName()
     << "(\n    const ciuic::abi::CudaLaunch &task) {\n";
  line() << "if (task.viewCount != " << memrefs().size()
         << " || task.intCount < 1)\n";
  line() << "  return cudaErrorInvalidValue;\n";
  printAlignmentCheck();
  std::string units, perBlock = std::to_string(form.threads);
  switch (form.form) {
  case Form::Flat:
    line() << "const " << indexType << " elements = " << form.elements << ";\n";
    units = std::to_string(llvm::divideCeil(form.elements, form.vector));
    break;
  case Form::Rows:
    units = "rows";
    perBlock = std::to_string(form.threads / form.perRow);
    break;
  case Form::Nest:
    units = "uint64_t{rows} * " +
            std::to_string(form.columns / form.vector * form.groups);
    break;
  case Form::General:
    break;
  }
  if (form.form != Form::Flat)
    line() << "const auto rows = static_cast<"
           << (form.form == Form::General ? "unsigned" : indexType)
           << ">(task.ints[0]);\n";
  line() << "const unsigned grid = ";
  if (form.form == Form::General)
    os << "rows;\n";
  else
    os << "fillingGrid(" << units << ", " << perBlock << ", " << form.threads
       << ", task.processors);\n";
  line() << "return launch(" << kernel.getSymName() << ", grid, "
         << form.threads << ", 0, streamOf(task)";
  for (auto [i, type] : llvm::enumerate(types))
    os << ",\n                pointer<" << type << ">(task, " << i << ")";
  os << ",\n                ";
  if (form.form == Form::Flat)
    os << "elements, ";
  else if (form.form != Form::General)
    os << "rows, ";
  os << "task.skip);\n}\n";
}

LogicalResult CudaKernel::print() {
  if (failed(nameMemrefs()))
    return failure();
  WalkResult loops = kernel.walk([](scf::ForOp loop) {
    return succeeded(checkLoop(loop)) ? WalkResult::advance()
                                      : WalkResult::interrupt();
  });
  if (loops.wasInterrupted())
    return failure();
  kernel.walk([&](scf::ForOp loop) {
    for (Operation &op : *loop.getBody())
      if (isa<memref::LoadOp, memref::StoreOp>(op))
        if (Access access = accessOf(&op);
            access.element.of(loop.getInductionVar()) != 0)
          moving.insert(access.memref);
  });
  form = formOf(kernel);
  if (form.form != Form::General)
    indexType = form.wide ? "uint64_t" : "uint32_t";
  if (form.form == Form::Rows)
    planHeld();
  printHead();
  printSignature();
  LogicalResult body = form.form == Form::Flat   ? printFlat()
                       : form.form == Form::Rows ? printRows()
                       : form.form == Form::Nest ? printNest()
                                                 : printGeneral();
  if (failed(body))
    return failure();
  os << "}\n";
  printLauncher();
  return success();
}

LogicalResult codegen::printCudaKernel(sched::KernelOp kernel,
                                       raw_ostream &os) {
  return CudaKernel(kernel, os).print();
}
