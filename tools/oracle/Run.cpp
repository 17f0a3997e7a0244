//===- Run.cpp - Training steps on the oracle -----------------------------===//
#include "tools/oracle/Run.h"
#include "tools/oracle/Initialise.h"

#include <algorithm>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;

FailureOr<Run> Run::create(ModuleOp module, const InterpreterOptions &options,
                           uint64_t seed) {
  FailureOr<Interpreter> machine = Interpreter::create(module, options);
  if (failed(machine))
    return failure();
  FailureOr<Layout> names = Layout::create(module);
  if (failed(names))
    return failure();
  initialise(*machine, *names, seed);
  return Run(std::move(*machine), std::move(*names));
}

//===----------------------------------------------------------------------===//
// What the module says of itself
//===----------------------------------------------------------------------===//

bool oracle::takesBatch(func::FuncOp function) {
  if (!function || function.getNumArguments() != 2)
    return false;
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[0]);
  return type && type.getRank() == 2 && type.getElementType().isInteger(32) &&
         type == function.getArgumentTypes()[1];
}

func::FuncOp Run::batchFunction() const {
  for (StringRef name : {train::kMicroStep, train::kForward, train::kEvalStep})
    if (func::FuncOp function = machine.find(name); takesBatch(function))
      return function;
  return {};
}

static train::GradScaleOp findGradScale(const Interpreter &machine) {
  train::GradScaleOp found;
  if (func::FuncOp apply = machine.find(train::kApplyStep))
    apply.walk([&](train::GradScaleOp op) { found = op; });
  return found;
}

Result<BatchGeometry> Run::geometry(int64_t microSteps) const {
  func::FuncOp function = batchFunction();
  if (!function)
    return Status::invalid("the module has no @micro_step, @forward or "
                           "@eval_step of two tensors of BxT i32");
  return geometryOf(function, microSteps);
}

Result<BatchGeometry> Run::geometryOf(func::FuncOp function,
                                      int64_t microSteps) const {
  auto type = cast<RankedTensorType>(function.getArgumentTypes()[0]);
  BatchGeometry geometry;
  geometry.ranks = machine.ranks();
  geometry.batch = type.getDimSize(0);
  geometry.sequence = type.getDimSize(1);
  geometry.microSteps = microSteps;
  if (microSteps > 0)
    return geometry;
  geometry.microSteps = 1;
  train::GradScaleOp scale = findGradScale(machine);
  double microSlots = static_cast<double>(geometry.rows() * geometry.sequence);
  if (!scale || !(microSlots > 0.0))
    return geometry;
  double count = scale.getSlots().convertToDouble() / microSlots;
  if (count != std::floor(count) || !(count >= 1.0) || !(count <= 1e6))
    return Status::invalid("@apply_step divides by " +
                           std::to_string(scale.getSlots().convertToDouble()) +
                           " token slots, expected a multiple of the " +
                           std::to_string(microSlots) +
                           " of one micro-step on all ranks");
  geometry.microSteps = static_cast<int64_t>(count);
  return geometry;
}

double Run::slots(const BatchGeometry &geometry) const {
  if (train::GradScaleOp scale = findGradScale(machine))
    return scale.getSlots().convertToDouble();
  return static_cast<double>(geometry.rows() * geometry.sequence);
}

double Run::meanFactor(const BatchGeometry &geometry) const {
  double labelled = std::max(number("metric.tokens").value_or(1.0), 1.0);
  return slots(geometry) / labelled / scale;
}

int64_t Run::vocabulary() const {
  int64_t smallest = 0;
  auto limit = [&](Value table, unsigned dim) {
    int64_t size = cast<RankedTensorType>(table.getType()).getDimSize(dim);
    smallest = smallest == 0 ? size : std::min(smallest, size);
  };
  machine.getModule().walk([&](Operation *op) {
    if (auto embedding = dyn_cast<train::EmbeddingOp>(op))
      limit(embedding.getTable(), 0);
    else if (auto loss = dyn_cast<train::CrossEntropyOp>(op))
      limit(loss.getLogits(), 1);
  });
  return smallest;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Result<std::vector<RankValues>> Run::call(StringRef function,
                                          ArrayRef<RankValues> arguments) {
  func::FuncOp op = machine.find(function);
  if (!op)
    return Status::invalid("the module has no function @" + function.str());
  FailureOr<std::vector<RankValues>> results = machine.call(op, arguments);
  if (failed(results))
    return Status::invalid("@" + function.str() + " failed");
  return std::move(*results);
}

void Run::clearSums() {
  scale = number("loss_scale").value_or(1.0);
  for (auto state : machine.getModule().getOps<train::StateOp>())
    if (state.getRole() == train::Role::Gradient ||
        state.getRole() == train::Role::Metric)
      machine.fill(state.getSymName(), 0.0);
}

std::optional<double> Run::number(StringRef name) const {
  const NamedTensor *tensor = names.find(name);
  if (!tensor || tensor->size != 1)
    return std::nullopt;
  return Layout::get(machine, *tensor)[0];
}

Status Run::checkReplicas() const {
  for (auto state : machine.getModule().getOps<train::StateOp>()) {
    train::Role role = state.getRole();
    if (state.getSharded() || state.getBucket() ||
        role == train::Role::Gradient || role == train::Role::Metric)
      continue; // Each rank has its own.
    const RankValues &values = machine.state(state.getSymName());
    for (size_t rank = 1; rank < values.size(); ++rank)
      if (!identical(*values[0], *values[rank]))
        return Status::invalid("ranks 0 and " + std::to_string(rank) +
                               " disagree on @" + state.getSymName().str() +
                               ", which all ranks hold whole");
  }
  return {};
}

Result<rt::OrderedJson> Run::trainStep(const Batches &batches, int64_t step,
                                       int64_t microSteps, bool apply) {
  clearSums();
  for (int64_t micro = 0; micro < microSteps; ++micro)
    if (auto results = call(train::kMicroStep, {batches.tokens(step, micro),
                                                batches.labels(step, micro)});
        !results.ok())
      return results.takeStatus();
  if (apply) {
    if (auto results = call(train::kApplyStep, {}); !results.ok())
      return results.takeStatus();
    CIUIC_TRY(checkReplicas());
  }

  rt::OrderedJson record;
  record["step"] = step;
  std::optional<double> sum = number("metric.loss");
  std::optional<double> count = number("metric.tokens");
  if (sum && count)
    record["loss"] = *sum / std::max(*count, 1.0);
  if (count)
    record["tokens"] = *count;
  if (apply)
    for (const NamedTensor &tensor : names.tensors())
      if (StringRef name = tensor.name;
          name.consume_front("report.") && tensor.size == 1)
        record[name.str()] = Layout::get(machine, tensor)[0];
  return record;
}

Result<Run::Loss> Run::evaluate(const Batches &batches, int64_t step,
                                int64_t microSteps) {
  func::FuncOp forward = machine.find(train::kForward);
  bool isForward = takesBatch(forward) && forward.getNumResults() == 2;
  bool isEval = !isForward && takesBatch(machine.find(train::kEvalStep));
  StringRef function = isForward ? train::kForward
                       : isEval  ? train::kEvalStep
                                 : train::kMicroStep;
  clearSums();
  Loss loss;
  for (int64_t micro = 0; micro < microSteps; ++micro) {
    CIUIC_TRY_ASSIGN(std::vector<RankValues> results,
                     call(function, {batches.tokens(step, micro),
                                     batches.labels(step, micro)}));
    if (isForward)
      for (int64_t rank = 0; rank < machine.ranks(); ++rank) {
        loss.sum += results[0][rank]->data[0];
        loss.count += results[1][rank]->data[0];
      }
  }
  if (isForward)
    return loss;
  std::optional<double> sum =
      number(isEval ? "metric.eval_loss" : "metric.loss");
  std::optional<double> count =
      number(isEval ? "metric.eval_tokens" : "metric.tokens");
  if (!sum || !count)
    return Status::invalid("@" + function.str() +
                           " has no metric states for loss and tokens");
  return Loss{*sum, *count};
}
