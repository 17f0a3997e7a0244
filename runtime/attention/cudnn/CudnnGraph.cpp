//===- CudnnGraph.cpp - Operation graphs and their plans ------------------===//

#include "runtime/attention/cudnn/CudnnGraph.h"

#include <algorithm>

namespace ciuic::rt::cudnn {

void Graph::fail(Status status) {
  if (failure.ok())
    failure = std::move(status);
}

OwnedDescriptor *Graph::make(int kind) {
  if (!failure.ok())
    return nullptr;
  Result<OwnedDescriptor> made = OwnedDescriptor::make(library, kind);
  if (!made.ok()) {
    fail(made.takeStatus());
    return nullptr;
  }
  kept.push_back(std::make_unique<OwnedDescriptor>(std::move(*made)));
  return kept.back().get();
}

void Graph::set(OwnedDescriptor *descriptor, int name, int type, int64_t count,
                const void *elements) {
  if (failure.ok())
    fail(descriptor->set(name, type, count, elements));
}

void Graph::setTensor(OwnedDescriptor *operation, int name, Tensor tensor) {
  if (failure.ok() && tensor != none)
    set(operation, name, type::descriptor, 1, &tensors[tensor]);
}

void Graph::finalize(OwnedDescriptor *descriptor) {
  if (failure.ok())
    fail(descriptor->finalize());
}

void Graph::addOperation(OwnedDescriptor *operation) {
  finalize(operation);
  if (failure.ok())
    operations.push_back(operation->get());
}

Graph::Tensor Graph::tensor(DataType type, const Sizes &sizes,
                            const Sizes &strides, bool isVirtual,
                            bool isByValue) {
  const Tensor id = static_cast<Tensor>(tensors.size());
  OwnedDescriptor *made = make(kind::tensor);
  const int64_t alignment = 16;
  const int dataType = static_cast<int>(type);
  set(made, attribute::tensorType, type::dataType, 1, &dataType);
  set(made, attribute::tensorSizes, type::int64, 4, sizes.data());
  set(made, attribute::tensorStrides, type::int64, 4, strides.data());
  set(made, attribute::tensorId, type::int64, 1, &id);
  set(made, attribute::tensorAlignment, type::int64, 1, &alignment);
  set(made, attribute::tensorIsVirtual, type::boolean, 1, &isVirtual);
  set(made, attribute::tensorIsByValue, type::boolean, 1, &isByValue);
  finalize(made);
  tensors.push_back(failure.ok() ? made->get() : nullptr);
  return id;
}

Graph::Tensor Graph::stored(DataType type, const Sizes &sizes,
                            const Sizes &strides) {
  return tensor(type, sizes, strides, /*isVirtual=*/false, /*isByValue=*/false);
}

Graph::Tensor Graph::passing(DataType type, const Sizes &sizes,
                             const Sizes &strides) {
  return tensor(type, sizes, strides, /*isVirtual=*/true, /*isByValue=*/false);
}

Graph::Tensor Graph::number() {
  return tensor(DataType::Float, {1, 1, 1, 1}, {1, 1, 1, 1},
                /*isVirtual=*/false, /*isByValue=*/true);
}

OwnedDescriptor *Graph::pointwiseOperation(Pointwise mode, DataType precision,
                                           const int64_t *axis) {
  OwnedDescriptor *how = make(kind::pointwise);
  set(how, attribute::pointwiseMode, type::pointwiseMode, 1, &mode);
  set(how, attribute::pointwisePrecision, type::dataType, 1, &precision);
  if (axis)
    set(how, attribute::pointwiseAxis, type::int64, 1, axis);
  finalize(how);
  OwnedDescriptor *operation = make(kind::pointwiseOperation);
  if (!failure.ok())
    return nullptr;
  set(operation, attribute::operationPointwise, type::descriptor, 1,
      how->address());
  return operation;
}

void Graph::pointwise(Pointwise mode, Tensor x, Tensor b, Tensor y,
                      DataType precision) {
  OwnedDescriptor *operation = pointwiseOperation(mode, precision);
  if (!operation)
    return;
  setTensor(operation, attribute::operationPointwiseX, x);
  setTensor(operation, attribute::operationPointwiseB, b);
  setTensor(operation, attribute::operationPointwiseY, y);
  addOperation(operation);
}

void Graph::index(Tensor x, int64_t axis, Tensor y) {
  OwnedDescriptor *operation =
      pointwiseOperation(Pointwise::GenerateIndex, DataType::Int32, &axis);
  if (!operation)
    return;
  setTensor(operation, attribute::operationPointwiseX, x);
  setTensor(operation, attribute::operationPointwiseY, y);
  addOperation(operation);
}

void Graph::select(Tensor x, Tensor b, Tensor mask, Tensor y) {
  OwnedDescriptor *operation =
      pointwiseOperation(Pointwise::Select, DataType::Float);
  if (!operation)
    return;
  setTensor(operation, attribute::operationPointwiseX, x);
  setTensor(operation, attribute::operationPointwiseB, b);
  setTensor(operation, attribute::operationPointwiseT, mask);
  setTensor(operation, attribute::operationPointwiseY, y);
  addOperation(operation);
}

void Graph::matmul(Tensor a, Tensor b, Tensor c) {
  OwnedDescriptor *how = make(kind::matmul);
  const DataType precision = DataType::Float;
  set(how, attribute::matmulType, type::dataType, 1, &precision);
  finalize(how);
  OwnedDescriptor *operation = make(kind::matmulOperation);
  if (!failure.ok())
    return;
  setTensor(operation, attribute::matmulA, a);
  setTensor(operation, attribute::matmulB, b);
  setTensor(operation, attribute::matmulC, c);
  set(operation, attribute::matmulDescriptor, type::descriptor, 1,
      how->address());
  addOperation(operation);
}

void Graph::reduce(Reduce reduction, Tensor x, Tensor y) {
  OwnedDescriptor *how = make(kind::reduction);
  const DataType precision = DataType::Float;
  set(how, attribute::reductionOperator, type::reductionOperator, 1,
      &reduction);
  set(how, attribute::reductionType, type::dataType, 1, &precision);
  finalize(how);
  OwnedDescriptor *operation = make(kind::reductionOperation);
  if (!failure.ok())
    return;
  setTensor(operation, attribute::reductionX, x);
  setTensor(operation, attribute::reductionY, y);
  set(operation, attribute::reductionDescriptor, type::descriptor, 1,
      how->address());
  addOperation(operation);
}

void Graph::reshape(Tensor x, Tensor y) {
  OwnedDescriptor *operation = make(kind::reshapeOperation);
  if (!failure.ok())
    return;
  setTensor(operation, attribute::reshapeX, x);
  setTensor(operation, attribute::reshapeY, y);
  addOperation(operation);
}

/// Whether the engine of a configuration says that runs may differ.
static Result<bool> isNondeterministic(std::shared_ptr<const Library> library,
                                       const OwnedDescriptor &config) {
  CIUIC_TRY_ASSIGN(OwnedDescriptor engine,
                   OwnedDescriptor::make(library, kind::engine));
  int64_t count = 0;
  Descriptor raw = engine.get();
  CIUIC_TRY(
      config.get(attribute::configEngine, type::descriptor, 1, count, &raw));
  constexpr int64_t most = 32;
  int notes[most] = {};
  CIUIC_TRY(engine.get(attribute::engineNumericalNote, type::numericalNote,
                       most, count, notes));
  return std::find(notes, notes + std::min(count, most),
                   noteNondeterministic) != notes + std::min(count, most);
}

static Result<Plan> planOf(std::shared_ptr<const Library> library,
                           const Device &device,
                           const OwnedDescriptor &config) {
  Plan plan;
  CIUIC_TRY_ASSIGN(plan.descriptor,
                   OwnedDescriptor::make(library, kind::executionPlan));
  if (device.handle)
    CIUIC_TRY(plan.descriptor.set(attribute::planHandle, type::handle, 1,
                                  &device.handle));
  else
    CIUIC_TRY(plan.descriptor.set(attribute::planDevice, type::descriptor, 1,
                                  &device.properties));
  CIUIC_TRY(plan.descriptor.set(attribute::planConfig, type::descriptor, 1,
                                config.address()));
  CIUIC_TRY(plan.descriptor.finalize());
  int64_t bytes = 0, count = 0;
  CIUIC_TRY(plan.descriptor.get(attribute::planWorkspace, type::int64, 1, count,
                                &bytes));
  if (count != 1 || bytes < 0)
    return Status::machine("cuDNN gives no workspace size of its plan");
  plan.workspaceBytes = static_cast<uint64_t>(bytes);
  return plan;
}

Result<Plan> Graph::plan(const Device &device, bool deterministic,
                         uint64_t mostBytes) {
  OwnedDescriptor *graph = make(kind::operationGraph);
  set(graph, attribute::graphOperations, type::descriptor,
      static_cast<int64_t>(operations.size()), operations.data());
  if (device.handle)
    set(graph, attribute::graphHandle, type::handle, 1, &device.handle);
  finalize(graph);
  if (!failure.ok())
    return std::move(failure).during(
        [] { return "building an operation graph of cuDNN"; });

  std::string reasons;
  auto passOver = [&](const std::string &reason) {
    // One line each, and of many engines the first few.
    if (std::count(reasons.begin(), reasons.end(), '\n') < 4)
      reasons += "\n  " + reason.substr(0, reason.find('\n'));
  };
  for (Heuristics mode : {Heuristics::A, Heuristics::Fallback}) {
    CIUIC_TRY_ASSIGN(OwnedDescriptor heuristics,
                     OwnedDescriptor::make(library, kind::engineHeuristics));
    CIUIC_TRY(heuristics.set(attribute::heuristicsGraph, type::descriptor, 1,
                             graph->address()));
    CIUIC_TRY(heuristics.set(attribute::heuristicsMode, type::heuristicsMode, 1,
                             &mode));
    if (!device.handle)
      CIUIC_TRY(heuristics.set(attribute::heuristicsDevice, type::descriptor, 1,
                               &device.properties));
    if (Status status = heuristics.finalize(); !status.ok()) {
      passOver("no engine: " + status.str());
      continue;
    }
    constexpr int64_t most = 16;
    std::vector<OwnedDescriptor> configs;
    std::vector<Descriptor> raw;
    for (int64_t i = 0; i < most; ++i) {
      CIUIC_TRY_ASSIGN(OwnedDescriptor config,
                       OwnedDescriptor::make(library, kind::engineConfig));
      raw.push_back(config.get());
      configs.push_back(std::move(config));
    }
    int64_t count = 0;
    CIUIC_TRY(heuristics.get(attribute::heuristicsResults, type::descriptor,
                             most, count, raw.data()));
    for (int64_t i = 0; i < std::min(count, most); ++i) {
      if (deterministic) {
        CIUIC_TRY_ASSIGN(bool differs, isNondeterministic(library, configs[i]));
        if (differs) {
          passOver("an engine whose runs may differ");
          continue;
        }
      }
      Result<Plan> made = planOf(library, device, configs[i]);
      if (!made.ok()) {
        passOver(made.takeStatus().str());
        continue;
      }
      if (made->workspaceBytes > mostBytes) {
        passOver(
            "an engine that needs " + std::to_string(made->workspaceBytes) +
            " bytes of workspace, " + std::to_string(mostBytes) + " planned");
        continue;
      }
      return made;
    }
  }
  return Status::machine("cuDNN has no engine for this graph" + reasons);
}

} // namespace ciuic::rt::cudnn
