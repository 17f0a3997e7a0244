//===- CompareRuns.cpp - The same steps on two modules --------------------===//
#include "tools/oracle/Checks.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <limits>

using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;

double oracle::relativeDifference(llvm::ArrayRef<double> a,
                                  llvm::ArrayRef<double> b, double floor) {
  double difference = 0.0, size = floor;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    if (!std::isfinite(x) || !std::isfinite(y))
      return std::numeric_limits<double>::infinity();
    difference = std::fmax(difference, std::fabs(x - y));
  }
  for (llvm::ArrayRef<double> values : {a, b})
    for (double value : values)
      if (std::isfinite(value))
        size = std::fmax(size, std::fabs(value));
  return difference == 0.0 ? 0.0 : difference / size;
}

namespace {
/// The largest difference among things of one kind.
struct Worst {
  std::string kind;
  int64_t count = 0;
  double difference = 0.0;
  std::string where = {};
  double slack = 1.0; ///< Times the tolerance.

  void add(const std::string &name, double found) {
    ++count;
    if (!(found > difference))
      return;
    difference = found;
    where = name;
  }
};
} // namespace

/// The losses of step `step`: of training where `train`, else of the forward.
static Result<rt::OrderedJson> takeStep(const ComparedRun &side, int64_t step,
                                        bool micro, bool apply) {
  if (micro)
    return side.run.trainStep(side.batches, step, side.geometry.microSteps,
                              apply);
  CIUIC_TRY_ASSIGN(Run::Loss loss, side.run.evaluate(side.batches, step,
                                                     side.geometry.microSteps));
  rt::OrderedJson record;
  record["loss"] = loss.mean();
  record["tokens"] = loss.count;
  return record;
}

/// The largest absolute value among the tensors of a role.
static double largest(Run &run, train::Role role) {
  double size = 0.0;
  for (const NamedTensor &tensor : run.layout().tensors())
    if (tensor.role == role)
      for (double value : Layout::get(run.interpreter(), tensor))
        if (std::isfinite(value))
          size = std::fmax(size, std::fabs(value));
  return size;
}

/// Compares the tensors of one role that both sides have, the second's times
/// `factor`.
static Result<Worst> compareTensors(Run &a, Run &b, train::Role role,
                                    std::string kind, double factor) {
  Worst worst{.kind = std::move(kind)};
  double floor = 1e-6 * largest(a, role);
  for (const NamedTensor &tensor : a.layout().tensors()) {
    const NamedTensor *other = b.layout().find(tensor.name);
    if (tensor.role != role || !other)
      continue;
    if (tensor.shape != other->shape)
      return Status::invalid("\"" + tensor.name +
                             "\" has another shape in the second module");
    std::vector<double> left = Layout::get(a.interpreter(), tensor);
    std::vector<double> right = Layout::get(b.interpreter(), *other);
    for (double &value : right)
      value *= factor;
    worst.add(tensor.name, relativeDifference(left, right, floor));
  }
  return worst;
}

Status oracle::compareRuns(const ComparedRun &a, const ComparedRun &b,
                           const CheckOptions &options, llvm::raw_ostream &os) {
  if (a.geometry.rows() != b.geometry.rows() ||
      a.geometry.sequence != b.geometry.sequence)
    return Status::invalid(
        "the first module takes " + std::to_string(a.geometry.rows()) +
        " sequences of " + std::to_string(a.geometry.sequence) +
        " tokens a step, the second " + std::to_string(b.geometry.rows()) +
        " of " + std::to_string(b.geometry.sequence) +
        "; expected the same, see --micro-steps");
  auto hasMicro = [](const ComparedRun &side) {
    return bool(side.run.interpreter().find(train::kMicroStep));
  };
  bool micro = hasMicro(a) && hasMicro(b);
  bool apply = a.run.canTrain() && b.run.canTrain();
  int64_t steps = micro && !apply ? 1 : options.steps;

  std::vector<Worst> all;
  all.push_back(Worst{.kind = "losses"});
  for (int64_t step = 0; step < steps; ++step) {
    CIUIC_TRY_ASSIGN(rt::OrderedJson left, takeStep(a, step, micro, apply));
    CIUIC_TRY_ASSIGN(rt::OrderedJson right, takeStep(b, step, micro, apply));
    for (const char *key : {"loss", "tokens", "grad_norm", "lr"})
      if (left.contains(key) && right.contains(key))
        all.front().add(std::string(key) + " of step " + std::to_string(step),
                        relativeDifference({left[key].get<double>()},
                                           {right[key].get<double>()}));
  }
  // Each side's gradients are those of its scaled loss.
  double gradientFactor = a.run.stepScale() / b.run.stepScale();
  for (auto [role, kind] : {std::pair(train::Role::Parameter, "parameters"),
                            std::pair(train::Role::Master, "masters"),
                            std::pair(train::Role::Moment, "moments"),
                            std::pair(train::Role::Gradient, "gradients")}) {
    if (role == train::Role::Gradient && !micro)
      continue;
    CIUIC_TRY_ASSIGN(
        Worst worst,
        compareTensors(a.run, b.run, role, kind,
                       role == train::Role::Gradient ? gradientFactor : 1.0));
    // Adam divides by the size of a gradient, however small, and with it
    // enlarges what rounding left of a gradient of nearly 0.
    if (role != train::Role::Gradient)
      worst.slack = 100.0;
    all.push_back(worst);
  }

  std::string failed;
  for (const Worst &worst : all) {
    os << worst.kind << ": " << worst.count
       << " compared, the largest relative difference is "
       << llvm::format("%.1e", worst.difference);
    if (!worst.where.empty())
      os << ", of " << worst.where;
    os << "\n";
    if (!(worst.difference <= worst.slack * options.tolerance))
      failed = worst.kind;
  }
  if (all.front().count == 0)
    return Status::invalid("the modules have no loss in common");
  if (!failed.empty())
    return Status::invalid("the modules differ in their " + failed +
                           ": see above");
  return {};
}
