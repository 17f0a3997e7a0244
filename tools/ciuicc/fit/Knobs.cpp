//===- Knobs.cpp - What can be set to make a job fit ----------------------===//
#include "tools/ciuicc/fit/Knobs.h"
#include "passes/Pipelines/Phases.h"

#include <fmt/format.h>

#include <algorithm>

using namespace ciuic;
using namespace ciuic::fit;
using tool::CompileOptions;

/// Shares of the optimizer states that may be offloaded.
static constexpr int kRatios = 32;
/// Shares of the blocks that may be treated otherwise than the rest.
static constexpr int64_t kBlockParts = 8;

namespace {
/// Collects the knobs of one job.
class Finder {
public:
  explicit Finder(const JobFacts &job) : job(job) {}
  std::vector<Knob> run();

private:
  void addBatch();
  void addStage();
  void addOptimizerOffload();
  void addFiles(Knob &knob) const;
  void addParameterOffload();
  void addActivationOffload();
  void addRecompute();
  void addKeepGathered();
  void addPrefetch();

  static void add(Knob &knob, config::RecomputeSpec spec);
  void addBlocks(Knob &knob, const char *flag,
                 std::optional<int64_t> config::Overrides::*field,
                 std::vector<int64_t> counts) const;
  std::vector<int64_t> partsOfBlocks() const;
  Knob start(std::string name, std::initializer_list<const char *> flags,
             std::initializer_list<const char *> keys) const;
  const config::ResolvedKey *findInFile(std::string_view key) const;
  void finish(Knob knob);
  bool runs(const char *phase) const {
    return *findPhase(phase) >= job.firstPhase;
  }

  const JobFacts &job;
  std::vector<Knob> knobs;
};
} // namespace

/// The row of a key that the file has.
const config::ResolvedKey *Finder::findInFile(std::string_view key) const {
  for (const config::ResolvedKey &row : job.resolved.keys)
    if (row.key == key && row.source == config::Source::File)
      return &row;
  return nullptr;
}

/// A knob at its first level, fixed if any of the flags is given or any of
/// the keys is in the file.
Knob Finder::start(std::string name, std::initializer_list<const char *> flags,
                   std::initializer_list<const char *> keys) const {
  Knob knob;
  knob.name = std::move(name);
  knob.levels.push_back({"", "", [](CompileOptions &) {}});
  for (const std::string &given : job.options.given)
    for (const char *flag : flags)
      if (given == flag) {
        knob.fixedBy = flag;
        knob.given = true;
      }
  for (const char *key : keys)
    if (const config::ResolvedKey *row = findInFile(key)) {
      knob.fixedBy = row->origin + " of " + job.options.config;
      knob.inFile = true;
      return knob;
    }
  return knob;
}

void Finder::finish(Knob knob) {
  if (knob.levels.size() == 1)
    return;
  if (knob.probes.empty() && !knob.spends)
    for (unsigned level = 1; level < knob.levels.size(); ++level)
      knob.probes.push_back(level);
  knobs.push_back(std::move(knob));
}

/// Fewer sequences at a time, and more times. Each sequence is computed on by
/// itself, so that only the order of sums changes.
void Finder::addBatch() {
  const config::BatchSettings &batch = job.resolved.job.batch;
  int64_t all = batch.microBatch * batch.accumulation;
  // A larger one than this is refused at import.
  if (!job.ownsImport || !runs("differentiate") || batch.microBatch > 65536)
    return;
  Knob knob =
      start("micro-batch", {"--micro-batch", "--accumulation"},
            {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"});
  for (int64_t micro = batch.microBatch - 1; micro > 0; --micro) {
    if (all % micro)
      continue;
    std::string size = std::to_string(micro),
                times = std::to_string(all / micro);
    knob.levels.push_back({"--micro-batch " + size + " --accumulation " + times,
                           "\"train_micro_batch_size_per_gpu\": " + size +
                               ", \"gradient_accumulation_steps\": " + times,
                           [micro, all](CompileOptions &options) {
                             options.overrides.microBatch = micro;
                             options.overrides.accumulation = all / micro;
                           }});
  }
  unsigned last = knob.levels.size() - 1;
  if (last > 2)
    knob.probes = {1, (1 + last) / 2, last};
  finish(std::move(knob));
}

void Finder::addStage() {
  if (!runs("shard") || job.resolved.job.batch.worldSize == 1)
    return;
  Knob knob = start("ZeRO stage", {"--zero-stage"},
                    {"zero_optimization.stage", "zero_optimization"});
  for (int64_t stage = job.resolved.job.zero.stage + 1; stage <= 3; ++stage) {
    std::string text = std::to_string(stage);
    knob.levels.push_back({"--zero-stage " + text, "\"stage\": " + text,
                           [stage](CompileOptions &options) {
                             options.overrides.stage = stage;
                           }});
  }
  finish(std::move(knob));
}

/// States in files, where it is known on which disk.
void Finder::addFiles(Knob &knob) const {
  const CompileOptions &options = job.options;
  bool known = options.overrides.nvmePath.has_value();
  if (!known && !(job.proposes && options.machine && options.machine->disk))
    return;
  knob.levels.push_back(
      {known ? "--offload-optimizer nvme"
             : "--offload-optimizer nvme --nvme-path DIR",
       "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": ..}",
       [known](CompileOptions &options) {
         options.overrides.offloadOptimizer = config::OffloadDevice::Nvme;
         if (!known)
           options.overrides.nvmePath = "DIR";
       }});
}

void Finder::addOptimizerOffload() {
  if (!runs("place"))
    return;
  Knob knob = start("optimizer offload", {"--offload-optimizer"},
                    {"zero_optimization.offload_optimizer.device"});
  if (job.resolved.job.zero.offloadOptimizer.device ==
      config::OffloadDevice::None) {
    // In a file DeepSpeed allows shares at stage 3 alone; one that is there
    // stays as it is.
    bool whole =
        knob.inFile || findInFile("zero_optimization.offload_optimizer.ratio");
    for (int part = whole ? kRatios : 1; part <= kRatios; ++part) {
      std::string flags = "--offload-optimizer cpu";
      if (part < kRatios)
        flags += fmt::format(" --offload-ratio {}", double(part) / kRatios);
      knob.levels.push_back(
          {flags, "\"offload_optimizer\": {\"device\": \"cpu\"}",
           [part](CompileOptions &options) {
             options.overrides.offloadOptimizer = config::OffloadDevice::Cpu;
             if (part < kRatios)
               options.overrides.offloadRatio = double(part) / kRatios;
           }});
    }
    if (!whole)
      knob.probes = {kRatios / 2, kRatios};
    addFiles(knob);
    if (!whole && knob.levels.size() > kRatios + 1)
      knob.probes.push_back(kRatios + 1);
  } else { // Where it is the host that lacks room.
    knob.levels.push_back({"--offload-optimizer none",
                           "\"offload_optimizer\": {\"device\": \"none\"}",
                           [](CompileOptions &options) {
                             options.overrides.offloadOptimizer =
                                 config::OffloadDevice::None;
                           }});
    if (job.resolved.job.zero.offloadOptimizer.device ==
        config::OffloadDevice::Cpu)
      addFiles(knob);
  }
  finish(std::move(knob));
}

/// Parameters wait in host memory; at every stage, which no file can say.
void Finder::addParameterOffload() {
  if (!runs("place"))
    return;
  Knob knob = start("parameter offload", {"--offload-param"},
                    {"zero_optimization.offload_param.device"});
  bool offloaded =
      job.resolved.job.zero.offloadParam.device != config::OffloadDevice::None;
  config::OffloadDevice other =
      offloaded ? config::OffloadDevice::None : config::OffloadDevice::Cpu;
  std::string text = config::name(other);
  knob.levels.push_back({"--offload-param " + text,
                         "\"offload_param\": {\"device\": \"" + text + "\"}",
                         [other](CompileOptions &options) {
                           options.overrides.offloadParam = other;
                         }});
  finish(std::move(knob));
}

/// Whole blocks in a few shares: 4, 8, .. 28 of 32.
std::vector<int64_t> Finder::partsOfBlocks() const {
  std::vector<int64_t> counts;
  for (int64_t part = 1; part < kBlockParts; ++part)
    if (int64_t count = job.blocks * part / kBlockParts;
        count > (counts.empty() ? 0 : counts.back()))
      counts.push_back(count);
  return counts;
}

/// Levels that differ in a number of blocks.
void Finder::addBlocks(Knob &knob, const char *flag,
                       std::optional<int64_t> config::Overrides::*field,
                       std::vector<int64_t> counts) const {
  for (int64_t count : counts)
    knob.levels.push_back({flag + (" " + config::printBlocks(count)), "",
                           [field, count](CompileOptions &options) {
                             options.overrides.*field = count;
                           }});
}

void Finder::addActivationOffload() {
  if (!runs("place"))
    return;
  Knob knob = start("activation offload", {"--offload-activations"}, {});
  std::vector<int64_t> counts = {0};
  if (job.resolved.job.room.offloadActivations == 0) {
    counts = partsOfBlocks();
    counts.push_back(config::kAllBlocks);
  }
  addBlocks(knob, "--offload-activations",
            &config::Overrides::offloadActivations, counts);
  if (unsigned last = knob.levels.size() - 1; last > 2)
    knob.probes = {(1 + last) / 2, last};
  finish(std::move(knob));
}

/// Takes room where there is some left: what is gathered for the forward
/// serves the backward too.
void Finder::addKeepGathered() {
  if (!runs("place"))
    return;
  Knob knob = start("kept gathers", {"--keep-gathered"}, {});
  int64_t kept = job.resolved.job.room.keepGathered;
  knob.spends = kept == 0 || kept == config::RoomSettings().keepGathered;
  std::vector<int64_t> counts = {0};
  if (knob.spends) {
    counts = partsOfBlocks();
    std::erase_if(counts, [&](int64_t count) { return count <= kept; });
    counts.push_back(config::kAllBlocks);
  }
  addBlocks(knob, "--keep-gathered", &config::Overrides::keepGathered, counts);
  finish(std::move(knob));
}

void Finder::add(Knob &knob, config::RecomputeSpec spec) {
  knob.levels.push_back({"--recompute " + config::printRecompute(spec), "",
                         [spec](CompileOptions &options) {
                           options.overrides.recompute = spec;
                         }});
}

void Finder::addRecompute() {
  if (!runs("place"))
    return;
  Knob knob = start("recomputation", {"--recompute"}, {});
  if (!job.resolved.job.room.recompute.any()) {
    // Single ops everywhere, then ever more blocks as a whole.
    add(knob, {0, config::kAllBlocks});
    for (int64_t whole : partsOfBlocks())
      add(knob, {whole, config::kAllBlocks});
    add(knob, {config::kAllBlocks, 0});
    if (unsigned last = knob.levels.size() - 1; last > 2)
      knob.probes = {1, (1 + last) / 2, last};
  }
  finish(std::move(knob));
}

void Finder::addPrefetch() {
  if (!runs("schedule") || job.resolved.job.zero.prefetchBucketSize == 0)
    return;
  Knob knob = start("prefetch", {"--prefetch"}, {});
  for (int64_t ahead = job.options.prefetch - 1; ahead >= 0; --ahead)
    knob.levels.push_back(
        {"--prefetch " + std::to_string(ahead), "",
         [ahead](CompileOptions &options) { options.prefetch = ahead; }});
  if (knob.levels.size() > 2)
    knob.probes = {unsigned(knob.levels.size()) - 1};
  finish(std::move(knob));
}

std::vector<Knob> Finder::run() {
  addStage();
  addOptimizerOffload();
  addParameterOffload();
  addRecompute();
  addActivationOffload();
  addBatch();
  addPrefetch();
  addKeepGathered();
  return std::move(knobs);
}

std::vector<Knob> fit::findKnobs(const JobFacts &job) {
  return Finder(job).run();
}

std::vector<Ladder> fit::laddersOf(const std::vector<Knob> &knobs) {
  std::vector<Ladder> ladders;
  for (const Knob &knob : knobs)
    ladders.push_back(
        {unsigned(knob.levels.size()), knob.probes, knob.fixed(), knob.spends});
  return ladders;
}

CompileOptions fit::withChoice(CompileOptions options,
                               const std::vector<Knob> &knobs,
                               const Choice &choice) {
  for (size_t i = 0; i < knobs.size(); ++i)
    knobs[i].levels[choice[i]].apply(options);
  return options;
}

std::string fit::describe(const std::vector<Knob> &knobs,
                          const Choice &choice) {
  std::string flags, file;
  for (size_t i = 0; i < knobs.size(); ++i) {
    const Level &level = knobs[i].levels[choice[i]];
    if (choice[i] == 0)
      continue;
    // The file and the command line must agree.
    if (knobs[i].inFile)
      file += (file.empty() ? "with " : ", ") + level.file + " in " +
              knobs[i].fixedBy;
    if (!knobs[i].inFile || knobs[i].given)
      flags += (flags.empty() ? "" : " ") + level.flags +
               (knobs[i].given ? " (not the one given)" : "");
  }
  if (!flags.empty())
    flags = "with " + flags;
  return flags + (flags.empty() || file.empty() ? "" : " and ") + file;
}
