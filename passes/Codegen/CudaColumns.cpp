//===- CudaColumns.cpp - What a thread does of a pass over columns --------===//
#include "passes/Codegen/CudaKernel.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

/// In brackets, unless it is a name alone.
static std::string bracketed(const std::string &text) {
  return StringRef(text).contains(' ') ? "(" + text + ")" : text;
}

std::string CudaKernel::elementText(Operation *op, const Columns &columns) {
  if (!columns.element.empty())
    return columns.element;
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return indexText(load.getMemRef(), load.getIndices());
  auto store = cast<memref::StoreOp>(op);
  return indexText(store.getMemRef(), store.getIndices());
}

/// Declares what the loads of `body` have that does not move with `induction`.
LogicalResult CudaKernel::hoistInvariants(Block &body, Value induction) {
  for (auto load : body.getOps<memref::LoadOp>())
    if (accessOf(load).element.of(induction) == 0 &&
        !names.contains(load.getResult()))
      if (failed(declare(load.getResult(),
                         address(load.getMemRef(), load.getIndices()))))
        return failure();
  return success();
}

/// Loads the vectors of those loads that are `wanted` and not there yet.
LogicalResult
CudaKernel::loadColumns(const Columns &columns,
                        function_ref<bool(memref::LoadOp)> wanted) {
  for (auto load : columns.body->getOps<memref::LoadOp>()) {
    Access access = accessOf(load);
    Place place = placeOf(access, columns.induction);
    if (access.element.of(columns.induction) == 0 || vectors.contains(place) ||
        !wanted(load))
      continue;
    std::string memref = names.lookup(access.memref);
    std::string from = elementText(load, columns);
    std::string value = columns.vector > 1
                            ? "loadVector<" + std::to_string(columns.vector) +
                                  ">(" + memref + " + " + bracketed(from) + ")"
                            : memref + "[" + from + "]";
    if (auto it = held.find(place); it != held.end()) {
      vectors[place] = it->second + "[c]" + (columns.vector > 1 ? "" : "[0]");
      if (known.insert(place).second)
        line() << vectors[place] << " = " << value << ";\n";
      else if (columns.vector > 1 && is16Bit(access.memref))
        line() << "forgetConversions(" << vectors[place] << ");\n";
      continue;
    }
    std::string name = fresh(memref + "_v");
    vectors[place] = name;
    line() << "const auto " << name << " = " << value << ";\n";
  }
  return success();
}

LogicalResult CudaKernel::printLane(Operation &op, const Columns &columns) {
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    if (names.contains(load.getResult()) &&
        accessOf(load).element.of(columns.induction) == 0)
      return success(); // Hoisted.
    Place place = placeOf(accessOf(load), columns.induction);
    return declare(load.getResult(),
                   vectors.at(place) + (columns.vector > 1 ? "[k]" : ""));
  }
  auto store = dyn_cast<memref::StoreOp>(op);
  if (!store)
    return printPure(op);
  Access access = accessOf(store);
  Place place = placeOf(access, columns.induction);
  Value value = store.getValueToStore();
  std::string text = names.lookup(value);
  if (columns.vector == 1) {
    std::string target =
        names.lookup(access.memref) + "[" + elementText(store, columns) + "]";
    if (auto it = held.find(place); it != held.end()) {
      line() << it->second << "[c][0] = " << text << ";\n";
      text = it->second + "[c][0]";
    }
    line() << target << " = " << text << ";\n";
    return success();
  }
  // Rounding is done for pairs of lanes, after all of them are computed.
  if (is16Bit(access.memref)) {
    auto it = unrounded.find(value);
    bool inlined = value.getDefiningOp() && value.hasOneUse() &&
                   it != unrounded.end() &&
                   value.getDefiningOp()->getBlock() == op.getBlock();
    text = inlined ? it->second : "toFloat(" + text + ")";
  }
  line() << lanes.at(place) << "[k] = " << text << ";\n";
  return success();
}

/// Prints one step of a pass: `columns.vector` columns from the element on.
LogicalResult CudaKernel::printColumns(const Columns &columns) {
  bool isVector = columns.vector > 1;
  std::string width = std::to_string(columns.vector);
  SmallVector<memref::StoreOp> stores;
  lanes.clear();
  // Indices first: lanes share them.
  for (Operation &op : columns.body->without_terminator())
    if ((isa<arith::ConstantOp>(op) || isIndex(op)) && failed(printPure(op)))
      return failure();
  if (failed(hoistInvariants(*columns.body, columns.induction)) ||
      failed(loadColumns(columns, [](memref::LoadOp) { return true; })))
    return failure();
  for (auto store : columns.body->getOps<memref::StoreOp>()) {
    Access access = accessOf(store);
    Place place = placeOf(access, columns.induction);
    if (!isVector || lanes.contains(place))
      continue;
    std::string name = fresh(names.lookup(access.memref) + "_lanes");
    lanes[place] = name;
    stores.push_back(store);
    if (is16Bit(access.memref))
      line() << "float " << name << "[" << width << "];\n";
    else
      line() << "Vector<" << typeOf(access.memref) << ", " << width << "> "
             << name << ";\n";
  }
  if (isVector) {
    line() << "#pragma unroll\n";
    line() << "for (int k = 0; k < " << width << "; ++k) {\n";
    ++depth;
  }
  Operation *sum = nullptr;
  if (auto loop = dyn_cast<scf::ForOp>(columns.body->getParentOp());
      loop && loop.getNumResults() == 1)
    sum = loop.getYieldedValues().front().getDefiningOp();
  for (Operation &op : columns.body->without_terminator()) {
    if (isa<arith::ConstantOp>(op) || isIndex(op))
      continue;
    if (&op == sum)
      line() << names.lookup(op.getOperand(0))
             << " += " << names.lookup(op.getOperand(1)) << ";\n";
    else if (failed(printLane(op, columns)))
      return failure();
  }
  if (isVector) {
    --depth;
    line() << "}\n";
  }
  for (memref::StoreOp store : stores) {
    Access access = accessOf(store);
    Place place = placeOf(access, columns.induction);
    std::string value = lanes.at(place);
    if (is16Bit(access.memref))
      value = "rounded<" + typeOf(access.memref) + ">(" + value + ")";
    if (auto it = held.find(place); it != held.end()) {
      line() << it->second << "[c] = " << value << ";\n";
      value = it->second + "[c]";
    }
    std::string to = elementText(store, columns);
    line() << "storeVector(" << names.lookup(access.memref) << " + "
           << bracketed(to) << ", " << value << ");\n";
  }
  for (auto store : columns.body->getOps<memref::StoreOp>())
    known.insert(placeOf(accessOf(store), columns.induction));
  return success();
}

void CudaKernel::openSum(scf::ForOp loop) {
  if (loop.getNumResults() == 0)
    return;
  std::string sum = fresh("sum");
  line() << "float " << sum << " = 0.0f;\n";
  names[loop.getRegionIterArgs().front()] = sum;
}

/// Adds what the threads have, in an order of their numbers alone.
void CudaKernel::closeSum(scf::ForOp loop, StringRef function) {
  if (loop.getNumResults() == 0)
    return;
  std::string sum = names.lookup(loop.getRegionIterArgs().front());
  std::string start = names.lookup(loop.getInitArgs().front());
  line() << sum << " = " << (start == "0.0f" ? "" : start + " + ") << function
         << "(" << sum << ");\n";
  names[loop.getResult(0)] = sum;
}
