//===- CheckGradients.cpp - Gradients against differences of the loss -----===//
#include "runtime/base/Philox.h"
#include "tools/oracle/Checks.h"
#include "tools/oracle/Initialise.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;

namespace {
/// One parameter along one direction.
struct Slope {
  std::string name;
  double analytic = 0.0;
  double numeric = 0.0;
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

static Result<std::vector<Slope>> measureSlopes(Run &run,
                                                const Batches &batches,
                                                const BatchGeometry &geometry,
                                                const CheckOptions &options) {
  std::vector<Slope> slopes;
  std::vector<std::vector<double>> directions;
  CIUIC_TRY_ASSIGN(auto record, run.trainStep(batches, 0, geometry.microSteps,
                                              /*apply=*/false));
  (void)record;
  for (const NamedTensor &parameter : run.layout().tensors()) {
    train::StateOp declared = parameter.parameter;
    if (parameter.role != train::Role::Parameter || !declared.getTrainable())
      continue;
    const NamedTensor *gradient = run.layout().find(parameter.name + ".grad");
    if (!gradient)
      return Status::invalid("trainable parameter \"" + parameter.name +
                             "\" has no gradient state");
    directions.push_back(
        makeDirection(parameter.name, Layout::get(run.interpreter(), parameter),
                      options.seed));
    Slope slope{.name = parameter.name};
    std::vector<double> elements = Layout::get(run.interpreter(), *gradient);
    for (size_t i = 0; i < elements.size(); ++i)
      slope.analytic += elements[i] * directions.back()[i];
    slopes.push_back(slope);
  }

  // Gradients are those of scale * (summed loss) / slots.
  double seed = run.number("loss_scale").value_or(1.0) / run.slots(geometry);
  for (auto [slope, direction] : llvm::zip_equal(slopes, directions)) {
    const NamedTensor &parameter = *run.layout().find(slope.name);
    CIUIC_TRY_ASSIGN(double derivative,
                     differentiate(run, batches, geometry, parameter,
                                   Layout::get(run.interpreter(), parameter),
                                   direction, options.eps));
    slope.numeric = seed * derivative;
  }
  return slopes;
}

Status oracle::checkGradients(Run &run, const Batches &batches,
                              const BatchGeometry &geometry,
                              const CheckOptions &options,
                              llvm::raw_ostream &os) {
  CIUIC_TRY_ASSIGN(std::vector<Slope> slopes,
                   measureSlopes(run, batches, geometry, options));
  if (slopes.empty())
    return Status::invalid("the module has no trainable parameter to check");

  double largest = 0.0;
  for (const Slope &slope : slopes)
    largest = std::fmax(largest, std::fabs(slope.numeric));
  double worst = 0.0;
  std::string worstName = slopes.front().name;
  for (const Slope &slope : slopes) {
    double error =
        relativeDifference({slope.analytic}, {slope.numeric}, 1e-6 * largest);
    os << llvm::format("%-48s gradient %+.9e  difference %+.9e  off by %.1e\n",
                       slope.name.c_str(), slope.analytic, slope.numeric,
                       error);
    if (error > worst) {
      worst = error;
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
