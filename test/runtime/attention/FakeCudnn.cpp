//===- FakeCudnn.cpp - cuDNN's backend interface, without cuDNN -----------===//
//
// Keeps attributes of descriptors as bytes and minds the rules that the real
// library has: what is finalized is not changed, what is used is finalized,
// operations name tensors, a plan names one of the engines offered.
// FAKE_VERSION is the version that it tells; with FAKE_INCOMPLETE one function
// is missing.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/attention/FakeCudnn.h"
#include "runtime/attention/cudnn/CudnnLibrary.h"

#include <cstring>

using namespace ciuic::rt::cudnn;
using ciuic::test::FakeControl;
using ciuic::test::FakeExecution;

namespace {

struct Object {
  int kind;
  bool finalized = false;
  int engine = -1; ///< Of engine configurations, engines and plans.
  std::map<int, std::vector<char>> attributes;

  template <typename T> std::vector<T> list(int name) const {
    auto found = attributes.find(name);
    if (found == attributes.end())
      return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
};

FakeControl control;
void *currentStream = nullptr;
const char *reason = "";
constexpr int badParameter = 2000, notSupported = 3000;

int fail(int result, const char *why) {
  reason = why;
  return result;
}

Object *objectOf(Descriptor descriptor) {
  return static_cast<Object *>(descriptor);
}

size_t bytesOf(int type) {
  switch (type) {
  case type::boolean:
  case type::character:
    return 1;
  case type::handle:
  case type::int64:
  case type::pointer:
  case type::descriptor:
    return 8;
  default:
    return 4;
  }
}

/// Every descriptor that an object names has to be finalized.
bool namesFinalized(const Object &object, std::initializer_list<int> names) {
  for (int name : names) {
    const std::vector<Descriptor> named = object.list<Descriptor>(name);
    if (named.empty())
      return false;
    for (Descriptor descriptor : named)
      if (!descriptor || !objectOf(descriptor)->finalized)
        return false;
  }
  return true;
}

} // namespace

extern "C" {

FakeControl *fakeCudnnControl() { return &control; }

size_t cudnnGetVersion() { return FAKE_VERSION; }

int cudnnCreate(Handle *handle) {
  if (control.createResult != 0)
    return fail(control.createResult, "no device");
  *handle = &control;
  return 0;
}

int cudnnDestroy(Handle) { return 0; }

int cudnnSetStream(Handle, void *stream) {
  currentStream = stream;
  return 0;
}

const char *cudnnGetErrorString(int result) {
  return result == badParameter   ? "FAKE_BAD_PARAM"
         : result == notSupported ? "FAKE_NOT_SUPPORTED"
                                  : "FAKE_ERROR";
}

void cudnnGetLastErrorString(char *text, size_t most) {
  std::strncpy(text, reason, most);
}

int cudnnBackendCreateDescriptor(int kind, Descriptor *descriptor) {
  *descriptor = new Object{kind, false, -1, {}};
  ++control.descriptors;
  return 0;
}

int cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  delete objectOf(descriptor);
  --control.descriptors;
  return 0;
}

int cudnnBackendSetAttribute(Descriptor descriptor, int name, int type,
                             int64_t count, const void *elements) {
  Object &object = *objectOf(descriptor);
  if (object.finalized)
    return fail(badParameter, "set after finalize");
  const char *bytes = static_cast<const char *>(elements);
  object.attributes[name].assign(bytes, bytes + count * bytesOf(type));
  return 0;
}

int cudnnBackendFinalize(Descriptor descriptor) {
  Object &object = *objectOf(descriptor);
  bool good = true;
  switch (object.kind) {
  case kind::tensor:
    good = object.list<int64_t>(attribute::tensorSizes).size() == 4 &&
           object.list<int64_t>(attribute::tensorStrides).size() == 4 &&
           object.list<int64_t>(attribute::tensorId).size() == 1;
    break;
  case kind::pointwiseOperation:
    good = namesFinalized(object, {attribute::operationPointwise,
                                   attribute::operationPointwiseX,
                                   attribute::operationPointwiseY});
    break;
  case kind::matmulOperation:
    good = namesFinalized(object,
                          {attribute::matmulA, attribute::matmulB,
                           attribute::matmulC, attribute::matmulDescriptor});
    break;
  case kind::reductionOperation:
    good = namesFinalized(object, {attribute::reductionX, attribute::reductionY,
                                   attribute::reductionDescriptor});
    break;
  case kind::reshapeOperation:
    good = namesFinalized(object, {attribute::reshapeX, attribute::reshapeY});
    break;
  case kind::operationGraph:
    good = namesFinalized(object, {attribute::graphOperations});
    control.operations = static_cast<int>(
        object.list<Descriptor>(attribute::graphOperations).size());
    break;
  case kind::engineHeuristics:
    good = namesFinalized(object, {attribute::heuristicsGraph});
    break;
  case kind::executionPlan: {
    const auto configs = object.list<Descriptor>(attribute::planConfig);
    if (configs.size() != 1)
      return fail(badParameter, "a plan without engine");
    object.engine = objectOf(configs[0])->engine;
    if (control.engines[object.engine].refuses)
      return fail(notSupported, "not this graph");
    ++control.plans;
    break;
  }
  case kind::variantPack:
    good = object.list<int64_t>(attribute::packIds).size() ==
           object.list<void *>(attribute::packPointers).size();
    break;
  default:
    break;
  }
  if (!good)
    return fail(badParameter, "an attribute is missing or not finalized");
  object.finalized = true;
  return 0;
}

int cudnnBackendGetAttribute(Descriptor descriptor, int name, int, int64_t most,
                             int64_t *count, void *elements) {
  Object &object = *objectOf(descriptor);
  Descriptor *descriptors = static_cast<Descriptor *>(elements);
  const int engines = static_cast<int>(control.engines.size());
  switch (name) {
  case attribute::heuristicsResults:
    *count = engines < most ? engines : most;
    for (int i = 0; i < *count; ++i) {
      objectOf(descriptors[i])->engine = i;
      objectOf(descriptors[i])->finalized = true;
    }
    return 0;
  case attribute::configEngine:
    objectOf(descriptors[0])->engine = object.engine;
    *count = 1;
    return 0;
  case attribute::engineNumericalNote:
    *count = control.engines[object.engine].nondeterministic ? 1 : 0;
    if (*count)
      *static_cast<int *>(elements) = noteNondeterministic;
    return 0;
  case attribute::planWorkspace:
    *count = 1;
    *static_cast<int64_t *>(elements) =
        control.engines[object.engine].workspaceBytes;
    return 0;
  default:
    return fail(badParameter, "no such attribute");
  }
}

#ifndef FAKE_INCOMPLETE
int cudnnBackendExecute(Handle, Descriptor plan, Descriptor pack) {
  if (!objectOf(plan)->finalized || !objectOf(pack)->finalized)
    return fail(badParameter, "not finalized");
  if (control.executeResult != 0)
    return fail(control.executeResult, "the kernel did not start");
  FakeExecution execution;
  execution.stream = currentStream;
  const auto ids = objectOf(pack)->list<int64_t>(attribute::packIds);
  const auto pointers = objectOf(pack)->list<void *>(attribute::packPointers);
  for (size_t i = 0; i < ids.size(); ++i)
    execution.pointers[ids[i]] = pointers[i];
  const auto workspace = objectOf(pack)->list<void *>(attribute::packWorkspace);
  execution.workspace = workspace.empty() ? nullptr : workspace[0];
  control.last = execution;
  if (control.onExecute)
    control.onExecute(execution);
  return 0;
}
#endif

} // extern "C"
