//===- CudaDevice.cpp - Which GPUs run the ranks of this process ----------===//
#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/base/Quote.h"
#include "runtime/device/cuda/CudaStatus.h"

#include <cctype>
#include <charconv>
#include <fstream>

namespace ciuic::rt {

std::string CudaDevice::str() const {
  return "device " + std::to_string(index) + " (" + name + ")";
}

Status checkVersion(const char *library, int64_t found, int64_t expected) {
  if (found >= expected)
    return {};
  return Status::machine(std::string(library) + " has version " +
                         std::to_string(found) + ", compiled for version " +
                         std::to_string(expected) + " or newer");
}

Status checkArchitecture(std::string_view architectures, int major, int minor) {
  std::string_view rest = architectures;
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    while (!one.empty() && one.front() == ' ')
      one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ')
      one.remove_suffix(1);
    if (one.substr(0, 3) != "sm_")
      return Status::invalid("compiled for the architecture " + quote(one) +
                             ", expected one like \"sm_80\"");
    bool exact = one.back() == 'a', family = one.back() == 'f';
    bool suffix = exact || family;
    std::string_view digits = one.substr(3, one.size() - 3 - (suffix ? 1 : 0));
    int number = 0;
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        number < 10 || number > 9999)
      return Status::invalid("compiled for the architecture " + quote(one) +
                             ", expected one like \"sm_80\"");
    int device = 10 * major + minor;
    bool runs = exact    ? number == device
                : family ? number / 10 == major && number <= device
                         : number <= device;
    if (runs)
      return {};
  }
  return Status::invalid("compiled for " + quote(architectures) +
                         ", the device is sm_" + std::to_string(major) +
                         std::to_string(minor) +
                         (major < 8 ? ": the kernels need sm_80 or newer"
                                    : ": compile it for this architecture"));
}

namespace {

/// The NUMA node of a PCI device, as Linux tells it; -1: not told.
int numaNodeOf(int device) {
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  std::string path = "/sys/bus/pci/devices/";
  for (const char *c = bus; *c; ++c)
    path += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  std::ifstream file(path + "/numa_node");
  int node = -1;
  if (!(file >> node) || node < 0 || node > 1023)
    return -1;
  return node;
}

Result<CudaDevice> describe(int index) {
  CudaDevice device;
  device.index = index;
  int processors = 0;
  CIUIC_TRY_CUDA(cudaDeviceGetAttribute, &device.major,
                 cudaDevAttrComputeCapabilityMajor, index);
  CIUIC_TRY_CUDA(cudaDeviceGetAttribute, &device.minor,
                 cudaDevAttrComputeCapabilityMinor, index);
  CIUIC_TRY_CUDA(cudaDeviceGetAttribute, &processors,
                 cudaDevAttrMultiProcessorCount, index);
  cudaDeviceProp properties{};
  CIUIC_TRY_CUDA(cudaGetDeviceProperties, &properties, index);
  device.name = properties.name;
  device.processors = static_cast<uint32_t>(processors > 0 ? processors : 1);
  device.numaNode = numaNodeOf(index);
  return device;
}

Status checkLibraries() {
  int driver = 0, runtime = 0;
  CIUIC_TRY_CUDA(cudaDriverGetVersion, &driver);
  CIUIC_TRY_CUDA(cudaRuntimeGetVersion, &runtime);
  CIUIC_TRY(checkVersion("the CUDA runtime library", runtime, CUDART_VERSION));
  // A driver serves every runtime of its own major version.
  return checkVersion("the CUDA driver", driver, runtime / 1000 * 1000);
}

} // namespace

Result<std::vector<CudaDevice>> chooseDevices(std::string_view architectures,
                                              uint32_t localRanks,
                                              bool shareDevice, int first) {
  int found = 0;
  cudaError_t error = cudaGetDeviceCount(&found);
  if (error == cudaErrorNoDevice)
    found = 0;
  else if (error != cudaSuccess)
    return toStatus(error, "cudaGetDeviceCount");
  uint32_t needed = shareDevice ? 1 : localRanks;
  if (found < 0 || first < 0 || first > found ||
      static_cast<uint32_t>(found - first) < needed)
    return Status::machine(
        "compiled for " + std::to_string(localRanks) +
        " ranks in this process, which need " + std::to_string(needed) +
        " devices" +
        (first > 0 ? " from device " + std::to_string(first) + " on" : "") +
        ": found " + std::to_string(found) +
        (found > 0 ? "; --share-device runs all ranks on one" : ""));
  CIUIC_TRY(checkLibraries());
  std::vector<CudaDevice> devices;
  for (uint32_t i = 0; i < needed; ++i) {
    CIUIC_TRY_ASSIGN(CudaDevice device, describe(first + static_cast<int>(i)));
    CIUIC_TRY(checkArchitecture(architectures, device.major, device.minor)
                  .during([&] { return "choosing " + device.str(); }));
    devices.push_back(std::move(device));
  }
  return devices;
}

} // namespace ciuic::rt
