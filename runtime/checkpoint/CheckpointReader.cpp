//===- CheckpointReader.cpp - Resuming a training run ---------------------===//
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/CheckpointFormat.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace ciuic::rt {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t maxStateBytes = 256'000'000;

/// Larger than any count of steps, and small enough to add to.
constexpr uint64_t mostSteps = uint64_t{1} << 53;

/// A member of `json`, an object, as an unsigned number.
Status readNumber(const Json &json, const char *key, uint64_t &value) {
  auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned())
    return Status::invalid(
        fmt::format("\"{}\" is not a non-negative integer", key));
  value = found->get<uint64_t>();
  return {};
}

/// A member of `json`, an object, as a number of steps or the like.
Status readCount(const Json &json, const char *key, uint64_t &value) {
  CIUIC_TRY(readNumber(json, key, value));
  if (value > mostSteps)
    return Status::invalid(fmt::format("\"{}\" is {}, expected at most {}", key,
                                       value, mostSteps));
  return {};
}

/// A member of `json`, an object, as a string.
Status readString(const Json &json, const char *key, std::string &value) {
  auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    return Status::invalid(fmt::format("\"{}\" is not a string", key));
  value = found->get<std::string>();
  return {};
}

Status readScalars(const Json &json, std::map<std::string, double> &scalars) {
  auto found = json.find("scalars");
  if (found == json.end() || !found->is_object())
    return Status::invalid("\"scalars\" is not an object");
  for (const auto &[key, value] : found->items()) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (value.is_number())
      scalars[key] = value.get<double>();
    else if (value == "nan")
      scalars[key] = std::numeric_limits<double>::quiet_NaN();
    else if (value == "inf" || value == "-inf")
      scalars[key] = value == "inf" ? inf : -inf;
    else
      return Status::invalid(
          fmt::format("scalar {} is not a number", quote(key)));
  }
  return {};
}

Status readShape(const Json &json, std::vector<int64_t> &shape) {
  auto found = json.find("shape");
  if (found == json.end() || !found->is_array())
    return Status::invalid("\"shape\" is not an array");
  for (const Json &dim : *found) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX)
      return Status::invalid("\"shape\" is not made of non-negative integers");
    shape.push_back(dim.get<int64_t>());
  }
  return {};
}

Status readState(const Json &json, RunState &state) {
  std::string format;
  uint64_t version = 0;
  if (!json.is_object() || !readString(json, "format", format).ok() ||
      format != checkpointFormat)
    return Status::invalid(
        fmt::format("is not the state of a {}", checkpointFormat));
  CIUIC_TRY(readNumber(json, "version", version));
  if (version < oldestCheckpointVersion || version > checkpointVersion)
    return Status::invalid(fmt::format("is of version {}, expected {} to {}",
                                       version, oldestCheckpointVersion,
                                       checkpointVersion));
  state.format = version;
  CIUIC_TRY(readCount(json, "step", state.step));
  CIUIC_TRY(readCount(json, "applied_steps", state.appliedSteps));
  CIUIC_TRY(readCount(json, "skipped_steps", state.skippedSteps));
  // Their difference is what the next checkpoint calls applied.
  if (state.skippedSteps > state.step)
    return Status::invalid(fmt::format(
        "\"skipped_steps\" is {}, expected at most \"step\", which is {}",
        state.skippedSteps, state.step));
  CIUIC_TRY(readCount(json, "data_step", state.dataStep));
  CIUIC_TRY(readCount(json, "epoch", state.epoch));
  CIUIC_TRY(readNumber(json, "seed", state.seed));
  CIUIC_TRY(readString(json, "fingerprint", state.fingerprint));
  return readScalars(json, state.scalars);
}

/// The checksums of files, which must all be plain names.
Status readFiles(const Json &json,
                 std::map<std::string, FileChecksum> &checksums) {
  auto list = json.find("files");
  if (list == json.end() || !list->is_array())
    return Status::invalid("\"files\" is not an array");
  for (size_t i = 0; i < list->size(); ++i) {
    const Json &entry = (*list)[i];
    auto fail = [&](std::string message) {
      return Status::invalid(fmt::format("files[{}]: {}", i, message));
    };
    std::string file;
    FileChecksum checksum;
    if (!entry.is_object())
      return fail("is not an object");
    auto readEntry = [&]() -> Status {
      CIUIC_TRY(readString(entry, "name", file));
      CIUIC_TRY(readNumber(entry, "bytes", checksum.bytes));
      return readString(entry, "xxh3", checksum.xxh3);
    };
    if (Status status = readEntry(); !status.ok())
      return fail(status.str());
    if (!isPlainFileName(file))
      return fail(fmt::format("{} is not the name of a file in this folder",
                              quote(file)));
    if (!checksums.emplace(file, checksum).second)
      return fail(fmt::format("{} is listed twice", quote(file)));
  }
  return {};
}

/// The folder of the checkpoint that `path` means.
Result<std::string> resolve(const std::string &path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / stateFileName, error))
    return path;
  std::string latest = (fs::path(path) / latestFileName).string();
  if (!fs::exists(latest, error))
    return Status::invalid(
        fmt::format("{}: is not a checkpoint: it holds neither {} nor {}", path,
                    stateFileName, latestFileName));
  CIUIC_TRY_ASSIGN(std::string name, readTextFile(latest, 256));
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r'))
    name.pop_back();
  if (!name.starts_with(stepPrefix) || !isPlainFileName(name))
    return Status::invalid(
        fmt::format("{}: names {}, expected step-N", latest, quote(name)));
  std::string folder = (fs::path(path) / name).string();
  if (!fs::exists(fs::path(folder) / stateFileName, error))
    return Status::invalid(fmt::format(
        "{}: names {}, which is no complete checkpoint: it has no {}", latest,
        quote(name), stateFileName));
  return folder;
}

} // namespace

Result<CheckpointReader> CheckpointReader::open(const std::string &path) {
  CheckpointReader reader;
  CIUIC_TRY_ASSIGN(reader.path, resolve(path));
  CIUIC_TRY(reader.parse().during(
      [&] { return fmt::format("opening the checkpoint {}", path); }));
  return reader;
}

Status CheckpointReader::parse() {
  std::string statePath = (fs::path(path) / stateFileName).string();
  CIUIC_TRY_ASSIGN(std::string text, readTextFile(statePath, maxStateBytes));
  CIUIC_TRY_ASSIGN(Json json, parseJson(text, statePath));
  auto fail = [&](std::string message) {
    return Status::invalid(fmt::format("{}: {}", statePath, message));
  };
  if (Status status = readState(json, run); !status.ok())
    return fail(status.str());
  if (run.format >= 2)
    if (Status status = readFiles(json, checksums); !status.ok())
      return fail(status.str());

  auto tensors = json.find("tensors");
  if (tensors == json.end() || !tensors->is_array())
    return fail("\"tensors\" is not an array");
  std::map<std::string, size_t> byName; // Files.
  for (size_t i = 0; i < tensors->size(); ++i) {
    const Json &entry = (*tensors)[i];
    auto failEntry = [&](std::string message) {
      return fail(fmt::format("tensors[{}]: {}", i, message));
    };
    if (!entry.is_object())
      return failEntry("is not an object");
    CheckpointKey key;
    std::string dtype, file;
    std::vector<int64_t> shape;
    auto readEntry = [&]() -> Status {
      CIUIC_TRY(readString(entry, "role", key.role));
      CIUIC_TRY(readString(entry, "name", key.name));
      CIUIC_TRY(readString(entry, "dtype", dtype));
      CIUIC_TRY(readString(entry, "file", file));
      return readShape(entry, shape);
    };
    if (Status status = readEntry(); !status.ok())
      return failEntry(status.str());
    if (!isPlainFileName(file))
      return failEntry(fmt::format(
          "{} is not the name of a file in this folder", quote(file)));
    auto [found, isNew] = byName.emplace(file, files.size());
    if (isNew) {
      CIUIC_TRY_ASSIGN(
          SafeTensorsReader opened,
          SafeTensorsReader::open((fs::path(path) / file).string()));
      files.push_back(std::make_unique<SafeTensorsReader>(std::move(opened)));
    }
    const StoredTensor *tensor = files[found->second]->find(key.name);
    if (!tensor)
      return failEntry(
          fmt::format("tensor {} is not in {}", quote(key.name), quote(file)));
    if (run.format >= 2 && !checksums.contains(file))
      return failEntry(
          fmt::format("{} has no entry in \"files\"", quote(file)));
    if (tensor->shape != shape || name(tensor->dtype) != dtype)
      return failEntry(fmt::format("tensor {} is {} {} here, {} {} in {}",
                                   quote(key.name), dtype, shapeString(shape),
                                   name(tensor->dtype),
                                   shapeString(tensor->shape), quote(file)));
    if (!places.emplace(key, Place{found->second, tensor}).second)
      return failEntry(fmt::format("{} of tensor {} is listed twice",
                                   quote(key.role), quote(key.name)));
  }
  return {};
}

Status CheckpointReader::verify(uint32_t process, uint32_t processes) const {
  size_t index = 0;
  for (const auto &[file, expected] : checksums) {
    if (index++ % processes != process)
      continue;
    std::string name = (fs::path(path) / file).string();
    CIUIC_TRY_ASSIGN(FileChecksum found, checksumOf(name));
    if (found != expected)
      return Status::invalid(fmt::format(
          "{}: is damaged: found {} bytes with the checksum {}, expected {} "
          "with {}",
          name, found.bytes, found.xxh3, expected.bytes, expected.xxh3));
  }
  return {};
}

std::vector<CheckpointKey> CheckpointReader::keys() const {
  std::vector<CheckpointKey> result;
  for (const auto &[key, place] : places)
    result.push_back(key);
  return result;
}

const StoredTensor *CheckpointReader::find(const CheckpointKey &key) const {
  auto found = places.find(key);
  return found == places.end() ? nullptr : found->second.tensor;
}

Status CheckpointReader::check(const std::vector<ExpectedTensor> &expected,
                               const std::string &fingerprint) const {
  constexpr size_t maxLines = 12;
  std::vector<std::string> problems;
  std::map<CheckpointKey, bool> wanted;
  for (const ExpectedTensor &want : expected) {
    wanted[want.key] = true;
    const StoredTensor *tensor = find(want.key);
    if (!tensor)
      problems.push_back(fmt::format("missing: {} of {}", want.key.role,
                                     quote(want.key.name)));
    else if (tensor->shape != want.shape)
      problems.push_back(fmt::format("{} of {} has shape {}, expected {}",
                                     want.key.role, quote(want.key.name),
                                     shapeString(tensor->shape),
                                     shapeString(want.shape)));
    else if (!isConvertible(tensor->dtype))
      problems.push_back(fmt::format("{} of {} is {}, expected a float type",
                                     want.key.role, quote(want.key.name),
                                     name(tensor->dtype)));
  }
  for (const auto &[key, place] : places)
    if (!wanted.contains(key))
      problems.push_back(
          fmt::format("extra: {} of {}", key.role, quote(key.name)));
  if (problems.empty() && !fingerprint.empty() && !run.fingerprint.empty() &&
      fingerprint != run.fingerprint)
    problems.push_back(fmt::format("was made for model {}, this is {}",
                                   quote(run.fingerprint), quote(fingerprint)));
  if (problems.empty())
    return {};
  std::string message =
      fmt::format("{}: the checkpoint does not fit this job", path);
  for (size_t i = 0; i < problems.size() && i < maxLines; ++i)
    message += "\n  " + problems[i];
  if (problems.size() > maxLines)
    message += fmt::format("\n  and {} more", problems.size() - maxLines);
  return Status::invalid(std::move(message));
}

Status CheckpointReader::read(const CheckpointKey &key, uint64_t begin,
                              uint64_t end, DType to, void *out) const {
  auto found = places.find(key);
  if (found == places.end())
    return Status::invalid(fmt::format("{}: holds no {} of tensor {}", path,
                                       key.role, quote(key.name)));
  return files[found->second.file]->read(*found->second.tensor, begin, end, to,
                                         out);
}

} // namespace ciuic::rt
