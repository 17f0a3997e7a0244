//===- Commands.h - The subcommands of ciuicc -------------------*- C++ -*-===//
//
// Each takes its options and returns the process exit code: 0 done, 1 the job
// is wrong, 2 usage, 3 the machine failed, 4 training stopped itself.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_CIUICC_COMMANDS_H
#define CIUIC_TOOLS_CIUICC_COMMANDS_H

#include "frontend/config/Config.h"
#include "frontend/machine/Machine.h"
#include "tools/train/RunTrain.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ciuic::tool {

struct CompileOptions {
  std::string model;  ///< Folder, config.json or train IR.
  std::string config; ///< ds_config.json.
  std::string output; ///< The bundle.
  std::string dump;   ///< Folder for a file a phase; empty: none.
  std::string stopAfter, startFrom;
  std::string input; ///< With startFrom: the phase file to go on from.
  config::Overrides overrides;
  std::optional<int64_t> sequence;
  int64_t deviceMemory = 0;      ///< Bytes of each device; 0: no limit.
  int64_t hostMemory = 0;        ///< Bytes of the host; 0: no limit.
  int64_t nvmeSpace = 0;         ///< Bytes of files; 0: no limit.
  int64_t nvmeBuffer = 16 << 20; ///< Of a state in a file, updated at once.
  int64_t sharedMemory = 0;      ///< Bytes of all ranks' arenas; 0: no limit.
  std::optional<machine::Machine> machine; ///< That the limits come from.
  /// The limits of host and shared memory are the machine's: for all that
  /// processes hold, and not for arenas alone.
  bool wholeHost = false;
  int64_t processes = 1;      ///< That a run will have on the host.
  int64_t prefetch = 1;       ///< Buckets gathered ahead.
  std::string target = "cpu"; ///< Or "cuda".
  std::string architectures;  ///< For CUDA, "sm_80,sm_90a"; empty: sm_80.
  bool build = true;          ///< Compile the library of the bundle.
  std::vector<std::string> noDecay;
  std::string remarks; ///< Categories to print, a regular expression.
  /// Options given on the command line: what --fit may not choose.
  std::vector<std::string> given;
  bool fit = false; ///< Choose what makes the job fit.
  bool strict = false;
  bool timing = false; ///< Print the seconds of each phase.
  bool quiet = false;  ///< Neither notes nor the closing line.
};

int runCompile(const CompileOptions &options);

/// "import, differentiate, ...", from the table of phases.
std::string phaseNames();

/// Trains here, or, for a bundle of CUDA devices, by its own bin/train, which
/// is given `arguments`, those after "train".
int runTrainCommand(const TrainSettings &settings,
                    const std::vector<std::string> &arguments);

int runConfig(const std::string &file, const std::string &model,
              const config::Overrides &overrides, bool strict);

struct InspectOptions {
  std::string bundle;
  std::string what; ///< config, memory, schedule, comm, kernels, phase, param.
  std::string name; ///< Of the phase or parameter.
  std::string at;   ///< Of memory: the task at which; empty: all over.
  bool csv = false; ///< Of memory: as a table of commas.
};

int runInspect(const InspectOptions &options);

/// Writes the plan of a bundle as one HTML page.
int runReport(const std::string &bundle, const std::string &output);

int runExport(const std::string &checkpoint, const std::string &folder,
              const std::string &bundle, rt::DType dtype,
              uint64_t maxShardBytes);

/// Prints "ciuicc: error: ..." and returns the status's exit code.
int report(const rt::Status &status);

/// The resolved settings of `options`, warnings and notes printed.
rt::Result<config::ResolvedConfig>
resolveSettings(const CompileOptions &options,
                std::optional<int64_t> hiddenSize);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_COMMANDS_H
