//===- HuggingFace.cpp - Model folders of transformers --------------------===//
#include "runtime/weights/HuggingFace.h"

#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include <unistd.h>

namespace ciuic::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *singleName = "model.safetensors";
constexpr const char *indexName = "model.safetensors.index.json";
constexpr uint64_t maxIndexBytes = 100'000'000;
constexpr uint64_t maxConfigBytes = 1'000'000;

std::string join(const std::string &folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<HuggingFaceFolder> HuggingFaceFolder::open(const std::string &path) {
  HuggingFaceFolder folder;
  folder.path = path;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    CIUIC_TRY(folder.add(path));
    return folder;
  }
  // The same precedence as transformers: a single file before an index.
  std::string single = join(path, singleName), index = join(path, indexName);
  if (fs::exists(single, error)) {
    CIUIC_TRY(folder.add(single));
  } else if (fs::exists(index, error)) {
    CIUIC_TRY(folder.openIndex(path, index));
  } else {
    return Status::invalid(fmt::format("{}: holds neither {} nor {}", path,
                                       singleName, indexName));
  }
  return folder;
}

Status HuggingFaceFolder::add(const std::string &path) {
  CIUIC_TRY_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  auto file = std::make_unique<SafeTensorsReader>(std::move(reader));
  for (const StoredTensor &tensor : file->tensors())
    places.emplace(tensor.name, Place{files.size(), &tensor});
  files.push_back(std::move(file));
  return {};
}

Status HuggingFaceFolder::openIndex(const std::string &folder,
                                    const std::string &indexPath) {
  CIUIC_TRY_ASSIGN(std::string text, readTextFile(indexPath, maxIndexBytes));
  CIUIC_TRY_ASSIGN(Json index, parseJson(text, indexPath));
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    return Status::invalid(
        fmt::format("{}: has no object \"weight_map\"", indexPath));

  std::map<std::string, size_t> shards; // by file name
  for (const auto &[tensor, shard] : map->items()) {
    if (!shard.is_string() ||
        !isPlainFileName(shard.get_ref<const std::string &>()))
      return Status::invalid(
          fmt::format("{}: tensor {} is not mapped to the name of a file in "
                      "this folder",
                      indexPath, quote(tensor)));
    const auto &name = shard.get_ref<const std::string &>();
    auto [found, isNew] = shards.emplace(name, files.size());
    if (isNew) {
      CIUIC_TRY_ASSIGN(SafeTensorsReader reader,
                       SafeTensorsReader::open(join(folder, name)));
      files.push_back(std::make_unique<SafeTensorsReader>(std::move(reader)));
    }
    const StoredTensor *stored = files[found->second]->find(tensor);
    if (!stored)
      return Status::invalid(
          fmt::format("{}: tensor {} is not in {}, where the index puts it",
                      indexPath, quote(tensor), quote(name)));
    places.emplace(tensor, Place{found->second, stored});
  }
  return {};
}

std::vector<std::string> HuggingFaceFolder::names() const {
  std::vector<std::string> result;
  for (const auto &[name, place] : places)
    result.push_back(name);
  return result;
}

const StoredTensor *HuggingFaceFolder::find(std::string_view name) const {
  auto found = places.find(name);
  return found == places.end() ? nullptr : found->second.tensor;
}

Status HuggingFaceFolder::read(std::string_view name, uint64_t begin,
                               uint64_t end, DType to, void *out) const {
  auto found = places.find(name);
  if (found == places.end())
    return Status::invalid(
        fmt::format("{}: has no tensor {}", path, quote(name)));
  return files[found->second.file]->read(*found->second.tensor, begin, end, to,
                                         out);
}

Status HuggingFaceFolder::expect(std::string_view name,
                                 std::span<const int64_t> shape) const {
  const StoredTensor *tensor = find(name);
  if (!tensor)
    return Status::invalid(
        fmt::format("{}: has no tensor {}", path, quote(name)));
  if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(),
                  tensor->shape.end()))
    return Status::invalid(fmt::format(
        "{}: tensor {} has shape {}, expected {}", path, quote(name),
        shapeString(tensor->shape), shapeString(shape)));
  if (!isConvertible(tensor->dtype))
    return Status::invalid(
        fmt::format("{}: tensor {} is {}, expected f32, f16, bf16 or f64", path,
                    quote(name), rt::name(tensor->dtype)));
  return {};
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

/// PyTorch's name of a dtype; empty for types that models do not have.
std::string_view torchName(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "float32";
  case DType::F16:
    return "float16";
  case DType::BF16:
    return "bfloat16";
  case DType::F64:
    return "float64";
  default:
    return "";
  }
}

/// The text of config.json with its dtype set.
Result<std::string> configText(const std::string &configJson, DType dtype) {
  std::string_view torch = torchName(dtype);
  if (torch.empty())
    return Status::invalid(
        fmt::format("a model cannot be exported as {}", name(dtype)));
  if (configJson.size() > maxConfigBytes)
    return Status::invalid(
        fmt::format("config.json: has {} bytes, more than the {} allowed",
                    configJson.size(), maxConfigBytes));
  CIUIC_TRY_ASSIGN(OrderedJson config,
                   parseOrderedJson(configJson, "config.json"));
  if (!config.is_object())
    return Status::invalid("config.json: is not a JSON object");
  config["torch_dtype"] = torch;
  // The name that newer releases of transformers write and prefer.
  if (config.contains("dtype"))
    config["dtype"] = torch;
  return printJson(config);
}

/// Writes shard after shard into `folder`; `names` receives the files' names
/// and `shards` each tensor's shard.
Status writeShards(const std::string &folder,
                   const std::vector<TensorSource> &tensors,
                   uint64_t maxShardBytes, std::vector<size_t> &shards,
                   std::vector<std::string> &names, uint64_t &totalBytes) {
  std::vector<uint64_t> bytes;
  totalBytes = 0;
  for (const TensorSource &tensor : tensors) {
    CIUIC_TRY_ASSIGN(uint64_t count, elementCount(tensor.shape));
    uint64_t size = 0;
    if (__builtin_mul_overflow(count, byteSize(tensor.dtype), &size) ||
        __builtin_add_overflow(totalBytes, size, &totalBytes))
      return Status::invalid(
          fmt::format("tensor {} is too large", quote(tensor.name)));
    bytes.push_back(size);
  }
  shards = planShards(bytes, maxShardBytes);
  size_t count = shards.empty() ? 1 : shards.back() + 1;
  for (size_t shard = 0, i = 0; shard < count; ++shard) {
    std::string name =
        count == 1 ? singleName : shardName("model", shard, count);
    size_t first = i;
    std::vector<TensorSpec> specs;
    for (; i < tensors.size() && shards[i] == shard; ++i)
      specs.push_back(tensors[i]);
    CIUIC_TRY_ASSIGN(SafeTensorsWriter writer,
                     SafeTensorsWriter::create(join(folder, name),
                                               std::move(specs),
                                               {{"format", "pt"}}));
    for (size_t k = first; k < i; ++k)
      CIUIC_TRY(writeFrom(writer, k - first, tensors[k]));
    CIUIC_TRY(writer.commit());
    names.push_back(std::move(name));
  }
  return {};
}

/// The text of the index that says in which shard a tensor is.
Result<std::string> indexText(const std::vector<TensorSource> &tensors,
                              const std::vector<size_t> &shards,
                              const std::vector<std::string> &names,
                              uint64_t totalBytes) {
  nlohmann::json map = nlohmann::json::object();
  for (size_t i = 0; i < tensors.size(); ++i)
    map[tensors[i].name] = names[shards[i]];
  OrderedJson index;
  index["metadata"]["total_size"] = totalBytes;
  index["weight_map"] = map;
  return printJson(index);
}

/// Whether an earlier export or its author may have written `name` as
/// weights: what transformers would look for.
bool isWeightFile(std::string_view name) {
  return name.starts_with("model") &&
         (name.ends_with(".safetensors") ||
          name.ends_with(".safetensors.index.json"));
}

/// Moves the files of `from` into `to`, which exists, the configuration last,
/// and removes weights that are not of this export.
Status moveInto(const std::string &from, const std::string &to,
                const std::set<std::string> &names) {
  std::error_code error;
  auto move = [&](const std::string &name) {
    fs::rename(join(from, name), join(to, name), error);
    return error ? Status::machine(fmt::format("{}: cannot write: {}",
                                               join(to, name), error.message()))
                 : Status();
  };
  for (const std::string &name : names)
    if (name != "config.json")
      CIUIC_TRY(move(name));
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(to, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (isWeightFile(name) && !names.contains(name))
      stale.push_back(it->path());
  }
  for (const fs::path &path : stale)
    if (!error)
      fs::remove(path, error);
  if (error)
    return Status::machine(
        fmt::format("{}: cannot remove the weights of an earlier export: {}",
                    to, error.message()));
  CIUIC_TRY(move("config.json"));
  return syncFolder(to);
}

Status writeExport(const std::string &temporary, const std::string &folder,
                   const std::string &config,
                   const std::vector<TensorSource> &tensors,
                   uint64_t maxShardBytes) {
  CIUIC_TRY(makeFolder(temporary));
  std::vector<size_t> shards;
  std::vector<std::string> files;
  uint64_t totalBytes = 0;
  CIUIC_TRY(writeShards(temporary, tensors, maxShardBytes, shards, files,
                        totalBytes));
  std::set<std::string> names(files.begin(), files.end());
  if (files.size() > 1) {
    CIUIC_TRY_ASSIGN(std::string index,
                     indexText(tensors, shards, files, totalBytes));
    CIUIC_TRY(writeTextFile(join(temporary, indexName), index));
    names.insert(indexName);
  }
  CIUIC_TRY(writeTextFile(join(temporary, "config.json"), config));
  names.insert("config.json");

  std::error_code error;
  if (fs::exists(folder, error)) {
    CIUIC_TRY(moveInto(temporary, folder, names));
    return removeFolder(temporary);
  }
  return replaceFolder(temporary, folder);
}

} // namespace

/// `folder` without slashes at its end: they would put the temporary folder
/// inside.
static std::string exportTarget(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/')
    folder.pop_back();
  return folder;
}

Status checkExportFolder(const std::string &folder) {
  std::string target = exportTarget(folder);
  std::error_code error;
  if (fs::exists(target, error)) {
    if (!fs::is_directory(target, error))
      return Status::invalid(
          fmt::format("{}: exists and is not a folder", target));
    CIUIC_TRY(checkWritable(join(target, "config.json")));
  }
  return checkWritable(target);
}

Status exportHuggingFace(const std::string &folder,
                         const std::string &configJson,
                         const std::vector<TensorSource> &tensors,
                         uint64_t maxShardBytes) {
  if (tensors.empty())
    return Status::invalid(
        fmt::format("{}: there are no tensors to export", folder));
  CIUIC_TRY_ASSIGN(std::string config,
                   configText(configJson, tensors.front().dtype));
  CIUIC_TRY(checkExportFolder(folder));
  std::string target = exportTarget(folder);
  std::string temporary = fmt::format("{}.tmp-{}", target, ::getpid());
  CIUIC_TRY(removeFolder(temporary));
  Status status =
      writeExport(temporary, target, config, tensors, maxShardBytes);
  if (!status.ok())
    (void)removeFolder(temporary).ok(); // The first failure is the one to tell.
  return std::move(status).during(
      [&] { return fmt::format("exporting to {}", target); });
}

} // namespace ciuic::rt
