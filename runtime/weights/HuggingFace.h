//===- HuggingFace.h - Model folders of transformers ------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_WEIGHTS_HUGGINGFACE_H
#define CIUIC_RUNTIME_WEIGHTS_HUGGINGFACE_H

#include "runtime/weights/SafeTensors.h"

#include <memory>

namespace ciuic::rt {

/// The weights of a model: `model.safetensors`, or the shards that
/// `model.safetensors.index.json` names. Reading is const and safe from many
/// threads.
class HuggingFaceFolder {
public:
  /// `path` is a folder or one safetensors file. Code::Invalid unless each
  /// tensor of the index is in the shard it names, and each shard is a plain
  /// file name (it may be a link, as in the hub's cache).
  static Result<HuggingFaceFolder> open(const std::string &path);

  /// In order of their names.
  std::vector<std::string> names() const;

  /// Null if there is none of that name.
  const StoredTensor *find(std::string_view name) const;

  /// Elements [begin, end) of the flattened tensor, converted to `to`.
  Status read(std::string_view name, uint64_t begin, uint64_t end, DType to,
              void *out) const;

  /// Code::Invalid, with both shapes, unless there is a convertible tensor
  /// `name` of this shape.
  Status expect(std::string_view name, std::span<const int64_t> shape) const;

private:
  struct Place {
    size_t file;
    const StoredTensor *tensor;
  };

  HuggingFaceFolder() = default;
  Status openIndex(const std::string &folder, const std::string &indexPath);
  Status add(const std::string &path);

  std::string path;
  std::vector<std::unique_ptr<SafeTensorsReader>> files;
  std::map<std::string, Place, std::less<>> places;
};

/// Whether exportHuggingFace could write to `folder`, before there is anything
/// to write; makes nothing.
Status checkExportFolder(const std::string &folder);

/// Writes a folder that AutoModelForCausalLM.from_pretrained opens:
/// `config.json` (the given object with `torch_dtype` set to the dtype of the
/// first tensor) and the tensors, in shards of at most `maxShardBytes` where a
/// single tensor is not larger. All of it is written beside `folder` first and
/// moved when complete; an existing folder keeps its other files (a
/// tokenizer), but no weights of an earlier export.
Status exportHuggingFace(const std::string &folder,
                         const std::string &configJson,
                         const std::vector<TensorSource> &tensors,
                         uint64_t maxShardBytes = uint64_t(5) * 1000000000);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_WEIGHTS_HUGGINGFACE_H
