//===- Operation.cpp - Checks that preparations share ---------------------===//
#include "runtime/kernels/host/Operation.h"

#include "runtime/abi/Sizes.h"

namespace ciuic::rt {
namespace {

Status mismatch(const char *what, const Tensor &tensor,
                const std::string &expected) {
  return Status::invalid(std::string(what) + " is " + describe(tensor) +
                         ", expected " + expected);
}

std::string shape(int64_t rows, int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

} // namespace

bool isFloat(abi::DType dtype) {
  return dtype == abi::DType::F32 || dtype == abi::DType::F16 ||
         dtype == abi::DType::BF16;
}

std::string describe(const Tensor &tensor) {
  return std::string(name(tensor.dtype)) +
         shape(tensor.shape[0], tensor.shape[1]) +
         (tensor.isDense() ? "" : " with gaps");
}

Status expectCounts(const TaskArguments &arguments, size_t views, size_t ints,
                    size_t reals) {
  if (arguments.views.size() != views || arguments.ints.size() < ints ||
      arguments.reals.size() < reals)
    return Status::invalid(
        "found " + std::to_string(arguments.views.size()) + " views, " +
        std::to_string(arguments.ints.size()) + " ints and " +
        std::to_string(arguments.reals.size()) + " reals, expected " +
        std::to_string(views) + ", " + std::to_string(ints) + " and " +
        std::to_string(reals));
  return {};
}

Status expectTensor(const char *what, const Tensor &tensor, abi::DType dtype,
                    int64_t rows, int64_t columns) {
  if (tensor.dtype != dtype || tensor.shape[0] != rows ||
      tensor.shape[1] != columns || !tensor.isDense())
    return mismatch(what, tensor, name(dtype) + shape(rows, columns));
  return {};
}

Status expectFloats(const char *what, const Tensor &tensor, int64_t rows,
                    int64_t columns) {
  if (!isFloat(tensor.dtype) || tensor.shape[0] != rows ||
      tensor.shape[1] != columns || !tensor.hasDenseRows())
    return mismatch(what, tensor, "f32, f16 or bf16 " + shape(rows, columns));
  return {};
}

bool overlap(const Tensor &a, const Tensor &b) {
  if (a.elements() == 0 || b.elements() == 0)
    return false;
  auto begin = [](const Tensor &t) {
    return reinterpret_cast<uintptr_t>(t.data);
  };
  auto rowBytes = [](const Tensor &t) {
    return static_cast<uint64_t>((t.shape[1] - 1) * t.strides[1] + 1) *
           byteSize(t.dtype);
  };
  auto pitch = [](const Tensor &t) {
    return static_cast<uint64_t>(t.strides[0]) * byteSize(t.dtype);
  };
  auto end = [&](const Tensor &t) {
    return begin(t) + static_cast<uint64_t>(t.shape[0] - 1) * pitch(t) +
           rowBytes(t);
  };
  if (begin(a) >= end(b) || begin(b) >= end(a))
    return false;
  // Columns of one matrix, side by side: their rows alternate.
  if (pitch(a) == pitch(b) && pitch(a) > 0) {
    uint64_t shift = begin(b) >= begin(a)
                         ? (begin(b) - begin(a)) % pitch(a)
                         : pitch(a) - (begin(a) - begin(b)) % pitch(a);
    if (shift >= rowBytes(a) && shift + rowBytes(b) <= pitch(a))
      return false;
  }
  return true;
}

} // namespace ciuic::rt
