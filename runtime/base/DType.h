//===- DType.h - Element types of stored tensors ----------------*- C++ -*-===//
//
// The one list of element types that the runtime's files and buffers share.
// Arithmetic knows F32, F16, BF16 and F64 only (base/Convert.h); the rest can
// be stored, listed and copied.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BASE_DTYPE_H
#define CIUIC_RUNTIME_BASE_DTYPE_H

#include <cstdint>
#include <string_view>

namespace ciuic::rt {

/// The type of one element of a tensor.
enum class DType : uint8_t {
  F32,
  F16,
  BF16,
  F64,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool,   ///< One byte, 0 or 1.
  F8E4M3, ///< Stored only: never converted.
  F8E5M2, ///< Stored only: never converted.
  F8E8M0, ///< Stored only: never converted.
};

/// Bytes of one element.
constexpr uint64_t byteSize(DType dtype) {
  switch (dtype) {
  case DType::F64:
  case DType::I64:
  case DType::U64:
    return 8;
  case DType::F32:
  case DType::I32:
  case DType::U32:
    return 4;
  case DType::F16:
  case DType::BF16:
  case DType::I16:
  case DType::U16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
  case DType::F8E4M3:
  case DType::F8E5M2:
  case DType::F8E8M0:
    return 1;
  }
  return 0;
}

/// The name used in messages and in our own files: "f32", "bf16", "i64".
constexpr std::string_view name(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "f32";
  case DType::F16:
    return "f16";
  case DType::BF16:
    return "bf16";
  case DType::F64:
    return "f64";
  case DType::I64:
    return "i64";
  case DType::I32:
    return "i32";
  case DType::I16:
    return "i16";
  case DType::I8:
    return "i8";
  case DType::U64:
    return "u64";
  case DType::U32:
    return "u32";
  case DType::U16:
    return "u16";
  case DType::U8:
    return "u8";
  case DType::Bool:
    return "bool";
  case DType::F8E4M3:
    return "f8e4m3";
  case DType::F8E5M2:
    return "f8e5m2";
  case DType::F8E8M0:
    return "f8e8m0";
  }
  return "unknown";
}

/// Whether base/Convert.h converts from and to this type.
constexpr bool isConvertible(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16 ||
         dtype == DType::F64;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_DTYPE_H
