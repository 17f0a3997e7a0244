//===- SafeTensorsFormat.h - What reader and writer share -------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_WEIGHTS_SAFETENSORSFORMAT_H
#define CIUIC_RUNTIME_WEIGHTS_SAFETENSORSFORMAT_H

#include "runtime/base/DType.h"

#include <bit>
#include <string_view>
#include <utility>

namespace ciuic::rt {

static_assert(std::endian::native == std::endian::little,
              "safetensors and token files are little-endian and are mapped "
              "as they are");

constexpr uint64_t headerLengthBytes = 8;
constexpr uint64_t maxHeaderBytes = 100'000'000;
constexpr std::string_view metadataKey = "__metadata__";

/// Element types by the names that the format gives them.
constexpr std::pair<std::string_view, DType> safeTensorsNames[] = {
    {"F32", DType::F32},        {"F16", DType::F16},
    {"BF16", DType::BF16},      {"F64", DType::F64},
    {"I64", DType::I64},        {"I32", DType::I32},
    {"I16", DType::I16},        {"I8", DType::I8},
    {"U64", DType::U64},        {"U32", DType::U32},
    {"U16", DType::U16},        {"U8", DType::U8},
    {"BOOL", DType::Bool},      {"F8_E4M3", DType::F8E4M3},
    {"F8_E5M2", DType::F8E5M2}, {"F8_E8M0", DType::F8E8M0},
};

/// "BF16" for DType::BF16.
std::string_view safeTensorsName(DType dtype);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_WEIGHTS_SAFETENSORSFORMAT_H
