//===- SafeTensors.cpp - Reading safetensors files ------------------------===//
#include "runtime/weights/SafeTensors.h"

#include "runtime/base/Convert.h"
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"
#include "runtime/weights/SafeTensorsFormat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include <sys/mman.h>
#include <unistd.h>

namespace ciuic::rt {

//===----------------------------------------------------------------------===//
// Shapes and element types
//===----------------------------------------------------------------------===//

Result<uint64_t> elementCount(std::span<const int64_t> shape) {
  // A zero anywhere makes the product zero, however large the rest.
  int64_t count = 1;
  bool overflow = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return Status::invalid(
          fmt::format("shape {} has a negative dimension", shapeString(shape)));
    if (dim == 0)
      return uint64_t(0);
    overflow |= __builtin_mul_overflow(count, dim, &count);
  }
  if (overflow)
    return Status::invalid(fmt::format("shape {} has more than 2^63 elements",
                                       shapeString(shape)));
  return static_cast<uint64_t>(count);
}

std::string shapeString(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string_view safeTensorsName(DType dtype) {
  for (const auto &[name, value] : safeTensorsNames)
    if (value == dtype)
      return name;
  return "";
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

namespace {

/// Shows a JSON value in a message, shortened.
std::string show(const Json &value) {
  // Replaces what is not UTF-8 rather than throwing.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80)
    text = text.substr(0, 80) + "...";
  return text;
}

/// A JSON integer in [0, 2^63).
bool readCount(const Json &value, uint64_t &count) {
  if (!value.is_number_unsigned())
    return false;
  count = value.get<uint64_t>();
  return count <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

Status readDType(const Json &entry, DType &dtype) {
  auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string())
    return Status::invalid("has no \"dtype\" string");
  const auto &text = found->get_ref<const std::string &>();
  for (const auto &[name, value] : safeTensorsNames)
    if (name == text) {
      dtype = value;
      return {};
    }
  return Status::invalid(fmt::format("has the unknown dtype {}", quote(text)));
}

Status readShape(const Json &entry, std::vector<int64_t> &shape) {
  auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array())
    return Status::invalid("has no \"shape\" array");
  for (const Json &dim : *found) {
    uint64_t value = 0;
    if (!readCount(dim, value))
      return Status::invalid(fmt::format(
          "has the shape {}, expected non-negative integers", show(*found)));
    shape.push_back(static_cast<int64_t>(value));
  }
  return {};
}

/// Reads one entry of the header; `dataBytes` are there for all tensors.
Status readEntry(const Json &entry, uint64_t dataBytes, StoredTensor &tensor) {
  if (!entry.is_object())
    return Status::invalid(
        fmt::format("is {}, expected an object", show(entry)));
  CIUIC_TRY(readDType(entry, tensor.dtype));
  CIUIC_TRY(readShape(entry, tensor.shape));
  CIUIC_TRY_ASSIGN(tensor.elements, elementCount(tensor.shape));

  auto offsets = entry.find("data_offsets");
  uint64_t end = 0;
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !readCount((*offsets)[0], tensor.offset) ||
      !readCount((*offsets)[1], end))
    return Status::invalid("has no \"data_offsets\" of two non-negative "
                           "integers");
  if (tensor.offset > end || end > dataBytes)
    return Status::invalid(
        fmt::format("has data_offsets [{}, {}], but the file holds {} bytes of "
                    "data",
                    tensor.offset, end, dataBytes));
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements, byteSize(tensor.dtype), &bytes) ||
      bytes != end - tensor.offset)
    return Status::invalid(fmt::format(
        "has {} bytes of data, which do not fit {} elements of shape {} in {}",
        end - tensor.offset, tensor.elements, shapeString(tensor.shape),
        name(tensor.dtype)));
  return {};
}

Status readMetadata(const Json &entry,
                    std::map<std::string, std::string> &metadata) {
  if (!entry.is_object())
    return Status::invalid("\"__metadata__\" is not an object");
  for (const auto &[key, value] : entry.items()) {
    if (!value.is_string())
      return Status::invalid(
          fmt::format("\"__metadata__\" entry {} is not a string", quote(key)));
    metadata.emplace(key, value.get<std::string>());
  }
  return {};
}

} // namespace

Result<SafeTensorsReader> SafeTensorsReader::open(const std::string &path) {
  CIUIC_TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  SafeTensorsReader reader(std::move(file));
  reader.filePath = path;
  CIUIC_TRY(reader.parse());
  return reader;
}

Status SafeTensorsReader::parse() {
  auto fail = [&](std::string message) {
    return Status::invalid(fmt::format("{}: {}", filePath, message));
  };
  std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < headerLengthBytes)
    return fail(fmt::format("has {} bytes, too few for a safetensors file",
                            bytes.size()));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), headerLengthBytes);
  if (length > maxHeaderBytes)
    return fail(fmt::format("its safetensors header claims {} bytes, more than "
                            "the {} allowed",
                            length, maxHeaderBytes));
  if (length > bytes.size() - headerLengthBytes)
    return fail(fmt::format("its safetensors header claims {} bytes, the file "
                            "has {}",
                            length, bytes.size()));
  dataBegin = headerLengthBytes + length;
  uint64_t dataBytes = bytes.size() - dataBegin;
  std::string_view text(
      reinterpret_cast<const char *>(bytes.data()) + headerLengthBytes, length);
  CIUIC_TRY_ASSIGN(Json header, parseJson(text, filePath + " (header)"));
  if (!header.is_object())
    return fail("its safetensors header is not a JSON object");

  for (const auto &[key, entry] : header.items()) {
    if (key == metadataKey) {
      if (Status status = readMetadata(entry, meta); !status.ok())
        return fail(status.str());
      continue;
    }
    StoredTensor tensor;
    tensor.name = key;
    if (Status status = readEntry(entry, dataBytes, tensor); !status.ok())
      return fail(fmt::format("tensor {} {}", quote(key), status.str()));
    list.push_back(std::move(tensor));
  }

  // In the order of bytes, an empty tensor before the one that begins there.
  std::sort(list.begin(), list.end(),
            [](const StoredTensor &a, const StoredTensor &b) {
              return std::tuple(a.offset, a.elements, a.name) <
                     std::tuple(b.offset, b.elements, b.name);
            });
  uint64_t cursor = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].offset != cursor)
      return fail(fmt::format(
          "tensor {} begins at byte {} of the data, expected {}: tensors {}",
          quote(list[i].name), list[i].offset, cursor,
          list[i].offset < cursor ? "overlap" : "leave a gap"));
    cursor += list[i].elements * byteSize(list[i].dtype);
    byName.emplace(list[i].name, i);
  }
  if (cursor != dataBytes)
    return fail(fmt::format("holds {} bytes of data, its tensors need {}",
                            dataBytes, cursor));
  return {};
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

const StoredTensor *SafeTensorsReader::find(std::string_view name) const {
  auto found = byName.find(std::string(name));
  return found == byName.end() ? nullptr : &list[found->second];
}

std::span<const std::byte>
SafeTensorsReader::bytes(const StoredTensor &tensor) const {
  return file.bytes().subspan(dataBegin + tensor.offset,
                              tensor.elements * byteSize(tensor.dtype));
}

/// Pages of a mapped file count as the process's own as long as they are
/// mapped: what is read once goes, the system keeps it as long as it likes.
/// Whoever reads next to it gets its pages back from there.
void SafeTensorsReader::release(const StoredTensor &tensor, uint64_t begin,
                                uint64_t end) const {
  // Linux maps up to so many aligned bytes around the one that is missing.
  constexpr uint64_t around = uint64_t(64) << 10;
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::span<const std::byte> all = file.bytes();
  auto start = reinterpret_cast<uintptr_t>(all.data());
  uint64_t width = byteSize(tensor.dtype);
  auto base = reinterpret_cast<uintptr_t>(bytes(tensor).data());
  uint64_t first = (base + begin * width) / around * around;
  uint64_t last = (base + end * width + around - 1) / around * around;
  first = std::max<uint64_t>(first, start);
  last = std::min(last, (start + all.size() + page - 1) / page * page);
  if (first < last)
    (void)madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

Status SafeTensorsReader::read(const StoredTensor &tensor, uint64_t begin,
                               uint64_t end, DType to, void *out) const {
  if (begin > end || end > tensor.elements)
    return Status::invalid(
        fmt::format("{}: tensor {} has {} elements, asked for [{}, {})",
                    filePath, quote(tensor.name), tensor.elements, begin, end));
  Status status = convertElements(
      tensor.dtype, bytes(tensor).data() + begin * byteSize(tensor.dtype), to,
      out, end - begin);
  release(tensor, begin, end);
  return std::move(status).during([&] {
    return fmt::format("reading tensor {} of {}", quote(tensor.name), filePath);
  });
}

} // namespace ciuic::rt
