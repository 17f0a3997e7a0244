//===- FakeCudnn.h - What tests say to a fake cuDNN -------------*- C++ -*-===//
//
// FakeCudnn.cpp is built as several shared libraries with cuDNN's functions:
// a good one, one that is too old, one without a function. The good one does
// as the Control says that it exports.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_RUNTIME_ATTENTION_FAKECUDNN_H
#define CIUIC_TEST_RUNTIME_ATTENTION_FAKECUDNN_H

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace ciuic::test {

struct FakeEngine {
  int64_t workspaceBytes = 0;
  bool nondeterministic = false;
  bool refuses = false; ///< Its plan cannot be finalized.
};

/// What an execution is given.
struct FakeExecution {
  void *stream = nullptr;
  void *workspace = nullptr;
  std::map<int64_t, void *> pointers; ///< By tensor.
};

struct FakeControl {
  std::vector<FakeEngine> engines = {{}};
  int createResult = 0;
  int executeResult = 0;
  std::function<void(const FakeExecution &)> onExecute;
  /// Counted since the control was assigned.
  int plans = 0;
  int operations = 0;      ///< Of the last graph.
  int64_t descriptors = 0; ///< Created and not destroyed.
  FakeExecution last;
};

} // namespace ciuic::test

/// Exported by the good library.
extern "C" ciuic::test::FakeControl *fakeCudnnControl();

#endif // CIUIC_TEST_RUNTIME_ATTENTION_FAKECUDNN_H
