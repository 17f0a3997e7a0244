//===- CheckpointWriter.cpp - Saving a training run -----------------------===//
#include "runtime/base/Checksum.h"
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/CheckpointFormat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace ciuic::rt {
namespace {

/// A double as a JSON number, which reads back to the same bits; JSON has none
/// for inf and NaN, which become strings.
OrderedJson scalarJson(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson stateJson(const RunState &state) {
  OrderedJson json;
  json["format"] = checkpointFormat;
  json["version"] = checkpointVersion;
  json["step"] = state.step;
  json["applied_steps"] = state.appliedSteps;
  json["skipped_steps"] = state.skippedSteps;
  json["data_step"] = state.dataStep;
  json["epoch"] = state.epoch;
  json["seed"] = state.seed;
  json["fingerprint"] = state.fingerprint;
  json["scalars"] = OrderedJson::object();
  for (const auto &[name, value] : state.scalars)
    json["scalars"][name] = scalarJson(value);
  json["files"] = OrderedJson::array();
  json["tensors"] = OrderedJson::array();
  return json;
}

bool isRole(std::string_view role) {
  return !role.empty() && role.size() <= 64 &&
         role.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
             role.npos;
}

} // namespace

Status CheckpointWriter::writeFiles(const std::string &folder,
                                    const RunState &state) {
  OrderedJson json = stateJson(state);

  // Tensors of a role share files, in the order in which they were added.
  std::vector<std::string> roles;
  std::map<std::string, std::vector<const TensorSource *>> byRole;
  for (const Source &source : sources) {
    if (!isRole(source.role))
      return Status::invalid(
          fmt::format("{} is not a role of a tensor: expected a-z, 0-9 and _",
                      quote(source.role)));
    if (!byRole.contains(source.role))
      roles.push_back(source.role);
    byRole[source.role].push_back(&source.tensor);
  }

  for (const std::string &role : roles) {
    const std::vector<const TensorSource *> &tensors = byRole[role];
    std::vector<uint64_t> bytes;
    for (const TensorSource *tensor : tensors) {
      CIUIC_TRY_ASSIGN(uint64_t count, elementCount(tensor->shape));
      uint64_t size = 0;
      if (__builtin_mul_overflow(count, byteSize(tensor->dtype), &size))
        return Status::invalid(
            fmt::format("tensor {} is too large", quote(tensor->name)));
      bytes.push_back(size);
    }
    std::vector<size_t> shards = planShards(bytes, maxShardBytes);
    size_t count = shards.back() + 1;
    for (size_t first = 0; first < tensors.size();) {
      size_t shard = shards[first], last = first;
      std::vector<TensorSpec> specs;
      for (; last < tensors.size() && shards[last] == shard; ++last)
        specs.push_back(*tensors[last]);
      std::string file = shardName(role, shard, count);
      CIUIC_TRY_ASSIGN(
          SafeTensorsWriter writer,
          SafeTensorsWriter::create(folder + "/" + file, std::move(specs)));
      for (size_t i = first; i < last; ++i) {
        CIUIC_TRY(writeFrom(writer, i - first, *tensors[i]));
        json["tensors"].push_back({{"role", role},
                                   {"name", tensors[i]->name},
                                   {"dtype", name(tensors[i]->dtype)},
                                   {"shape", tensors[i]->shape},
                                   {"file", file}});
      }
      CIUIC_TRY(writer.commit());
      CIUIC_TRY_ASSIGN(FileChecksum checksum, checksumOf(folder + "/" + file));
      json["files"].push_back(
          {{"name", file}, {"bytes", checksum.bytes}, {"xxh3", checksum.xxh3}});
      first = last;
    }
  }
  CIUIC_TRY_ASSIGN(std::string text, printJson(json));
  CIUIC_TRY(writeTextFile(folder + "/" + stateFileName, text));
  return syncFolder(folder);
}

Result<std::string> CheckpointWriter::save(const RunState &state) {
  std::string temporary = root + "/.saving";
  std::string stepName = fmt::format("{}{}", stepPrefix, state.step);
  std::string folder = root + "/" + stepName;
  auto write = [&]() -> Status {
    CIUIC_TRY(makeFolder(root));
    // What a killed run left behind.
    CIUIC_TRY(removeFolder(temporary));
    CIUIC_TRY(makeFolder(temporary));
    CIUIC_TRY(writeFiles(temporary, state));
    CIUIC_TRY(replaceFolder(temporary, folder));
    return writeTextFile(root + "/" + latestFileName, stepName + "\n");
  };
  if (Status status = write(); !status.ok()) {
    (void)removeFolder(temporary).ok(); // The first failure is the one to tell.
    return std::move(status).during(
        [&] { return fmt::format("saving the checkpoint {}", folder); });
  }
  return folder;
}

} // namespace ciuic::rt
