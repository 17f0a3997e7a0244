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

} // namespace ciuic::rt
