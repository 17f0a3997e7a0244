//===- Sources.h - A small run to save --------------------------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_CHECKPOINT_SOURCES_H
#define CIUIC_TEST_RUNTIME_CHECKPOINT_SOURCES_H

#include "runtime/checkpoint/Checkpoint.h"

namespace ciuic::rt::test {

/// A tensor whose element i is `first` + i.
inline TensorSource rampSource(std::string name, std::vector<int64_t> shape,
                               float first) {
  TensorSource source;
  source.name = std::move(name);
  source.shape = std::move(shape);
  source.fill = [first](uint64_t begin, uint64_t end, void *out) -> Status {
    for (uint64_t i = begin; i < end; ++i)
      static_cast<float *>(out)[i - begin] = first + static_cast<float>(i);
    return {};
  };
  return source;
}

/// Masters of "a" and "b", and one moment of "b".
inline CheckpointWriter sampleWriter(const std::string &root,
                                     uint64_t maxShardBytes = 1 << 20) {
  CheckpointWriter writer(root, maxShardBytes);
  writer.add("master", rampSource("a", {2, 3}, 0));
  writer.add("master", rampSource("b", {6}, 50));
  writer.add("moment1", rampSource("b", {6}, 100));
  return writer;
}

/// What sampleWriter saves.
inline std::vector<ExpectedTensor> sampleExpected() {
  return {{{"master", "a"}, {2, 3}},
          {{"master", "b"}, {6}},
          {{"moment1", "b"}, {6}}};
}

inline RunState sampleState(uint64_t step) {
  RunState state;
  state.step = step;
  state.appliedSteps = step - 1;
  state.skippedSteps = 1;
  state.dataStep = step;
  state.epoch = 2;
  state.seed = 42;
  state.fingerprint = "a model";
  return state;
}

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_CHECKPOINT_SOURCES_H
