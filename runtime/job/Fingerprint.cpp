//===- Fingerprint.cpp - Is it the same compiled program? -----------------===//
#include "runtime/job/Fingerprint.h"

#include "runtime/base/Philox.h"

#include <type_traits>

namespace ciuic::rt {
namespace {

/// Collects what matters of the tables as bytes.
class Collector {
public:
  template <typename T> void add(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    text.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  void add(const char *name) { text.append(name).push_back('\0'); }

  void add(const abi::View &view) {
    add(view.buffer);
    add(view.dtype);
    add(view.offset);
    add(view.rankStride);
    for (int d = 0; d < 2; ++d) {
      add(view.shape[d]);
      add(view.strides[d]);
    }
  }

  void add(const abi::Init &init) {
    add(init.kind);
    for (double real : init.reals)
      add(real);
    for (int64_t integer : init.ints)
      add(integer);
  }

  void add(const abi::Program &program) {
    add(program.name);
    for (uint32_t i = 0; i < program.taskCount; ++i) {
      const abi::Task &task = program.tasks[i];
      add(task.name);
      add(task.kind);
      add(task.stream);
      add(task.skipView);
      for (uint32_t v = task.views.begin; v < task.views.end; ++v)
        add(program.views[v]);
      for (uint32_t w = task.waits.begin; w < task.waits.end; ++w)
        add(program.waits[w]);
      for (uint32_t n = task.ints.begin; n < task.ints.end; ++n)
        add(program.ints[n]);
      for (uint32_t r = task.reals.begin; r < task.reals.end; ++r)
        add(program.reals[r]);
    }
  }

  std::string text;
};

} // namespace

std::string printHash(uint64_t hash) {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[(hash >> shift) & 15];
  return digits;
}

std::string programFingerprint(const abi::Bundle &bundle) {
  Collector all;
  all.add(bundle.version);
  all.add(bundle.ranks);
  all.add(bundle.modelName);
  all.add(bundle.target);
  for (int64_t number : {bundle.microBatch, bundle.sequence,
                         bundle.accumulation, bundle.vocabulary})
    all.add(number);
  for (uint32_t i = 0; i < bundle.programCount; ++i)
    all.add(bundle.programs[i]);
  for (uint32_t i = 0; i < bundle.stateCount; ++i) {
    const abi::State &state = bundle.states[i];
    all.add(state.name);
    all.add(state.view);
    all.add(state.bucket);
    all.add(state.sharded);
    all.add(state.init);
  }
  for (uint32_t i = 0; i < bundle.memberCount; ++i) {
    const abi::Member &member = bundle.members[i];
    all.add(member.name);
    all.add(member.bucket);
    all.add(member.offset);
    all.add(member.init);
  }
  return printHash(hashName(all.text));
}

} // namespace ciuic::rt
