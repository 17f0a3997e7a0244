//===- CheckGradients.cpp - Gradients against differences of the loss -----===//
#include "runtime/base/Philox.h"
#include "tools/oracle/Checks.h"
#include "tools/oracle/Initialise.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <limits>

using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;

namespace {
/// One parameter along one direction.
struct Slope {
  std::string name;
  std::vector<double> direction = {};
  double analytic = 0.0;
  double numeric = 0.0;
  double error = std::numeric_limits<double>::infinity();
};
} // namespace

/// A random direction, as large as the parameter itself.
static std::vector<double> makeDirection(const std::string &name,
                                         const std::vector<double> &values,
                                         uint64_t seed) {
  double squares = 0.0;
  for (double value : values)
    squares += value * value;
  double size = std::sqrt(squares / static_cast<double>(values.size()));
  std::vector<float> drawn(values.size());
  rt::fillNormal(seed, rt::hashName(name + ".direction"), 0, drawn.size(), 0.0,
                 std::max(size, 1e-2), drawn.data());
  return {drawn.begin(), drawn.end()};
}

/// The derivative of the summed loss along `direction`.
static Result<double>
differentiate(Run &run, const Batches &batches, const BatchGeometry &geometry,
              const NamedTensor &parameter, const std::vector<double> &values,
              const std::vector<double> &direction, double eps) {
  // f(x + k eps) for k = -2, -1, 1, 2; the error is of order eps^4.
  static constexpr int places[] = {-2, -1, 1, 2};
  static constexpr double weights[] = {1.0 / 12, -8.0 / 12, 8.0 / 12,
                                       -1.0 / 12};
  double slope = 0.0;
  for (auto [place, weight] : llvm::zip_equal(places, weights)) {
    std::vector<double> moved = values;
    for (size_t i = 0; i < moved.size(); ++i)
      moved[i] += place * eps * direction[i];
    setParameter(run.interpreter(), run.layout(), parameter, moved);
    CIUIC_TRY_ASSIGN(Run::Loss loss,
                     run.evaluate(batches, 0, geometry.microSteps));
    slope += weight * loss.sum;
  }
  setParameter(run.interpreter(), run.layout(), parameter, values);
  return slope / eps;
}

/// The gradients of @micro_step along a random direction each.
static Result<std::vector<Slope>> analyticSlopes(Run &run,
                                                 const Batches &batches,
                                                 const BatchGeometry &geometry,
                                                 uint64_t seed) {
  auto record = run.trainStep(batches, 0, geometry.microSteps, /*apply=*/false);
  if (!record.ok())
    return record.takeStatus();
  std::vector<Slope> slopes;
  for (const NamedTensor &parameter : run.layout().tensors()) {
    train::StateOp declared = parameter.parameter;
    if (parameter.role != train::Role::Parameter || !declared.getTrainable())
      continue;
    const NamedTensor *gradient = run.layout().find(parameter.name + ".grad");
    if (!gradient)
      return Status::invalid("trainable parameter \"" + parameter.name +
                             "\" has no gradient state");
    Slope slope{.name = parameter.name};
    slope.direction = makeDirection(
        parameter.name, Layout::get(run.interpreter(), parameter), seed);
    std::vector<double> elements = Layout::get(run.interpreter(), *gradient);
    for (size_t i = 0; i < elements.size(); ++i)
      slope.analytic += elements[i] * slope.direction[i];
    slopes.push_back(std::move(slope));
  }
  return slopes;
}

Status oracle::checkGradients(Run &run, const Batches &batches,
                              const BatchGeometry &geometry,
                              const CheckOptions &options,
                              llvm::raw_ostream &os) {
  CIUIC_TRY_ASSIGN(std::vector<Slope> slopes,
                   analyticSlopes(run, batches, geometry, options.seed));
  if (slopes.empty())
    return Status::invalid("the module has no trainable parameter to check");
  double largest = 0.0;
  for (const Slope &slope : slopes)
    largest = std::fmax(largest, std::fabs(slope.analytic));

  // Gradients are those of scale * (summed loss) / slots.
  double seed = run.stepScale() / run.slots(geometry);
  for (Slope &slope : slopes) {
    const NamedTensor &parameter = *run.layout().find(slope.name);
    // A small step drowns in rounding, a large one in curvature, and where
    // that happens depends on the parameter. A wrong gradient is wrong at
    // every step, so the best of three is what counts.
    for (double factor : {1.0, 8.0, 0.125}) {
      CIUIC_TRY_ASSIGN(double derivative,
                       differentiate(run, batches, geometry, parameter,
                                     Layout::get(run.interpreter(), parameter),
                                     slope.direction, factor * options.eps));
      bool isFinite =
          std::isfinite(slope.analytic) && std::isfinite(derivative);
      double error =
          isFinite ? relativeDifference({slope.analytic}, {seed * derivative},
                                        1e-6 * largest)
                   : std::numeric_limits<double>::infinity();
      if (error < slope.error) {
        slope.error = error;
        slope.numeric = seed * derivative;
      }
      if (slope.error <= 0.1 * options.tolerance)
        break;
    }
  }

  double worst = 0.0;
  std::string worstName = slopes.front().name;
  for (const Slope &slope : slopes) {
    os << llvm::format("%-48s gradient %+.9e  difference %+.9e  off by %.1e\n",
                       slope.name.c_str(), slope.analytic, slope.numeric,
                       slope.error);
    if (slope.error > worst) {
      worst = slope.error;
      worstName = slope.name;
    }
  }
  os << "checked " << slopes.size() << " parameters; the largest error is "
     << llvm::format("%.1e", worst) << ", of " << worstName << "\n";
  if (!(worst <= options.tolerance))
    return Status::invalid("the gradient of \"" + worstName +
                           "\" is wrong: see above");
  return {};
}
