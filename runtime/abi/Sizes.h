//===- Sizes.h - Bytes of the program's element types -----------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_ABI_SIZES_H
#define CIUIC_RUNTIME_ABI_SIZES_H

#include "runtime/abi/Program.h"

namespace ciuic::rt {

/// Bytes of one element; 0 for a type that there is not.
constexpr uint64_t byteSize(abi::DType dtype) {
  switch (dtype) {
  case abi::DType::F32:
  case abi::DType::I32:
    return 4;
  case abi::DType::F16:
  case abi::DType::BF16:
    return 2;
  case abi::DType::F64:
    return 8;
  }
  return 0;
}

/// "f32", "i32", ... for messages and files; "unknown" for no type.
constexpr const char *name(abi::DType dtype) {
  switch (dtype) {
  case abi::DType::F32:
    return "f32";
  case abi::DType::F16:
    return "f16";
  case abi::DType::BF16:
    return "bf16";
  case abi::DType::F64:
    return "f64";
  case abi::DType::I32:
    return "i32";
  }
  return "unknown";
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_ABI_SIZES_H
