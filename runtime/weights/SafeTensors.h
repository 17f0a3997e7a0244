//===- SafeTensors.h - Named tensors in safetensors files -------*- C++ -*-===//
//
// A safetensors file is: the header's length in 8 little-endian bytes, the
// header (one JSON object: name -> dtype, shape, data_offsets, and optionally
// "__metadata__"), and the tensors' bytes back to back. The reader trusts
// nothing in it; the writer lets the elements of a tensor arrive in pieces and
// in any order, so that a sharded tensor never has to be put together.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_WEIGHTS_SAFETENSORS_H
#define CIUIC_RUNTIME_WEIGHTS_SAFETENSORS_H

#include "runtime/abi/Staging.h"
#include "runtime/base/DType.h"
#include "runtime/base/File.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ciuic::rt {

/// The name, type and shape of a stored tensor. No dimension is negative; a
/// scalar has an empty shape.
struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

/// The elements of `shape`; Code::Invalid for a negative dimension or a
/// product that does not fit int64.
Result<uint64_t> elementCount(std::span<const int64_t> shape);

/// "[2, 3]", for messages.
std::string shapeString(std::span<const int64_t> shape);

/// A tensor found in a file.
struct StoredTensor : TensorSpec {
  uint64_t elements = 0;
  uint64_t offset = 0; ///< Of its first byte, from the start of the data.
};

/// One safetensors file, mapped. Reading is const and safe from many threads.
class SafeTensorsReader {
public:
  /// Code::Invalid, naming the file and the tensor, unless: the header lies
  /// within the file and is at most 100 MB; it is a JSON object without
  /// duplicate names; each dtype is known, each shape is non-negative
  /// integers, each range is as long as shape and dtype say; the ranges cover
  /// the data without gap or overlap.
  static Result<SafeTensorsReader> open(const std::string &path);

  const std::string &path() const { return filePath; }
  /// In the order of their bytes.
  const std::vector<StoredTensor> &tensors() const { return list; }
  const std::map<std::string, std::string> &metadata() const { return meta; }

  /// Null if there is none of that name.
  const StoredTensor *find(std::string_view name) const;

  /// The tensor's bytes, row-major, little-endian; possibly unaligned.
  std::span<const std::byte> bytes(const StoredTensor &tensor) const;

  /// Elements [begin, end) of the flattened tensor, converted to `to`.
  Status read(const StoredTensor &tensor, uint64_t begin, uint64_t end,
              DType to, void *out) const;

private:
  explicit SafeTensorsReader(MappedFile file) : file(std::move(file)) {}
  void release(const StoredTensor &tensor, uint64_t begin, uint64_t end) const;
  Status parse();

  MappedFile file;
  std::string filePath;
  std::vector<StoredTensor> list;
  std::unordered_map<std::string, size_t> byName;
  std::map<std::string, std::string> meta;
  uint64_t dataBegin = 0;
};

/// Writes one safetensors file under a temporary name; nothing appears at the
/// path before commit().
class SafeTensorsWriter {
public:
  /// Writes the header. Code::Invalid for duplicate or reserved names.
  static Result<SafeTensorsWriter>
  create(const std::string &path, std::vector<TensorSpec> tensors,
         const std::map<std::string, std::string> &metadata = {});

  const std::vector<TensorSpec> &tensors() const { return specs; }

  /// Elements [begin, begin + count) of tensor `index`, given as `from` and
  /// converted to the tensor's dtype. Each element is written exactly once,
  /// in any order. Not safe from several threads.
  Status write(size_t index, uint64_t begin, uint64_t count, DType from,
               const void *data);

  /// Fails, naming the tensor, if elements are missing; else flushes to the
  /// disk and renames to the path.
  Status commit();

private:
  explicit SafeTensorsWriter(AtomicFile file) : file(std::move(file)) {}

  AtomicFile file;
  std::string filePath;
  std::vector<TensorSpec> specs;
  std::vector<uint64_t> offsets;  ///< In the file, a tensor each.
  std::vector<uint64_t> elements; ///< A tensor each.
  /// The written ranges of each tensor, begin -> end, merged.
  std::vector<std::map<uint64_t, uint64_t>> written;
  std::vector<std::byte> scratch;
};

/// Writes elements [begin, end) of one tensor to `out`.
using FillElements =
    std::function<Status(uint64_t begin, uint64_t end, void *out)>;

/// A tensor to be stored, and where its elements come from.
struct TensorSource : TensorSpec {
  DType fillDType = DType::F32; ///< What `fill` writes; stored as `dtype`.
  FillElements fill;
};

/// Streams `source` through a buffer of about `pieceBytes` into tensor
/// `index` of `writer`.
Status writeFrom(SafeTensorsWriter &writer, size_t index,
                 const TensorSource &source,
                 uint64_t pieceBytes = abi::kSavePieceBytes);

/// The shard of each tensor, given their sizes: in order, a new shard where
/// the next tensor would make it larger than `maxShardBytes`.
std::vector<size_t> planShards(std::span<const uint64_t> bytes,
                               uint64_t maxShardBytes);

/// "STEM-00001-of-00002.safetensors" for shard 0 of 2.
std::string shardName(std::string_view stem, size_t shard, size_t shards);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_WEIGHTS_SAFETENSORS_H
