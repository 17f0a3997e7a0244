//===- HostKernels.cpp - Chooses the build for this processor -------------===//
#include "runtime/kernels/host/HostKernels.h"

#include <cstring>
#include <initializer_list>

namespace ciuic::rt {

namespace v3 {
extern const HostKernels table;
} // namespace v3
namespace v4 {
extern const HostKernels table;
} // namespace v4

bool processorRuns(const char *isa) {
  __builtin_cpu_init();
  if (std::strcmp(isa, "x86-64") == 0)
    return true;
  if (std::strcmp(isa, "x86-64-v3") == 0)
    return __builtin_cpu_supports("x86-64-v3");
  if (std::strcmp(isa, "x86-64-v4") == 0)
    return __builtin_cpu_supports("x86-64-v4");
  return false;
}

const char *processorIsa() {
  for (const char *isa : {"x86-64-v4", "x86-64-v3"})
    if (processorRuns(isa))
      return isa;
  return "x86-64";
}

const HostKernels *hostKernelsFor(const char *isa) {
  if (!processorRuns(isa))
    return nullptr;
  for (const HostKernels *table : {&v3::table, &v4::table})
    if (std::strcmp(table->isa, isa) == 0)
      return table;
  return nullptr;
}

const HostKernels &hostKernels() {
  static const HostKernels &best =
      processorRuns("x86-64-v4") ? v4::table : v3::table;
  return best;
}

namespace {
int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t mostKeys = 96;
} // namespace

int64_t attentionForwardScratch(int64_t dim) {
  int64_t width = roundUp(dim, 16);
  return width * (3 * attentionQueryRows + 2 * mostKeys) +
         mostKeys * attentionQueryRows;
}

int64_t attentionBackwardScratch(int64_t seq, int64_t dim) {
  int64_t width = roundUp(dim, 16);
  int64_t padded = roundUp(seq, attentionQueryRows);
  return 9 * padded * width + 2 * mostKeys * attentionQueryRows + 2 * padded;
}

int64_t gemmScratchFloats(int64_t m, int64_t n, int64_t k) {
  (void)k;
  constexpr int64_t depth = 256;
  int64_t width = roundUp(n, 32);
  return m * width + roundUp(m, 12) * depth + (width + 32) * depth;
}

} // namespace ciuic::rt
