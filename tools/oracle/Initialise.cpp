//===- Initialise.cpp - The state before the first step -------------------===//
#include "tools/oracle/Initialise.h"
#include "runtime/base/Philox.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

/// The angle by which pair `j` turns from one position to the next.
static double rotaryFrequency(train::RopeInitAttr rope, int64_t j) {
  double exponent = -2.0 * static_cast<double>(j) / rope.getDim();
  double frequency = std::pow(rope.getTheta(), exponent);
  double factor = rope.getFactor();
  switch (rope.getScaling()) {
  case train::RopeScaling::None:
    return frequency;
  case train::RopeScaling::Linear:
    return frequency / factor;
  case train::RopeScaling::Llama3:
    break;
  }
  double wavelength = 2.0 * std::numbers::pi / frequency;
  auto original = static_cast<double>(rope.getOriginal());
  double low = rope.getLow(), high = rope.getHigh();
  if (wavelength < original / high)
    return frequency;
  if (wavelength > original / low)
    return frequency / factor;
  double share = (original / wavelength - low) / (high - low);
  return (1.0 - share) * frequency / factor + share * frequency;
}

std::vector<double> oracle::initialValues(Attribute init, StringRef name,
                                          ArrayRef<int64_t> shape,
                                          uint64_t seed) {
  std::vector<double> values(elementCount(shape));
  if (auto constant = dyn_cast<train::ConstantInitAttr>(init)) {
    values.assign(values.size(), constant.getValue());
  } else if (auto normal = dyn_cast<train::NormalInitAttr>(init)) {
    std::vector<float> drawn(values.size());
    rt::fillNormal(seed, rt::hashName(name), 0, drawn.size(), 0.0,
                   normal.getStd(), drawn.data());
    values.assign(drawn.begin(), drawn.end());
  } else if (auto rope = dyn_cast<train::RopeInitAttr>(init)) {
    bool isCos = rope.getPart() == train::TablePart::Cos;
    for (int64_t j = 0; j < shape[1]; ++j) {
      double frequency = rotaryFrequency(rope, j);
      for (int64_t t = 0; t < shape[0]; ++t) {
        double angle = static_cast<double>(t) * frequency;
        values[t * shape[1] + j] = isCos ? std::cos(angle) : std::sin(angle);
      }
    }
  }
  return values;
}

void oracle::setParameter(Interpreter &interpreter, const Layout &layout,
                          const NamedTensor &parameter,
                          ArrayRef<double> elements) {
  Layout::set(interpreter, parameter, elements);
  if (const NamedTensor *master = layout.find(parameter.name + ".master"))
    Layout::set(interpreter, *master, elements);
}

void oracle::initialise(Interpreter &interpreter, const Layout &layout,
                        uint64_t seed) {
  // Storages of parameters start at zero, which is what their padding keeps.
  for (auto state : interpreter.getModule().getOps<train::StateOp>())
    interpreter.fill(state.getSymName(), 0.0);
  for (const NamedTensor &tensor : layout.tensors()) {
    if (tensor.role == train::Role::Master)
      continue; // Follows its parameter.
    bool isParameter = tensor.role == train::Role::Parameter;
    train::StateOp declared = isParameter ? tensor.parameter : tensor.storage;
    std::vector<double> values =
        initialValues(declared.getInit(), tensor.name, tensor.shape, seed);
    if (isParameter)
      setParameter(interpreter, layout, tensor, values);
    else
      Layout::set(interpreter, tensor, values);
  }
}
