//===- TrainOptions.h - What a training run is told -------------*- C++ -*-===//
//
// The options of `ciuicc train`, and of the runner that goes with a bundle to
// machines without a compiler: one list, so that they cannot drift apart.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_TRAIN_TRAINOPTIONS_H
#define CIUIC_TOOLS_TRAIN_TRAINOPTIONS_H

#include "runtime/job/TrainLoop.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace ciuic::tool {

/// "40GB" (10^9), "40GiB" (2^30), "512MB", "4096": bytes; none if it is not a
/// size or does not fit.
std::optional<int64_t> parseBytes(const std::string &text);

/// A size given to an option; "" leaves `bytes`. Code::Invalid unless it is
/// a size above 0.
rt::Status setBytes(const char *option, const std::string &text,
                    int64_t &bytes);

/// Options of a run as CLI11 fills them.
struct TrainSettings {
  rt::TrainOptions train;
  std::string exportDType = "f32";
  std::string shardSize = "5GB";
  /// Seconds in which all processes of a job must have started.
  double joinTimeout = 300;
  /// Options for CUDA devices that were given: refused on other bundles.
  std::string cudaGiven;
};

void addTrainOptions(CLI::App &app, TrainSettings &settings);

/// "--shard-size", which exporting a checkpoint takes too.
void addShardSize(CLI::App &app, TrainSettings &settings);

/// Turns what was given as text into values; Code::Invalid where it is wrong:
/// the command line is, not the job.
rt::Status finishTrainOptions(TrainSettings &settings);

/// The options for CUDA devices that are given, as "--tune, ...".
std::string givenCudaOptions(const CLI::App &app);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_TRAIN_TRAINOPTIONS_H
