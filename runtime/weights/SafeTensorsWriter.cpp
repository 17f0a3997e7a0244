//===- SafeTensorsWriter.cpp - Writing safetensors files ------------------===//
#include "runtime/base/Convert.h"
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"
#include "runtime/base/StagedBytes.h"
#include "runtime/weights/SafeTensors.h"
#include "runtime/weights/SafeTensorsFormat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace ciuic::rt {
namespace {

/// Converted elements go to the file in pieces of this many bytes.
constexpr uint64_t scratchBytes = 1 << 20;

/// Checks names and shapes; `bytes` receives each tensor's size.
Status checkSpecs(const std::vector<TensorSpec> &specs,
                  std::vector<uint64_t> &elements,
                  std::vector<uint64_t> &bytes) {
  std::unordered_set<std::string_view> names;
  uint64_t total = 0;
  for (const TensorSpec &spec : specs) {
    if (spec.name == metadataKey)
      return Status::invalid(
          fmt::format("the tensor name {} is reserved", quote(spec.name)));
    if (!names.insert(spec.name).second)
      return Status::invalid(
          fmt::format("tensor {} is given twice", quote(spec.name)));
    CIUIC_TRY_ASSIGN(uint64_t count, elementCount(spec.shape));
    uint64_t size = 0;
    if (__builtin_mul_overflow(count, byteSize(spec.dtype), &size) ||
        __builtin_add_overflow(total, size, &total) || total > INT64_MAX)
      return Status::invalid(
          fmt::format("tensor {} of shape {} does not fit into a file",
                      quote(spec.name), shapeString(spec.shape)));
    elements.push_back(count);
    bytes.push_back(size);
  }
  return {};
}

} // namespace

Result<SafeTensorsWriter>
SafeTensorsWriter::create(const std::string &path,
                          std::vector<TensorSpec> tensors,
                          const std::map<std::string, std::string> &metadata) {
  std::vector<uint64_t> elements, bytes;
  if (Status status = checkSpecs(tensors, elements, bytes); !status.ok())
    return Status(status.code(), fmt::format("{}: {}", path, status.str()));

  // Wider elements first, so that every tensor is aligned to its own.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(byteSize(tensors[b].dtype), a) <
           std::tuple(byteSize(tensors[a].dtype), b);
  });

  std::string header = "{";
  auto separate = [&] {
    if (header.size() > 1)
      header += ",";
  };
  if (!metadata.empty()) {
    header += fmt::format("\"{}\":{{", metadataKey);
    for (const auto &[key, value] : metadata) {
      CIUIC_TRY_ASSIGN(std::string keyText, printJsonString(key));
      CIUIC_TRY_ASSIGN(std::string valueText, printJsonString(value));
      header += (header.back() == '{' ? "" : ",") + keyText + ":" + valueText;
    }
    header += "}";
  }
  std::vector<uint64_t> offsets(tensors.size());
  uint64_t cursor = 0;
  for (size_t i : order) {
    CIUIC_TRY_ASSIGN(std::string nameText, printJsonString(tensors[i].name));
    separate();
    header += fmt::format(
        "{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
        nameText, safeTensorsName(tensors[i].dtype),
        shapeString(tensors[i].shape), cursor, cursor + bytes[i]);
    offsets[i] = cursor;
    cursor += bytes[i];
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > maxHeaderBytes)
    return Status::invalid(
        fmt::format("{}: the names of {} tensors do not fit into a header of "
                    "{} bytes",
                    path, tensors.size(), maxHeaderBytes));

  CIUIC_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  uint64_t length = header.size();
  uint64_t dataBegin = headerLengthBytes + length;
  CIUIC_TRY(file.resize(dataBegin + cursor));
  CIUIC_TRY(file.write(0, std::as_bytes(std::span(&length, 1))));
  CIUIC_TRY(file.write(headerLengthBytes, std::as_bytes(std::span(header))));

  SafeTensorsWriter writer(std::move(file));
  writer.filePath = path;
  writer.specs = std::move(tensors);
  writer.elements = std::move(elements);
  writer.offsets = std::move(offsets);
  for (uint64_t &offset : writer.offsets)
    offset += dataBegin;
  writer.written.resize(writer.specs.size());
  return writer;
}

Status SafeTensorsWriter::write(size_t index, uint64_t begin, uint64_t count,
                                DType from, const void *data) {
  const TensorSpec &spec = specs[index];
  auto fail = [&](std::string message) {
    return Status::invalid(
        fmt::format("{}: tensor {}: {}", filePath, quote(spec.name), message));
  };
  if (begin > elements[index] || count > elements[index] - begin)
    return fail(fmt::format("has {} elements, given [{}, {} + {})",
                            elements[index], begin, begin, count));
  if (!canConvert(from, spec.dtype))
    return fail(fmt::format("cannot store {} elements as {}", name(from),
                            name(spec.dtype)));
  if (count == 0)
    return {};

  // The written range that begins at or after this one, and the one before.
  std::map<uint64_t, uint64_t> &ranges = written[index];
  uint64_t end = begin + count;
  auto next = ranges.lower_bound(begin);
  auto previous = next == ranges.begin() ? ranges.end() : std::prev(next);
  if ((next != ranges.end() && next->first < end) ||
      (previous != ranges.end() && previous->second > begin))
    return fail(fmt::format("elements [{}, {}) were partly written before",
                            begin, end));

  uint64_t width = byteSize(spec.dtype);
  auto *source = static_cast<const std::byte *>(data);
  if (from == spec.dtype) {
    CIUIC_TRY(file.write(offsets[index] + begin * width,
                         std::span(source, count * width)));
  } else {
    scratch.resize(scratchBytes);
    for (uint64_t done = 0; done < count;) {
      uint64_t piece = std::min(count - done, scratchBytes / width);
      CIUIC_TRY(convertElements(from, source + done * byteSize(from),
                                spec.dtype, scratch.data(), piece));
      CIUIC_TRY(file.write(offsets[index] + (begin + done) * width,
                           std::span(scratch).first(piece * width)));
      done += piece;
    }
  }

  // Joins the new range with neighbours that touch it.
  if (next != ranges.end() && next->first == end) {
    end = next->second;
    ranges.erase(next);
  }
  if (previous != ranges.end() && previous->second == begin)
    previous->second = end;
  else
    ranges.emplace(begin, end);
  return {};
}

Status SafeTensorsWriter::commit() {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (elements[i] == 0)
      continue;
    const std::map<uint64_t, uint64_t> &ranges = written[i];
    bool fromStart = !ranges.empty() && ranges.begin()->first == 0;
    uint64_t end = fromStart ? ranges.begin()->second : 0;
    if (end != elements[i])
      return Status::invalid(
          fmt::format("{}: tensor {}: element {} of {} was never written",
                      filePath, quote(specs[i].name), end, elements[i]));
  }
  return file.commit();
}

Status writeFrom(SafeTensorsWriter &writer, size_t index,
                 const TensorSource &source, uint64_t pieceBytes) {
  CIUIC_TRY_ASSIGN(uint64_t elements, elementCount(source.shape));
  uint64_t width = byteSize(source.fillDType);
  uint64_t piece =
      std::min(elements, std::max<uint64_t>(1, pieceBytes / width));
  std::vector<std::byte> buffer(piece * width);
  StagedBytes counted(buffer.size() + scratchBytes);
  for (uint64_t begin = 0; begin < elements;) {
    uint64_t end = std::min(elements, begin + piece);
    CIUIC_TRY(source.fill(begin, end, buffer.data()).during([&] {
      return fmt::format("collecting elements [{}, {}) of tensor {}", begin,
                         end, quote(source.name));
    }));
    CIUIC_TRY(writer.write(index, begin, end - begin, source.fillDType,
                           buffer.data()));
    begin = end;
  }
  return {};
}

std::vector<size_t> planShards(std::span<const uint64_t> bytes,
                               uint64_t maxShardBytes) {
  std::vector<size_t> shards;
  size_t shard = 0;
  uint64_t used = 0;
  for (uint64_t size : bytes) {
    if (used > 0 && (used >= maxShardBytes || size > maxShardBytes - used)) {
      ++shard;
      used = 0;
    }
    used += size;
    shards.push_back(shard);
  }
  return shards;
}

std::string shardName(std::string_view stem, size_t shard, size_t shards) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, shard + 1, shards);
}

} // namespace ciuic::rt
