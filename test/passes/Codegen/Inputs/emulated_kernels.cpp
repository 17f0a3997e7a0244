//===- emulated_kernels.cpp - Emitted kernels, as C++ and as CUDA ---------===//
//
// Linked with one program's kernels printed twice, the CUDA ones for the
// emulated device. Runs every kernel of the program both ways on the same
// numbers, infinities and NaN among them, and says "ok: <kernels>" if all
// results agree within rounding, the bytes written are the same, a skipped
// task writes nothing and the emulator has nothing to report.
//
//===----------------------------------------------------------------------===//
#include "runtime/abi/Program.h"
#include "runtime/kernels/host/Kernel.h"
#include "test/cuda_on_host/OnHost.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace ciuic;

extern "C" const abi::Bundle *ciuic_bundle();

static int failures = 0;
static std::mt19937 randomNumbers(7);

static size_t bytesOf(abi::DType dtype) {
  return dtype == abi::DType::F64                                ? 8
         : dtype == abi::DType::F16 || dtype == abi::DType::BF16 ? 2
                                                                 : 4;
}

static void store(abi::DType dtype, char *at, float value) {
  if (dtype == abi::DType::F32) {
    std::memcpy(at, &value, 4);
  } else if (dtype == abi::DType::F64) {
    double wide = value;
    std::memcpy(at, &wide, 8);
  } else if (dtype == abi::DType::F16) {
    auto half = kernel::fromFloat<kernel::f16>(value);
    std::memcpy(at, &half, 2);
  } else if (dtype == abi::DType::BF16) {
    auto brain = kernel::fromFloat<kernel::bf16>(value);
    std::memcpy(at, &brain, 2);
  } else {
    int32_t whole = static_cast<int32_t>(value);
    std::memcpy(at, &whole, 4);
  }
}

static float load(abi::DType dtype, const char *at) {
  float value = 0;
  if (dtype == abi::DType::F32) {
    std::memcpy(&value, at, 4);
  } else if (dtype == abi::DType::F64) {
    double wide;
    std::memcpy(&wide, at, 8);
    value = static_cast<float>(wide);
  } else if (dtype == abi::DType::F16) {
    kernel::f16 half;
    std::memcpy(&half, at, 2);
    value = kernel::toFloat(half);
  } else if (dtype == abi::DType::BF16) {
    kernel::bf16 brain;
    std::memcpy(&brain, at, 2);
    value = kernel::toFloat(brain);
  } else {
    int32_t whole;
    std::memcpy(&whole, at, 4);
    value = static_cast<float>(whole);
  }
  return value;
}

/// What a rounding may change: a unit in the last place of the type, of the
/// result or of terms of size 1.
static bool agree(abi::DType dtype, float a, float b) {
  if (a == b || (a != a && b != b))
    return true;
  float unit = dtype == abi::DType::BF16  ? 0x1p-7f
               : dtype == abi::DType::F16 ? 0x1p-10f
                                          : 0x1p-18f;
  return std::fabs(a - b) <= unit * (std::fabs(a) + 1.0f);
}

namespace {
struct Operand {
  const abi::View *view;
  std::vector<char> host, before;
  char *device = nullptr;
};
} // namespace

static void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// A number of the size that activations have; one in `rarity` is extreme.
static float number(int rarity) {
  static const float extreme[] = {INFINITY, -INFINITY, NAN,    0.0f,
                                  -0.0f,    1e30f,     1e-40f, -1e4f};
  if (rarity > 0 && randomNumbers() % rarity == 0)
    return extreme[randomNumbers() % 8];
  float u = static_cast<float>(randomNumbers() >> 8) * 0x1p-24f;
  return (u < 0.5f ? -1.0f : 1.0f) * (0.125f + u);
}

static void runOne(const abi::Program &program, const abi::Task &task,
                   const std::string &name, abi::CudaLaunchFn launcher,
                   int rarity, cudaStream_t stream) {
  int64_t rows = program.ints[task.ints.begin];
  std::vector<Operand> operands;
  std::vector<void *> hostPointers, devicePointers;
  for (uint32_t i = task.views.begin; i < task.views.end; ++i) {
    Operand operand{&program.views[i], {}, {}, nullptr};
    size_t elements = operand.view->shape[0] * operand.view->shape[1];
    size_t each = bytesOf(operand.view->dtype);
    operand.host.resize(elements * each);
    for (size_t j = 0; j < elements; ++j)
      store(operand.view->dtype, &operand.host[j * each], number(rarity));
    operand.before = operand.host;
    operands.push_back(std::move(operand));
  }
  for (Operand &operand : operands) {
    check(cudaMalloc(reinterpret_cast<void **>(&operand.device),
                     operand.host.size()),
          "cudaMalloc");
    check(cudaMemcpyAsync(operand.device, operand.before.data(),
                          operand.host.size(), cudaMemcpyHostToDevice, stream),
          "copy to the device");
    hostPointers.push_back(operand.host.data());
    devicePointers.push_back(operand.device);
  }
  float *skip;
  check(cudaMalloc(reinterpret_cast<void **>(&skip), 4), "cudaMalloc");

  abi::CudaLaunch launch{};
  launch.pointers = devicePointers.data();
  launch.views = program.views + task.views.begin;
  launch.viewCount = task.views.end - task.views.begin;
  launch.ints = program.ints + task.ints.begin;
  launch.intCount = task.ints.end - task.ints.begin;
  launch.ranks = 1;
  launch.processors = 1; // So that few blocks do many rows.
  launch.skip = skip;
  launch.stream = stream;
  auto compare = [&](const char *when) {
    for (size_t i = 0; i < operands.size(); ++i) {
      Operand &operand = operands[i];
      std::vector<char> found(operand.host.size());
      check(cudaMemcpyAsync(found.data(), operand.device, found.size(),
                            cudaMemcpyDeviceToHost, stream),
            "copy from the device");
      check(cudaStreamSynchronize(stream), name.c_str());
      abi::DType dtype = operand.view->dtype;
      size_t each = bytesOf(dtype);
      for (size_t at = 0; at < found.size(); at += each) {
        float a = load(dtype, &operand.host[at]), b = load(dtype, &found[at]);
        if (agree(dtype, a, b))
          continue;
        std::printf("%s %s: operand %zu at %zu: C++ has %.9g, CUDA %.9g\n",
                    name.c_str(), when, i, at / each, a, b);
        ++failures;
        return;
      }
    }
  };
  // Skipped: nothing is written.
  float one = 1.0f, zero = 0.0f;
  check(cudaMemcpyAsync(skip, &one, 4, cudaMemcpyHostToDevice, stream), "skip");
  check(static_cast<cudaError_t>(launcher(launch)), name.c_str());
  compare("skipped");
  // No rows are no work, not an error.
  check(cudaMemcpyAsync(skip, &zero, 4, cudaMemcpyHostToDevice, stream),
        "skip");
  check(static_cast<cudaError_t>(launcher(launch)), name.c_str());
  task.kernel(0, rows, hostPointers.data());
  compare("run");
  check(cudaFree(skip), "cudaFree");
  for (Operand &operand : operands)
    check(cudaFree(operand.device), "cudaFree");
}

/// Operands that no vector can be loaded from, and too few of them.
static void runRefused(const abi::Program &program, const abi::Task &task,
                       const std::string &name, abi::CudaLaunchFn launcher,
                       int &misaligned) {
  std::vector<void *> pointers(task.views.end - task.views.begin,
                               reinterpret_cast<void *>(uintptr_t{0x1001}));
  abi::CudaLaunch launch{};
  launch.pointers = pointers.data();
  launch.views = program.views + task.views.begin;
  launch.ints = program.ints + task.ints.begin;
  launch.intCount = 2;
  launch.processors = 1;
  if (launcher(launch) != cudaErrorInvalidValue) {
    std::printf("%s: took 0 views\n", name.c_str());
    ++failures;
  }
  launch.viewCount = pointers.size();
  int64_t none[] = {0, 1};
  launch.ints = none;
  int status = launcher(launch);
  misaligned += status == cudaErrorMisalignedAddress;
}

int main() {
  onhost::Settings settings;
  onhost::configure(settings);
  cudaStream_t stream;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
        "cudaStreamCreateWithPriority");
  std::set<std::string> seen;
  int misaligned = 0;
  const abi::Bundle *bundle = ciuic_bundle();
  for (uint32_t p = 0; p < bundle->programCount; ++p) {
    const abi::Program &program = bundle->programs[p];
    for (uint32_t t = 0; t < program.taskCount; ++t) {
      const abi::Task &task = program.tasks[t];
      if (task.kind != abi::TaskKind::Launch)
        continue;
      Dl_info info;
      if (!dladdr(reinterpret_cast<void *>(task.kernel), &info) ||
          !info.dli_sname) {
        std::printf("a kernel without a name\n");
        return 1;
      }
      std::string name = info.dli_sname;
      if (!seen.insert(name).second)
        continue;
      auto launcher = reinterpret_cast<abi::CudaLaunchFn>(
          dlsym(RTLD_DEFAULT, ("launch_" + name).c_str()));
      if (!launcher) {
        std::printf("%s: has no launcher\n", name.c_str());
        return 1;
      }
      onhost::label(stream, name);
      runOne(program, task, name, launcher, /*rarity=*/0, stream);
      runOne(program, task, name, launcher, /*rarity=*/50, stream);
      runRefused(program, task, name, launcher, misaligned);
    }
  }
  for (const std::string &report : onhost::takeReports()) {
    std::printf("%s\n", report.c_str());
    ++failures;
  }
  if (failures == 0 && misaligned > 0)
    std::printf("ok: %zu kernels, %d of them by vectors\n", seen.size(),
                misaligned);
  return failures != 0;
}
