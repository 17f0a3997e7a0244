//===- KernelForm.cpp - How a GPU's threads share a kernel's work ---------===//
#include "passes/Codegen/KernelForm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Codegen/KernelText.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

/// Rows up to here are a warp's.
static constexpr int64_t kWarpColumns = 1024;
/// Vectors of a row that a thread holds at most.
static constexpr unsigned kMostChunks = 4;
static constexpr unsigned kMostWarpChunks = 8;
/// Registers that a multiprocessor has, and those of a thread besides what it
/// has of a row.
static constexpr int64_t kRegisters = 65536;
static constexpr int64_t kBusyRegisters = 32;
/// What a thread does of a nest's outer loop at most, with the inner loop's
/// own operands in registers.
static constexpr unsigned kMostOuter = 4;

static Linear linearOf(Value value) {
  if (auto constant = getConstantIntValue(value))
    return {*constant, {}};
  auto sum = [](Linear a, const Linear &b) {
    a.constant += b.constant;
    for (auto [symbol, factor] : b.terms)
      if ((a.terms[symbol] += factor) == 0)
        a.terms.erase(symbol);
    return a;
  };
  auto scaled = [](Linear a, int64_t by) {
    a.constant *= by;
    for (auto &[symbol, factor] : a.terms)
      factor *= by;
    return by == 0 ? Linear() : a;
  };
  if (auto add = value.getDefiningOp<arith::AddIOp>())
    return sum(linearOf(add.getLhs()), linearOf(add.getRhs()));
  if (auto mul = value.getDefiningOp<arith::MulIOp>())
    for (auto [factor, other] : {std::pair(mul.getLhs(), mul.getRhs()),
                                 std::pair(mul.getRhs(), mul.getLhs())})
      if (auto constant = getConstantIntValue(factor))
        return scaled(linearOf(other), *constant);
  return {0, {{value.getAsOpaquePointer(), 1}}};
}

Access codegen::accessOf(Operation *op) {
  Access access;
  ValueRange indices;
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    access.memref = load.getMemRef();
    indices = load.getIndices();
  } else {
    auto store = cast<memref::StoreOp>(op);
    access.memref = store.getMemRef();
    indices = store.getIndices();
    access.isStore = true;
  }
  auto type = cast<MemRefType>(access.memref.getType());
  for (auto [i, index] : llvm::enumerate(indices)) {
    for (auto &[symbol, factor] : access.element.terms)
      factor *= type.getDimSize(i);
    access.element.constant *= type.getDimSize(i);
    Linear next = linearOf(index);
    access.element.constant += next.constant;
    for (auto [symbol, factor] : next.terms)
      if ((access.element.terms[symbol] += factor) == 0)
        access.element.terms.erase(symbol);
  }
  return access;
}

namespace {
class Analysis {
public:
  explicit Analysis(sched::KernelOp kernel)
      : kernel(kernel), block(kernel.getBody().front()),
        row(block.getArgument(0)) {}

  KernelForm run();

private:
  bool isFlat();
  bool isRows();
  bool isNest();
  void chooseVector(Value induction, int64_t columns);
  void chooseThreads(Value induction);
  void readAlignments();

  /// Ops of `body` that compute indices or numbers, and neither load nor store.
  static bool isPure(Operation &op) {
    return op.getNumRegions() == 0 && !isa<memref::LoadOp, memref::StoreOp>(op);
  }
  static bool isAccess(Operation &op) {
    return isa<memref::LoadOp, memref::StoreOp>(op);
  }
  static bool isIndex(Operation &op) {
    return op.getNumResults() == 1 && op.getResult(0).getType().isIndex() &&
           !isa<arith::ConstantOp>(op);
  }
  bool isStored(Value memref) const { return stored.contains(memref); }

  sched::KernelOp kernel;
  Block &block;
  Value row;
  KernelForm result;
  SmallVector<Access> accesses; ///< Inside of innermost loops.
  llvm::DenseSet<Value> stored;
  llvm::DenseMap<Value, int64_t> alignments; ///< Bytes, by memref.
};
} // namespace

static int64_t bytesOf(Value memref) {
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  return std::max<int64_t>(1, type.getIntOrFloatBitWidth() / 8);
}

/// What every task's view of a memref starts at a multiple of. Arenas and
/// buffers start at multiples of 256.
void Analysis::readAlignments() {
  for (Value memref : block.getArguments().drop_front())
    alignments[memref] = 256;
  auto module = kernel->getParentOfType<ModuleOp>();
  if (!module)
    return;
  module.walk([&](sched::TaskOp task) {
    if (task.getKernel() != kernel.getSymName())
      return;
    for (auto [memref, attr] :
         llvm::zip(block.getArguments().drop_front(), task.getViews())) {
      auto view = cast<sched::ViewAttr>(attr);
      for (int64_t offset : {view.getOffset(), view.getRankStride()})
        alignments[memref] =
            std::gcd<int64_t, int64_t>(alignments[memref], offset);
    }
  });
}

/// The widest vector of columns for which every access that moves with
/// `induction` starts at a multiple of its bytes, or of 16 if it has more.
void Analysis::chooseVector(Value induction, int64_t columns) {
  int64_t smallest = 8;
  for (const Access &access : accesses)
    if (access.element.of(induction) != 0)
      smallest = std::min(smallest, bytesOf(access.memref));
  int vector = 16 / smallest;
  auto fits = [&](const Access &access) {
    int64_t bytes = bytesOf(access.memref);
    int64_t word = std::min<int64_t>(16, vector * bytes);
    if (alignments[access.memref] % word != 0 ||
        access.element.constant % vector != 0)
      return false;
    return llvm::all_of(access.element.terms, [&](auto term) {
      return term.first == induction.getAsOpaquePointer() ||
             term.second % vector == 0;
    });
  };
  auto allFit = [&] {
    return columns % vector == 0 && llvm::all_of(accesses, [&](auto &access) {
             return access.element.of(induction) == 0 || fits(access);
           });
  };
  while (vector > 1 && !allFit())
    vector /= 2;
  result.vector = vector;
}

/// One loop over a row's columns, without a sum, in which everything is at
/// (row, column): then rows do not matter.
bool Analysis::isFlat() {
  scf::ForOp loop;
  for (Operation &op : block) {
    if (auto found = dyn_cast<scf::ForOp>(op)) {
      if (loop)
        return false;
      loop = found;
    } else if (isa<memref::StoreOp>(op)) {
      return false;
    }
  }
  if (!loop || !isInnermost(loop) || loop.getNumResults() != 0)
    return false;
  Value j = loop.getInductionVar();
  Linear begin = linearOf(loop.getLowerBound());
  Linear end = linearOf(loop.getUpperBound());
  auto width = getConstantIntValue(loop.getUpperBound());
  int64_t elements = -1;
  Linear place; // Of each element, in terms of row and j.
  if (begin == Linear() && width) {
    place.terms = {{row.getAsOpaquePointer(), *width},
                   {j.getAsOpaquePointer(), 1}};
    result.columns = *width;
  } else {
    // Rows are windows [row * w, row * w + w) of one row, the last one cut.
    int64_t step = begin.of(row);
    Linear window = begin;
    window.constant += step;
    auto least = loop.getUpperBound().getDefiningOp<arith::MinSIOp>();
    std::optional<int64_t> most;
    if (least)
      for (auto [bound, other] : {std::pair(least.getLhs(), least.getRhs()),
                                  std::pair(least.getRhs(), least.getLhs())})
        if (auto constant = getConstantIntValue(bound);
            constant && linearOf(other) == window)
          most = constant;
    if (step <= 0 || begin.terms.size() != 1 || begin.constant != 0 ||
        !(most || end == window))
      return false;
    place.terms = {{j.getAsOpaquePointer(), 1}};
    result.columns = step;
    if (most)
      elements = *most;
  }
  for (Operation &op : *loop.getBody()) {
    if (isIndex(op))
      return false;
    if (!isAccess(op))
      continue;
    Access access = accessOf(&op);
    auto type = cast<MemRefType>(access.memref.getType());
    if (access.element == place) {
      if (elements >= 0 && type.getNumElements() != elements)
        return false;
      elements = type.getNumElements();
      access.element.terms = {{j.getAsOpaquePointer(), 1}};
    } else if (access.isStore || access.element != Linear()) {
      return false;
    }
    if (!access.isStore && isStored(access.memref))
      return false;
    accesses.push_back(access);
  }
  // What stands before the loop is done once.
  for (Operation &op : block)
    if (isa<memref::LoadOp>(op) &&
        (accessOf(&op).element != Linear() || isStored(accessOf(&op).memref)))
      return false;
  if (elements < 0)
    return false;
  result.elements = elements;
  // The last elements are done one by one, so only addresses count.
  chooseVector(j, 0);
  return true;
}

/// Loops over [0, columns) one after the other; between them, what a row has
/// one of.
bool Analysis::isRows() {
  SmallVector<scf::ForOp> loops;
  for (Operation &op : block) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) {
      // Stored by one thread of the row: no other may need it.
      if (isa<memref::LoadOp>(op) && isStored(accessOf(&op).memref))
        return false;
      continue;
    }
    auto columns = getConstantIntValue(loop.getUpperBound());
    if (getConstantIntValue(loop.getLowerBound()) != 0 || !columns ||
        *columns < 1 || !isInnermost(loop) ||
        (!loops.empty() && *columns != result.columns))
      return false;
    result.columns = *columns;
    loops.push_back(loop);
  }
  if (loops.empty())
    return false;
  Value first = loops.front().getInductionVar();
  for (scf::ForOp loop : loops) {
    Value j = loop.getInductionVar();
    llvm::DenseSet<Value> here;
    for (Operation &op : *loop.getBody()) {
      if (isIndex(op))
        return false;
      if (!isAccess(op))
        continue;
      Access access = accessOf(&op);
      int64_t step = access.element.of(j);
      if (step != 1 && (step != 0 || access.isStore || isStored(access.memref)))
        return false;
      if (access.isStore)
        here.insert(access.memref);
      else if (here.contains(access.memref))
        return false;
      // The same place is one place in all loops.
      if (step != 0 && j != first) {
        access.element.terms.erase(j.getAsOpaquePointer());
        access.element.terms[first.getAsOpaquePointer()] = 1;
      }
      accesses.push_back(access);
    }
  }
  chooseVector(first, result.columns);
  chooseThreads(first);
  // A later pass has what an earlier one stored only if its thread holds it.
  if (result.loadsStored) {
    if (result.chunks == 0)
      return false;
    for (const Access &load : accesses)
      for (const Access &store : accesses)
        if (!load.isStore && store.isStore && store.memref == load.memref &&
            store.element != load.element)
          return false;
  }
  return true;
}

/// Threads a row such that each holds few vectors of it and few are idle.
void Analysis::chooseThreads(Value induction) {
  // Of all that is loaded, bytes a column.
  std::set<std::pair<const void *, Linear>> loaded;
  int64_t bytes = 0;
  for (const Access &access : accesses)
    if (!access.isStore && access.element.of(induction) != 0 &&
        loaded.insert({access.memref.getAsOpaquePointer(), access.element})
            .second)
      bytes +=
          std::max<int64_t>(result.vector == 1 ? 4 : 0, bytesOf(access.memref));
  auto fits = [&](unsigned threads, unsigned chunks) {
    int64_t registers = kBusyRegisters + chunks * result.vector * bytes / 4;
    return registers <= 255 && registers * threads <= kRegisters;
  };
  unsigned vectors = llvm::divideCeil(result.columns, result.vector);
  if (result.columns <= kWarpColumns) {
    result.perRow = 32;
    result.chunks = llvm::divideCeil(vectors, 32u);
    // Odd rows, whose vectors are of one column, are looped over.
    if (result.chunks > kMostWarpChunks || !fits(result.threads, result.chunks))
      result.chunks = 0;
    return;
  }
  unsigned best = ~0u;
  for (unsigned chunks = 1; chunks <= kMostChunks; ++chunks) {
    unsigned threads = llvm::alignTo(llvm::divideCeil(vectors, chunks), 32u);
    if (threads > 1024 || threads < 64 || !fits(threads, chunks))
      continue;
    // Idle lanes cost as much as their share. More than two vectors take the
    // registers of other blocks, more than 512 threads wait for many others.
    unsigned idle = 1000 * (threads * chunks - vectors) / vectors;
    unsigned away = threads > 256 ? threads - 256 : 256 - threads;
    unsigned cost = (idle > 30 ? 4 * idle : 0) + away +
                    (chunks > 2 ? 500 * (chunks - 2) : 0) +
                    (threads > 512 ? 300 : 0);
    if (cost < best) {
      best = cost;
      result.perRow = result.threads = threads;
      result.chunks = chunks;
    }
  }
  if (best == ~0u) {
    result.perRow = result.threads = 512;
    result.chunks = 0;
  }
}

/// An outer loop around an inner one, both over [0, constant), whose
/// iterations write different places.
bool Analysis::isNest() {
  scf::ForOp outer, inner;
  for (Operation &op : block) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (outer)
        return false;
      outer = loop;
    } else if (!isPure(op)) {
      return false;
    }
  }
  if (!outer)
    return false;
  for (Operation &op : outer.getBody()->without_terminator()) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (inner)
        return false;
      inner = loop;
    } else if (!isPure(op)) {
      return false;
    }
  }
  if (!inner || !isInnermost(inner) || inner.getNumResults() != 0 ||
      outer.getNumResults() != 0)
    return false;
  auto heads = getConstantIntValue(outer.getUpperBound());
  auto columns = getConstantIntValue(inner.getUpperBound());
  if (getConstantIntValue(outer.getLowerBound()) != 0 ||
      getConstantIntValue(inner.getLowerBound()) != 0 || !heads || !columns ||
      *heads < 1 || *columns < 1 || *heads > (1 << 20))
    return false;
  Value i = outer.getInductionVar(), j = inner.getInductionVar();
  for (Operation &op : *inner.getBody()) {
    if (!isAccess(op))
      continue;
    Access access = accessOf(&op);
    int64_t step = access.element.of(j);
    if (step != 1 && (step != 0 || access.isStore))
      return false;
    if (!access.isStore && isStored(access.memref))
      return false;
    accesses.push_back(access);
  }
  // Stores of one memref are windows [constant, constant + columns) of each
  // head's part, which do not meet.
  for (const Access &a : accesses) {
    if (!a.isStore)
      continue;
    int64_t part = a.element.of(i);
    if (a.element.of(row) < part * *heads || a.element.terms.size() != 3)
      return false;
    for (const Access &b : accesses) {
      if (!b.isStore || b.memref != a.memref)
        continue;
      int64_t apart = std::abs(a.element.constant - b.element.constant);
      if (b.element.terms != a.element.terms ||
          (&a != &b && apart < *columns) || apart + *columns > part)
        return false;
    }
  }
  result.columns = *columns;
  result.outer = *heads;
  result.groups = *heads;
  for (unsigned each = kMostOuter; each > 1; --each)
    if (*heads % each == 0) {
      result.groups = *heads / each;
      break;
    }
  chooseVector(j, *columns);
  return true;
}

KernelForm Analysis::run() {
  int64_t most = 0;
  for (Value memref : block.getArguments().drop_front())
    most = std::max(most, cast<MemRefType>(memref.getType()).getNumElements());
  kernel.walk([&](memref::StoreOp store) { stored.insert(store.getMemRef()); });
  kernel.walk([&](memref::LoadOp load) {
    result.loadsStored |= stored.contains(load.getMemRef());
  });
  readAlignments();
  // Half the range, so that the step past the end does not wrap.
  KernelForm start = result;
  start.wide = most > (int64_t{1} << 31);
  for (auto [form, matches] : {std::pair(Form::Flat, &Analysis::isFlat),
                               std::pair(Form::Rows, &Analysis::isRows),
                               std::pair(Form::Nest, &Analysis::isNest)}) {
    result = start;
    accesses.clear();
    if ((this->*matches)()) {
      result.form = form;
      return result;
    }
  }
  // One value is no work for many threads.
  if (block.getOps<scf::ForOp>().empty())
    start.threads = 32;
  return start;
}

KernelForm codegen::formOf(sched::KernelOp kernel) {
  return Analysis(kernel).run();
}
