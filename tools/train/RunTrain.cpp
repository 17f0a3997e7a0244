//===- RunTrain.cpp - One training run, from options to exit code ---------===//
#include "tools/train/RunTrain.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/comm/ProcessGroup.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace ciuic::tool {

/// More than any manifest has.
static constexpr uint64_t mostText = 16 << 20;

rt::Result<Manifest> readManifest(const std::string &bundle) {
  std::string path = bundle + "/manifest.json";
  // What is there and cannot be read says why below.
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error)
    return rt::Status::invalid(bundle +
                               " is no bundle: it has no manifest.json");
  CIUIC_TRY_ASSIGN(std::string text, rt::readTextFile(path, mostText));
  CIUIC_TRY_ASSIGN(rt::Json json, rt::parseJson(text, path));
  if (!json.is_object())
    return rt::Status::invalid(path + ": found no object");
  auto number = [&](const char *key, int64_t least) -> uint64_t {
    auto it = json.find(key);
    int64_t value = it != json.end() && it->is_number_integer()
                        ? it->get<int64_t>()
                        : least;
    return static_cast<uint64_t>(std::max(least, value));
  };
  Manifest manifest;
  manifest.deviceMemory = number("device_memory", 0);
  manifest.stepsPerPrint = number("steps_per_print", 1);
  if (auto it = json.find("wall_clock_breakdown");
      it != json.end() && it->is_boolean())
    manifest.wallClockBreakdown = it->get<bool>();
  if (auto it = json.find("target"); it != json.end() && it->is_string())
    manifest.cuda = it->get<std::string>() == "cuda";
  return manifest;
}

/// The options of a run, where they are silent as the manifest says.
static rt::Result<rt::TrainOptions>
resolveOptions(const TrainSettings &settings) {
  rt::TrainOptions options = settings.train;
  CIUIC_TRY_ASSIGN(Manifest manifest, readManifest(options.bundle));
  if (!manifest.cuda && !settings.cudaGiven.empty())
    return rt::Status::invalid(settings.cudaGiven + ": of no effect on " +
                               options.bundle +
                               ", which is compiled for the CPU");
  if (manifest.cuda)
    CIUIC_TRY(rt::checkOneProcessHere());
  if (options.deviceMemory == 0)
    options.deviceMemory = manifest.deviceMemory;
  options.wallClockBreakdown |= manifest.wallClockBreakdown;
  if (options.logEvery == 0)
    options.logEvery = manifest.stepsPerPrint;
  return options;
}

int runTrain(const char *program, const TrainSettings &settings,
             const rt::MachineFactory &makeMachine) {
  rt::JoinOptions join;
  join.joinTimeout = settings.joinTimeout;
  join.exchangeTimeout = settings.train.collectiveTimeout;
  auto group = rt::joinProcessGroup(join);
  if (!group.ok())
    return printError(program, group.takeStatus());
  auto options = resolveOptions(settings);
  if (!options.ok()) {
    rt::Status status = options.takeStatus();
    (*group)->abort(status);
    return printError(program, status);
  }
  options->makeMachine = makeMachine;
  options->group = group->get();
  auto result = rt::runTraining(*options);
  // Told before the group goes, which may take a while.
  return result.ok() ? 0 : printError(program, result.takeStatus());
}

int printError(const char *program, const rt::Status &status) {
  std::fprintf(stderr, "%s: error: %s\n", program, status.str().c_str());
  return status.exitCode();
}

void prepareProcess() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)open("/dev/null", O_RDWR); // Takes the lowest free number.
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace ciuic::tool
