//===- Interpreter.cpp - Runs functions on all ranks at once --------------===//
#include "tools/oracle/Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tools/oracle/Kernels.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

void oracle::registerDialects(DialectRegistry &registry) {
  registry.insert<comm::CommDialect, train::TrainDialect, arith::ArithDialect,
                  func::FuncDialect, math::MathDialect>();
}

//===----------------------------------------------------------------------===//
// What can run
//===----------------------------------------------------------------------===//

static Kernel findKernel(Operation *op) {
  for (auto find : {findPointwiseKernel, findTensorKernel, findAttentionKernel,
                    findUpdateKernel, findLayoutKernel})
    if (Kernel kernel = find(op))
      return kernel;
  return nullptr;
}

/// Ops without a kernel: declarations, access to state, and structure.
static bool isStructure(Operation *op, ModuleOp module) {
  if (isa<func::FuncOp, train::StateOp, comm::BucketOp>(op))
    return op->getParentOp() == module;
  return op == module ||
         isa<func::ReturnOp, train::ReadOp, train::WriteOp, train::AccumulateOp,
             train::RecomputeOp, train::YieldOp>(op);
}

static LogicalResult checkType(Operation *op, Type type) {
  if (describe(type))
    return success();
  return op->emitOpError() << "has a value of type " << type
                           << ", which ciuic-run cannot hold; expected a "
                              "static tensor of at most "
                           << kMaxElements << " floats or integers";
}

static comm::AxisAttr axisOf(Operation *op) {
  for (NamedAttribute attribute : op->getAttrs())
    if (auto axis = dyn_cast<comm::AxisAttr>(attribute.getValue()))
      return axis;
  if (auto properties =
          dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    for (NamedAttribute attribute : properties)
      if (auto axis = dyn_cast<comm::AxisAttr>(attribute.getValue()))
        return axis;
  return {};
}

/// Finds the ranks of the module and checks that there is one axis alone.
static LogicalResult checkAxis(Operation *op, comm::AxisAttr &known) {
  comm::AxisAttr axis = axisOf(op);
  if (!axis || axis == known)
    return success();
  if (known)
    return op->emitOpError()
           << "is over " << axis << ", but an op before it over " << known
           << "; ciuic-run knows modules of one axis";
  known = axis;
  return success();
}

FailureOr<Interpreter> Interpreter::create(ModuleOp module,
                                           const InterpreterOptions &options) {
  comm::AxisAttr axis;
  WalkResult walk = module.walk([&](Operation *op) {
    if (!isStructure(op, module) && !findKernel(op) && !findCollective(op)) {
      op->emitOpError() << "is unknown to ciuic-run";
      return WalkResult::interrupt();
    }
    if (auto state = dyn_cast<train::StateOp>(op))
      if (failed(checkType(op, state.getTensorType())))
        return WalkResult::interrupt();
    if (auto function = dyn_cast<func::FuncOp>(op))
      if (!function.getBody().hasOneBlock()) {
        op->emitOpError() << "has no body of one block, as ciuic-run expects";
        return WalkResult::interrupt();
      }
    if (failed(checkAxis(op, axis)))
      return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Type type : region.getArgumentTypes())
        if (failed(checkType(op, type)))
          return WalkResult::interrupt();
    for (Type type : op->getResultTypes())
      if (failed(checkType(op, type)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();

  int64_t ranks = axis ? axis.getSize() : std::max<int64_t>(1, options.ranks);
  if (options.ranks != 0 && options.ranks != ranks)
    return module.emitError() << "is made for the " << ranks << " ranks of "
                              << axis << ", expected " << options.ranks;
  if (ranks > kMaxRanks)
    return module.emitError()
           << "has " << ranks << " ranks, expected at most " << kMaxRanks;
  Interpreter interpreter(module, options.exact, ranks);
  for (auto state : module.getOps<train::StateOp>()) {
    auto zero = std::make_shared<Tensor>(*describe(state.getTensorType()));
    zero->data.resize(elementCount(zero->shape));
    interpreter.states[state.getSymName()] = RankValues(ranks, zero);
  }
  return interpreter;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

std::vector<double> &Interpreter::edit(StringRef name, int64_t rank) {
  // Other ranks and users keep the value that they saw.
  auto copy = std::make_shared<Tensor>(*states[name][rank]);
  states[name][rank] = copy;
  return copy->data;
}

void Interpreter::fill(StringRef name, double value) {
  auto filled = std::make_shared<Tensor>(*states[name].front());
  llvm::fill(filled->data, value);
  states[name] = RankValues(rankCount, filled);
}

void Interpreter::accumulate(StringRef state, const RankValues &value) {
  RankValues &sum = written.try_emplace(state, states[state]).first->second;
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    auto next = std::make_shared<Tensor>(*sum[rank]);
    for (auto [total, term] : llvm::zip_equal(next->data, value[rank]->data))
      total += term;
    if (!exact)
      next->round();
    sum[rank] = next;
  }
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

func::FuncOp Interpreter::find(StringRef function) const {
  return dyn_cast_or_null<func::FuncOp>(
      SymbolTable::lookupSymbolIn(module, function));
}

/// Whether all operands are the same tensor on every rank.
static bool isReplicated(ArrayRef<RankValues> operands) {
  return llvm::all_of(operands, [](const RankValues &operand) {
    return llvm::all_equal(operand);
  });
}

/// The results of an op, of full size and zero.
static SmallVector<Tensor, 4> makeResults(Operation *op) {
  SmallVector<Tensor, 4> results;
  for (Type type : op->getResultTypes()) {
    results.push_back(*describe(type));
    results.back().data.resize(elementCount(results.back().shape));
  }
  return results;
}

/// Rounds a value; what ranks shared, they share afterwards.
static void roundAll(RankValues &value) {
  TensorRef before, after;
  for (TensorRef &tensor : value) {
    if (tensor != before) {
      auto rounded = std::make_shared<Tensor>(*tensor);
      rounded->round();
      before = tensor;
      after = rounded;
    }
    tensor = after;
  }
}

FailureOr<std::vector<RankValues>>
Interpreter::evaluate(Operation *op, ArrayRef<RankValues> operands) {
  std::vector<RankValues> results(op->getNumResults());
  if (Collective collective = findCollective(op)) {
    results[0] = collective(op, operands[0]);
    if (!exact)
      roundAll(results[0]);
    return results;
  }

  Kernel kernel = findKernel(op);
  // What is the same on all ranks is computed once.
  bool once = isReplicated(operands) && !dependsOnRank(op);
  for (int64_t rank = 0; rank < (once ? 1 : rankCount); ++rank) {
    SmallVector<TensorRef> in;
    for (const RankValues &operand : operands)
      in.push_back(operand[rank]);
    SmallVector<Tensor, 4> out = makeResults(op);
    if (failed(kernel({op, rank, in, out})))
      return failure();
    for (auto [tensor, result] : llvm::zip_equal(out, results)) {
      if (!exact)
        tensor.round();
      auto shared = std::make_shared<const Tensor>(std::move(tensor));
      result.append(once ? rankCount : 1, shared);
    }
  }
  return results;
}

LogicalResult Interpreter::runOp(Operation *op, Environment &environment) {
  std::vector<RankValues> operands;
  for (Value operand : op->getOperands())
    operands.push_back(environment.lookup(operand));

  FailureOr<std::vector<RankValues>> results(std::vector<RankValues>{});
  if (auto read = dyn_cast<train::ReadOp>(op)) {
    results->push_back(states[read.getState()]);
  } else if (auto write = dyn_cast<train::WriteOp>(op)) {
    written[write.getState()] = operands[0];
  } else if (auto add = dyn_cast<train::AccumulateOp>(op)) {
    accumulate(add.getState(), operands[0]);
  } else if (auto recompute = dyn_cast<train::RecomputeOp>(op)) {
    ++regionDepth;
    results = runBlock(recompute.getBody().front(), operands);
    --regionDepth;
  } else {
    results = evaluate(op, operands);
  }
  if (failed(results))
    return failure();
  for (auto [value, result] : llvm::zip_equal(op->getResults(), *results))
    environment[value] = result;
  if (observer && regionDepth == 0)
    observer(op, *results);
  return success();
}

FailureOr<std::vector<RankValues>>
Interpreter::runBlock(Block &block, ArrayRef<RankValues> arguments) {
  Environment environment;
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    environment[argument] = value;
  for (Operation &op : block.without_terminator())
    if (failed(runOp(&op, environment)))
      return failure();
  std::vector<RankValues> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(environment.lookup(value));
  return results;
}

FailureOr<std::vector<RankValues>>
Interpreter::call(func::FuncOp function, ArrayRef<RankValues> arguments) {
  written.clear();
  FailureOr<std::vector<RankValues>> results =
      runBlock(function.getBody().front(), arguments);
  if (failed(results))
    return failure();
  for (auto &entry : written)
    states[entry.getKey()] = entry.getValue();
  written.clear();
  return results;
}
