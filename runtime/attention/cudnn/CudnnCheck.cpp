//===- CudnnCheck.cpp - cuDNN against the task's own kernels --------------===//

#include "runtime/attention/cudnn/CudnnCheck.h"
#include "runtime/abi/Sizes.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/device/cuda/CudaStatus.h"

#include <cmath>
#include <cstring>

namespace ciuic::rt {

namespace {

/// The rows of a view without the gaps between them.
std::vector<char> denseBytes(const abi::View &view) {
  return std::vector<char>(static_cast<size_t>(view.shape[0]) * view.shape[1] *
                           byteSize(view.dtype));
}

Status copy(const abi::CudaLaunch &task, uint32_t index,
            std::vector<char> &dense, bool toDevice) {
  const abi::View &view = task.views[index];
  const size_t width = view.shape[1] * byteSize(view.dtype);
  const size_t pitch = view.strides[0] * byteSize(view.dtype);
  auto stream = static_cast<cudaStream_t>(task.stream);
  if (toDevice)
    CIUIC_TRY_CUDA(cudaMemcpy2DAsync, task.pointers[index], pitch, dense.data(),
                   width, width, view.shape[0], cudaMemcpyHostToDevice, stream);
  else
    CIUIC_TRY_CUDA(cudaMemcpy2DAsync, dense.data(), width, task.pointers[index],
                   pitch, width, view.shape[0], cudaMemcpyDeviceToHost, stream);
  CIUIC_TRY_CUDA(cudaStreamSynchronize, stream);
  return Status();
}

float elementOf(const std::vector<char> &dense, abi::DType dtype, size_t i) {
  if (dtype == abi::DType::F32) {
    float value;
    std::memcpy(&value, dense.data() + 4 * i, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, dense.data() + 2 * i, sizeof bits);
  return dtype == abi::DType::F16 ? floatFromF16(bits) : floatFromBf16(bits);
}

void setElement(std::vector<char> &dense, abi::DType dtype, size_t i,
                float value) {
  if (dtype == abi::DType::F32) {
    std::memcpy(dense.data() + 4 * i, &value, sizeof value);
    return;
  }
  const uint16_t bits =
      dtype == abi::DType::F16 ? f16FromFloat(value) : bf16FromFloat(value);
  std::memcpy(dense.data() + 2 * i, &bits, sizeof bits);
}

/// Numbers between `low` and `high` that look random.
void fill(std::vector<char> &dense, const abi::View &view, uint64_t seed,
          float low, float high) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  const size_t count = dense.size() / byteSize(view.dtype);
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float unit = static_cast<float>(state >> 40) * 0x1p-24f;
    setElement(dense, view.dtype, i, low + (high - low) * unit);
  }
}

} // namespace

Status checkCudnnTask(const CudnnTask &cudnn, abi::TaskKind kind,
                      const abi::CudaLaunch &task, abi::CudaLaunchFn own) {
  const bool forward = kind == abi::TaskKind::AttentionForward;
  const uint32_t inputs = forward ? 3 : 6, views = forward ? 5 : 9;
  if (task.viewCount != views)
    return Status::machine("no attention task");
  for (uint32_t i = 0; i < inputs; ++i) {
    std::vector<char> dense = denseBytes(task.views[i]);
    // Backward's lse is like that of about twenty keys.
    const bool isLse = !forward && i == 5;
    fill(dense, task.views[i], i + 1, isLse ? 2.5f : -1.0f,
         isLse ? 3.5f : 1.0f);
    CIUIC_TRY(copy(task, i, dense, /*toDevice=*/true));
  }

  std::vector<std::vector<char>> expected;
  if (int error = own(task))
    return toStatus(static_cast<cudaError_t>(error), "the task's launcher");
  for (uint32_t i = inputs; i < views; ++i) {
    expected.push_back(denseBytes(task.views[i]));
    CIUIC_TRY(copy(task, i, expected.back(), /*toDevice=*/false));
    // What cuDNN does not write stays wrong.
    std::vector<char> nans(expected.back().size(), '\xff');
    CIUIC_TRY(copy(task, i, nans, /*toDevice=*/true));
  }

  CIUIC_TRY(cudnn.run(task.stream));
  for (uint32_t i = inputs; i < views; ++i) {
    const abi::View &view = task.views[i];
    const std::vector<char> &right = expected[i - inputs];
    std::vector<char> found = denseBytes(view);
    CIUIC_TRY(copy(task, i, found, /*toDevice=*/false));
    const size_t count = found.size() / byteSize(view.dtype);
    float most = 0.0f;
    for (size_t j = 0; j < count; ++j)
      most = std::fmax(most, std::fabs(elementOf(right, view.dtype, j)));
    // Both round scores and sums; where one is wrong they differ by all.
    const float bound =
        most * (view.dtype == abi::DType::F32 ? 0x1p-10f : 0x1p-5f);
    for (size_t j = 0; j < count; ++j) {
      const float a = elementOf(found, view.dtype, j);
      const float b = elementOf(right, view.dtype, j);
      if (!(std::fabs(a - b) <= bound))
        return Status::machine(
            "cuDNN differs from the task's own kernel: view " +
            std::to_string(i) + ", row " + std::to_string(j / view.shape[1]) +
            ", column " + std::to_string(j % view.shape[1]) + ": " +
            std::to_string(a) + ", expected " + std::to_string(b));
    }
  }
  return Status();
}

} // namespace ciuic::rt
