//===- TrainOptions.cpp - What a training run is told ---------------------===//
#include "tools/train/TrainOptions.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace ciuic::tool {
namespace {

constexpr const char *cudaGroup = "On CUDA devices";

std::optional<rt::DType> dtypeNamed(const std::string &name) {
  if (name == "f32" || name == "fp32")
    return rt::DType::F32;
  if (name == "f16" || name == "fp16")
    return rt::DType::F16;
  if (name == "bf16")
    return rt::DType::BF16;
  return std::nullopt;
}

/// A number of passes over the data: CLI::Range lets NaN through.
std::string checkEpochs(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == 0 && value > 0 && value <= 1e9)
    return "";
  return "is " + text + ", expected a number above 0 and at most 1e9";
}

/// A time in seconds.
std::string checkSeconds(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == 0 && value > 0 && value <= 1e7)
    return "";
  return "is " + text + ", expected seconds above 0 and at most 1e7";
}

CLI::Validator named(std::string (*check)(const std::string &),
                     const std::string &name) {
  return CLI::Validator([check](std::string &text) { return check(text); },
                        name);
}

void addCudaOptions(CLI::App &app, rt::CudaFlags &cuda) {
  app.add_flag("--share-device", cuda.shareDevice,
               "Run all ranks of this process on one device")
      ->group(cudaGroup);
  app.add_flag("--cuda-graphs", cuda.graphs,
               "Replay stretches of tasks as CUDA graphs")
      ->group(cudaGroup);
  app.add_option("--attention", cuda.attention,
                 "Who computes it: auto, cudnn or own; default auto")
      ->check(CLI::IsMember({"auto", "cudnn", "own"}))
      ->group(cudaGroup);
  app.add_flag("--tune", cuda.tune,
               "Measure matrix products first and keep the best in the bundle")
      ->group(cudaGroup);
}

} // namespace

std::optional<int64_t> parseBytes(const std::string &text) {
  static const std::pair<const char *, double> units[] = {
      {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10},
      {"TB", 1e12},    {"GB", 1e9},     {"MB", 1e6},     {"kB", 1e3},
      {"KB", 1e3},     {"B", 1.0},      {"", 1.0}};
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value) || value < 0)
    return std::nullopt;
  while (*end == ' ')
    ++end;
  for (const auto &[unit, factor] : units)
    if (std::string(end) == unit) {
      double bytes = value * factor;
      if (bytes >= 0x1p62)
        return std::nullopt;
      return static_cast<int64_t>(bytes);
    }
  return std::nullopt;
}

rt::Status setBytes(const char *option, const std::string &text,
                    int64_t &bytes) {
  if (text.empty())
    return {};
  auto parsed = parseBytes(text);
  if (!parsed || *parsed == 0)
    return rt::Status::invalid(std::string(option) + " is \"" + text +
                               "\", expected a size such as 40GB (10^9 bytes) "
                               "or 40GiB (2^30)");
  bytes = *parsed;
  return {};
}

void addShardSize(CLI::App &app, TrainSettings &settings) {
  app.add_option("--shard-size", settings.shardSize,
                 "Largest weights file of an export; default 5GB");
}

void addTrainOptions(CLI::App &app, TrainSettings &settings) {
  rt::TrainOptions &t = settings.train;
  app.add_option("--data", t.data,
                 "Text files, folders of them, or token files")
      ->required();
  app.add_option("--weights", t.weights,
                 "Hugging Face folder with the initial weights; with --model, "
                 "that folder's if it has any");
  app.add_option("--steps", t.steps, "Optimizer steps of the whole training")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40));
  app.add_option("--epochs", t.epochs, "Passes over the data; default 1")
      ->check(named(checkEpochs, "above 0"));
  auto *save = app.add_option("--save", t.save, "Folder for checkpoints");
  app.add_option("--save-every", t.saveEvery,
                 "Steps between checkpoints; default at the end only")
      ->needs(save);
  app.add_option("--resume", t.resume,
                 "Go on from this checkpoint, or the latest of this folder");
  app.add_option("--export", t.exportFolder,
                 "Write a Hugging Face folder at the end");
  app.add_option("--export-dtype", settings.exportDType, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "fp32", "fp16"}));
  addShardSize(app, settings);
  t.logEvery = 0; // Until said: the file's steps_per_print.
  app.add_option("--log-every", t.logEvery, "Steps between progress lines");
  app.add_option("--log", t.log, "File for one JSON record a step");
  app.add_option("--profile", t.profile,
                 "File for a table of the mean time of every task");
  app.add_option("--seed", t.seed, "Of weights and of the order of the data");
  app.add_flag(
      "!--no-shuffle", t.shuffle,
      "Take the data in its order in every epoch, instead of one drawn from "
      "the seed");
  auto *validation =
      app.add_option("--validation", t.validationShare,
                     "Share of the data held back to measure the loss on")
          ->check(CLI::Range(0.0, 0.99));
  app.add_option("--validate-every", t.validateEvery,
                 "Steps between validations; default at the end only")
      ->needs(validation);
  app.add_option("--threads", t.threads, "Threads; default one a processor")
      ->check(CLI::Range(0, 4096));
  app.add_option("--collective-timeout", t.collectiveTimeout,
                 "Seconds after which a collective that does not complete "
                 "ends the run; default 1800")
      ->check(named(checkSeconds, "seconds"));
  app.add_option("--join-timeout", settings.joinTimeout,
                 "Seconds in which all processes of a job must have started; "
                 "default 300")
      ->check(named(checkSeconds, "seconds"));
  app.add_option("--nvme-path", t.disk.folder,
                 "Folder for the files of a job that keeps optimizer states in "
                 "files; default the one it was compiled with");
  app.add_option("--disk-io", t.disk.by,
                 "Who reads and writes them: auto, io_uring or threads; "
                 "default auto")
      ->check(CLI::IsMember({"auto", "io_uring", "threads"}));
  addCudaOptions(app, t.cuda);
}

rt::Status finishTrainOptions(TrainSettings &settings) {
  int64_t bytes = 0;
  CIUIC_TRY(setBytes("--shard-size", settings.shardSize, bytes));
  if (bytes != 0)
    settings.train.exportShardBytes = static_cast<uint64_t>(bytes);
  settings.train.exportDType =
      dtypeNamed(settings.exportDType).value_or(rt::DType::F32);
  return {};
}

std::string givenCudaOptions(const CLI::App &app) {
  std::string names;
  for (const CLI::Option *option : app.get_options())
    if (option->get_group() == cudaGroup && option->count() > 0)
      names += (names.empty() ? "" : ", ") + option->get_name();
  return names;
}

} // namespace ciuic::tool
