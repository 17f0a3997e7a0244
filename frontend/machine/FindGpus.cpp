//===- FindGpus.cpp - The GPUs of the machine at hand ---------------------===//
#include "frontend/machine/FindGpus.h"

#include <algorithm>
#include <dlfcn.h>

using namespace ciuic::machine;

namespace {

/// The calls of NVML (nvml.h) that are needed, by their exported names. All
/// return 0 where they succeed.
class Library {
public:
  explicit Library(const std::string &path)
      : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    isReady = handle && find(init, "nvmlInit_v2") &&
              find(shutdown, "nvmlShutdown") &&
              find(getCount, "nvmlDeviceGetCount_v2") &&
              find(getDevice, "nvmlDeviceGetHandleByIndex_v2") &&
              find(getMemory, "nvmlDeviceGetMemoryInfo") &&
              find(getName, "nvmlDeviceGetName") && init() == 0;
  }
  Library(const Library &) = delete;
  ~Library() {
    if (isReady)
      shutdown();
    if (handle)
      dlclose(handle);
  }

  std::vector<Gpu> list() const;

private:
  struct Memory {
    unsigned long long total, free, used;
  };

  template <typename Fn> bool find(Fn *&function, const char *name) {
    function = reinterpret_cast<Fn *>(dlsym(handle, name));
    return function != nullptr;
  }

  void *handle = nullptr;
  bool isReady = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*getCount)(unsigned *) = nullptr;
  int (*getDevice)(unsigned, void **) = nullptr;
  int (*getMemory)(void *, Memory *) = nullptr;
  int (*getName)(void *, char *, unsigned) = nullptr;
};

std::vector<Gpu> Library::list() const {
  constexpr unsigned most = 1024;
  constexpr unsigned long long mostBytes = 1ull << 60;
  std::vector<Gpu> gpus;
  unsigned count = 0;
  if (!isReady || getCount(&count) != 0)
    return gpus;
  for (unsigned i = 0; i < std::min(count, most); ++i) {
    void *device = nullptr;
    Memory memory{};
    char name[128] = {};
    if (getDevice(i, &device) != 0 || getMemory(device, &memory) != 0 ||
        memory.total == 0 || memory.total > mostBytes ||
        memory.used > memory.total)
      continue;
    if (getName(device, name, sizeof name - 1) != 0)
      name[0] = 0;
    gpus.push_back({name, static_cast<int64_t>(memory.total),
                    static_cast<int64_t>(memory.used)});
  }
  return gpus;
}

} // namespace

std::vector<Gpu> ciuic::machine::findGpus(const std::string &library) {
  return Library(library).list();
}
