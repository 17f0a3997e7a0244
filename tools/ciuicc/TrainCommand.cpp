//===- TrainCommand.cpp - ciuicc train and export -------------------------===//
#include "runtime/base/File.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/job/Job.h"
#include "runtime/task/HostMachine.h"
#include "runtime/task/StorageMachine.h"
#include "tools/ciuicc/Commands.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace ciuic;
using namespace ciuic::tool;

/// More than any model configuration has.
static constexpr uint64_t mostText = 16 << 20;

/// `text` as one word of a shell's command line, for people to copy.
static std::string shellWord(const std::string &text) {
  std::string word = "'";
  for (char c : text)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Becomes the bundle's own runner; returns only where there is none.
static int becomeRunner(const std::string &bundle,
                        const std::vector<std::string> &arguments) {
  std::string runner = bundle + "/bin/train";
  if (arguments.empty())
    return report(rt::Status::invalid(
        "a job for CUDA devices is compiled first, built where they are, and "
        "trained from its bundle"));
  std::vector<char *> pointers = {runner.data()};
  std::vector<std::string> copies = arguments;
  for (std::string &argument : copies)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(runner.c_str(), pointers.data());
  return report(rt::Status::invalid(
      runner + ": cannot run it: " + std::strerror(errno) +
      "; a bundle for CUDA devices is built where they are: cmake -S " +
      shellWord(bundle + "/src") + " -B " + shellWord(bundle + "/build") +
      " && cmake --build " + shellWord(bundle + "/build")));
}

int tool::runTrainCommand(const TrainSettings &settings,
                          const std::vector<std::string> &arguments) {
  auto manifest = readManifest(settings.train.bundle);
  if (!manifest.ok())
    return report(manifest.takeStatus());
  if (manifest->cuda)
    return becomeRunner(settings.train.bundle, arguments);
  return runTrain("ciuicc", settings, rt::HostMachine::create);
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
                   rt::Job::load(bundle, {rt::StorageMachine::create}));
  return job->exportCheckpoint(reader, folder, config, dtype, maxShardBytes);
}

int tool::runExport(const std::string &checkpoint, const std::string &folder,
                    const std::string &bundle, rt::DType dtype,
                    uint64_t maxShardBytes) {
  rt::Status status =
      exportCheckpoint(checkpoint, folder, bundle, dtype, maxShardBytes);
  return status.ok() ? 0 : report(status);
}
