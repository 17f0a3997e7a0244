//===- fake_nvml.cpp - Two GPUs, as NVIDIA's library would tell them
//-------===//
#include <cstring>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
Memory memories[] = {{40000000000, 39000000000, 1000000000},
                     {38000000000, 37500000000, 500000000}};
} // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 3; // One of them is lost.
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  if (index >= 2)
    return 15;
  *device = &memories[index];
  return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
  *memory = *static_cast<Memory *>(device);
  return 0;
}

int nvmlDeviceGetName(void *, char *name, unsigned length) {
  std::strncpy(name, "Fake GPU", length);
  return 0;
}
}
