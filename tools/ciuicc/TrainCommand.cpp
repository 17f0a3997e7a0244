//===- TrainCommand.cpp - ciuicc train and export -------------------------===//
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/job/Job.h"
#include "runtime/task/HostMachine.h"
#include "tools/ciuicc/Commands.h"

#include <filesystem>

using namespace ciuic;
using namespace ciuic::tool;

/// More than any manifest or model configuration has.
static constexpr uint64_t mostText = 16 << 20;

/// What the bundle was compiled for, where the command line is silent.
static rt::Status applyManifest(rt::TrainOptions &options) {
  std::string path = options.bundle + "/manifest.json";
  // What is there and cannot be read says why below.
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error)
    return rt::Status::invalid(options.bundle +
                               " is no bundle: it has no manifest.json");
  CIUIC_TRY_ASSIGN(std::string text, rt::readTextFile(path, mostText));
  CIUIC_TRY_ASSIGN(rt::Json manifest, rt::parseJson(text, path));
  if (!manifest.is_object())
    return rt::Status::invalid(path + ": found no object");
  auto number = [&](const char *key) -> int64_t {
    auto it = manifest.find(key);
    return it != manifest.end() && it->is_number_integer() ? it->get<int64_t>()
                                                           : 0;
  };
  if (options.deviceMemory == 0)
    options.deviceMemory =
        static_cast<uint64_t>(std::max<int64_t>(0, number("device_memory")));
  if (auto it = manifest.find("wall_clock_breakdown");
      it != manifest.end() && it->is_boolean() && it->get<bool>())
    options.wallClockBreakdown = true;
  if (options.logEvery == 0)
    options.logEvery =
        static_cast<uint64_t>(std::max<int64_t>(1, number("steps_per_print")));
  return {};
}

int tool::runTrain(const rt::TrainOptions &given) {
  rt::TrainOptions options = given;
  if (rt::Status status = applyManifest(options); !status.ok())
    return report(status);
  options.makeMachine = rt::HostMachine::create;
  auto result = rt::runTraining(options);
  return result.ok() ? 0 : report(result.takeStatus());
}

static rt::Status exportCheckpoint(const std::string &checkpoint,
                                   const std::string &folder,
                                   const std::string &bundle, rt::DType dtype,
                                   uint64_t maxShardBytes) {
  // Only a bundle of a model's configuration can name what it exports.
  std::string path = bundle + "/config.json";
  if (std::error_code ignored; !std::filesystem::exists(path, ignored))
    return rt::Status::invalid(bundle + " has no config.json, which an export "
                                        "needs: it was compiled from IR");
  CIUIC_TRY_ASSIGN(std::string config, rt::readTextFile(path, mostText));
  CIUIC_TRY_ASSIGN(rt::CheckpointReader reader,
                   rt::CheckpointReader::open(checkpoint));
  CIUIC_TRY_ASSIGN(std::unique_ptr<rt::Job> job,
                   rt::Job::load(bundle, {rt::HostMachine::create}));
  CIUIC_TRY(job->initialize(0));
  CIUIC_TRY(job->resume(reader));
  return job->exportFolder(folder, config, dtype, maxShardBytes);
}

int tool::runExport(const std::string &checkpoint, const std::string &folder,
                    const std::string &bundle, rt::DType dtype,
                    uint64_t maxShardBytes) {
  rt::Status status =
      exportCheckpoint(checkpoint, folder, bundle, dtype, maxShardBytes);
  return status.ok() ? 0 : report(status);
}
