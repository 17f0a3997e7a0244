//===- CommandLine.cpp - What ciuicc understands --------------------------===//
#include "tools/ciuicc/CommandLine.h"
#include "tools/ciuicc/Commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace ciuic;
using namespace ciuic::tool;

namespace {

/// Every option of every subcommand, as CLI11 fills it.
struct Settings {
  CompileOptions compile;
  TrainSettings training;
  std::string deviceMemory, hostMemory, nvmeSpace, nvmeBuffer, precision,
      machine, offloadOptimizer, offloadParam, offloadActivations, recompute,
      keepGathered;
  std::optional<int64_t> devices;
  InspectOptions inspect;
  std::string checkpoint, exportFolder, bundle, reportFile;
  std::string configFile, configModel;
  bool strict = false;
};

/// A size in bytes; "" stays 0.
bool takeBytes(const char *option, const std::string &text, int64_t &bytes) {
  rt::Status status = setBytes(option, text, bytes);
  if (!status.ok())
    report(status);
  return status.ok();
}

/// The options that fill the file's "auto".
void addOverrides(CLI::App &app, Settings &s) {
  config::Overrides &o = s.compile.overrides;
  app.add_option("--devices", s.devices,
                 "Devices (ranks); default the machine's, or 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  const char *group = "Values for the file's \"auto\" and missing keys";
  app.add_option("--batch", o.trainBatchSize, "Sequences an optimizer step")
      ->group(group);
  app.add_option("--micro-batch", o.microBatch,
                 "Sequences a device and micro-step")
      ->group(group);
  app.add_option("--accumulation", o.accumulation,
                 "Micro-steps an optimizer step")
      ->group(group);
  app.add_option("--precision", s.precision, "fp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->group(group);
  app.add_option("--zero-stage", o.stage,
                 "Stage of ZeRO: what ranks share, 0 nothing, 1 optimizer "
                 "states, 2 gradients too, 3 parameters too")
      ->check(CLI::Range(int64_t{0}, int64_t{3}))
      ->group(group);
  app.add_option("--offload-optimizer", s.offloadOptimizer,
                 "Where optimizer states live and are updated: none is the "
                 "device, cpu the host, nvme files that the host reads and "
                 "writes")
      ->check(CLI::IsMember({"none", "cpu", "nvme"}))
      ->group(group);
  app.add_option("--offload-ratio", o.offloadRatio,
                 "Share of the optimizer states that is offloaded, 0 to 1, to "
                 "the nearest bucket; default all")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  // Training takes it too, for a bundle.
  if (!app.get_option_no_throw("--nvme-path"))
    app.add_option("--nvme-path", o.nvmePath,
                   "Folder for the files of --offload-optimizer nvme")
        ->group(group);
  app.add_option("--offload-param", s.offloadParam,
                 "Where parameters live between uses: none is the device, cpu "
                 "host memory, from which they are copied ahead of each use")
      ->check(CLI::IsMember({"none", "cpu"}))
      ->group(group);
  app.add_option("--lr", o.lr, "Learning rate")->group(group);
  app.add_option("--beta1", o.beta1, "Adam's first beta")->group(group);
  app.add_option("--beta2", o.beta2, "Adam's second beta")->group(group);
  app.add_option("--eps", o.eps, "Adam's epsilon")->group(group);
  app.add_option("--weight-decay", o.weightDecay, "Weight decay")->group(group);
  app.add_option("--max-grad-norm", o.maxGradNorm,
                 "Largest global gradient norm; 0 is off")
      ->group(group);
  app.add_option("--warmup-steps", o.warmupSteps, "Steps of warm-up")
      ->group(group);
}

/// Takes what `parse` reads; the check of an option.
template <typename T> auto readsAs(rt::Result<T> (*parse)(std::string_view)) {
  return [parse](const std::string &text) {
    rt::Result<T> read = parse(text);
    return read.ok() ? std::string() : read.takeStatus().str();
  };
}

/// The options that make room, or give it up, beyond the file's keys.
void addRoom(CLI::App &app, Settings &s) {
  const char *group = "Memory against time; the training stays the same";
  app.add_option("--recompute", s.recompute,
                 "What the backward computes again instead of keeping it: "
                 "none, block (each block from its input), selective (the "
                 "cheap ops of each block); block:N or selective:N for the "
                 "first N blocks, block:N,selective[:M] for both")
      ->check(readsAs(config::parseRecompute))
      ->group(group);
  app.add_option("--keep-gathered", s.keepGathered,
                 "Blocks, counted from the last, whose backward uses the "
                 "parameters that their forward gathered: none, all or N "
                 "(default: 1, the block of the loss)")
      ->check(readsAs(config::parseBlocks))
      ->group(group);
  app.add_option("--offload-activations", s.offloadActivations,
                 "First blocks whose kept activations wait for the backward in "
                 "host memory: none, all or a number")
      ->check(readsAs(config::parseBlocks))
      ->group(group);
}

void addMachine(CLI::App &app, Settings &s) {
  app.add_option("--machine", s.machine,
                 "Plan for this machine: ciuic-monster, host, or a JSON file; "
                 "gives --devices, --device-memory and --host-memory where "
                 "they are not given");
}

void addCompile(CLI::App &app, Settings &s, bool required) {
  CompileOptions &c = s.compile;
  auto *model =
      app.add_option("--model", c.model,
                     "Hugging Face folder, config.json, or train IR (.mlir)");
  if (required)
    model->required();
  app.add_option("--config", c.config, "DeepSpeed ds_config.json");
  addOverrides(app, s);
  app.add_option("--seq-len", c.sequence,
                 "Tokens a sequence; default the model's maximum or 512, "
                 "whichever is less")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  addMachine(app, s);
  app.add_option("--device-memory", s.deviceMemory,
                 "Memory of each device for the job, such as 40GB; default the "
                 "machine's, or no limit");
  app.add_option("--host-memory", s.hostMemory,
                 "Memory of the host for the job's arenas, such as 512GB; "
                 "default the machine's for all that its processes hold, or no "
                 "limit");
  app.add_option("--processes", c.processes,
                 "Processes that the job will be run with on the host; each "
                 "takes memory of the machine beside its arenas; default 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_flag("--fit", c.fit,
               "Choose what makes the job fit, of all that neither the "
               "command line nor the file says: what costs no time first");
  app.add_option("--nvme-space", s.nvmeSpace,
                 "Room for the files of --offload-optimizer nvme, such as 2TB; "
                 "default the machine's, or no limit");
  app.add_option("--nvme-buffer", s.nvmeBuffer,
                 "Of each state in a file, what is brought to host memory at "
                 "once; default 16MiB");
  addRoom(app, s);
  app.add_option("--prefetch", c.prefetch,
                 "Buckets gathered ahead of the one in use; default 1")
      ->check(CLI::Range(int64_t{0}, int64_t{64}));
  app.add_option("--no-decay", c.noDecay,
                 "Parameters without weight decay: norm, bias, or part of a "
                 "name; separated by commas")
      ->delimiter(',');
  app.add_option("--target", c.target,
                 "What runs the device tasks: cpu (the default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--arch", c.architectures,
                 "GPUs that a bundle for CUDA is made for, such as "
                 "sm_80,sm_90a; default sm_80")
      ->check([](const std::string &text) {
        return text.empty() ? std::string("names no GPU") : std::string();
      });
  app.add_option("--dump", c.dump, "Write the IR of each phase to this folder");
  app.add_option("--remarks", c.remarks,
                 "Print what passes decided; a regular expression of "
                 "categories: train, comm, sched, memory, fit");
  app.add_flag("--timing", c.timing, "Print the seconds of each phase");
  app.add_flag("--strict", c.strict,
               "Keys without effect and unknown keys are errors");
}

bool finishExport(Settings &s) {
  rt::Status status = finishTrainOptions(s.training);
  if (!status.ok())
    report(status);
  return status.ok();
}

bool finishCompile(Settings &s) {
  if (s.devices)
    s.compile.overrides.devices = *s.devices;
  if (s.precision == "fp32")
    s.compile.overrides.precision = config::Precision::Fp32;
  else if (s.precision == "bf16")
    s.compile.overrides.precision = config::Precision::Bf16;
  else if (s.precision == "fp16")
    s.compile.overrides.precision = config::Precision::Fp16;
  if (s.offloadOptimizer == "none")
    s.compile.overrides.offloadOptimizer = config::OffloadDevice::None;
  else if (s.offloadOptimizer == "cpu")
    s.compile.overrides.offloadOptimizer = config::OffloadDevice::Cpu;
  else if (s.offloadOptimizer == "nvme")
    s.compile.overrides.offloadOptimizer = config::OffloadDevice::Nvme;
  config::Overrides &o = s.compile.overrides;
  if (!s.recompute.empty())
    o.recompute = *config::parseRecompute(s.recompute);
  if (!s.keepGathered.empty())
    o.keepGathered = *config::parseBlocks(s.keepGathered);
  if (!s.offloadActivations.empty())
    o.offloadActivations = *config::parseBlocks(s.offloadActivations);
  if (s.offloadParam == "none")
    o.offloadParam = config::OffloadDevice::None;
  else if (s.offloadParam == "cpu")
    o.offloadParam = config::OffloadDevice::Cpu;
  return takeBytes("--device-memory", s.deviceMemory, s.compile.deviceMemory) &&
         takeBytes("--host-memory", s.hostMemory, s.compile.hostMemory) &&
         takeBytes("--nvme-space", s.nvmeSpace, s.compile.nvmeSpace) &&
         takeBytes("--nvme-buffer", s.nvmeBuffer, s.compile.nvmeBuffer);
}

/// Remembers which options of a compilation are given.
void takeGiven(const CLI::App &app, Settings &s) {
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0)
      s.compile.given.push_back(option->get_name());
}

/// What the machine is, where the command line does not say it. Returns the
/// exit code; 0 also without a machine.
int takeMachine(Settings &s) {
  if (s.machine.empty())
    return 0;
  CompileOptions &c = s.compile;
  auto machine =
      machine::findMachine(s.machine, c.overrides.nvmePath.value_or("."));
  if (!machine.ok())
    return report(machine.takeStatus());
  if (!s.devices)
    c.overrides.devices = machine->devices;
  // One memory for all is a limit of its own, unless the parts are given.
  if (machine->shared && s.deviceMemory.empty() && s.hostMemory.empty())
    c.sharedMemory = machine->hostLimit();
  if (s.deviceMemory.empty())
    c.deviceMemory = machine->deviceLimit();
  if (s.hostMemory.empty()) {
    c.hostMemory = machine->hostLimit();
    c.wholeHost = true;
  }
  // The host's is that of the folder at hand, unless files go elsewhere.
  bool isHost = s.machine == "host";
  if (s.nvmeSpace.empty() && (!isHost || c.overrides.nvmePath))
    c.nvmeSpace = machine->diskSpace.value_or(0);
  c.machine = *machine;
  return 0;
}

/// A folder that goes when its owner does.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ciuicc-XXXXXX").string();
    if (const char *made = mkdtemp(pattern.data()))
      path = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// The options among [first, last) of `app`, which only a compilation reads,
/// that are given.
std::string givenOptions(const CLI::App &app, size_t first, size_t last) {
  std::string names;
  auto options = app.get_options();
  for (size_t i = first; i < last && i < options.size(); ++i)
    if (options[i]->count() > 0)
      names += (names.empty() ? "" : ", ") + options[i]->get_name();
  return names;
}

int train(Settings &s, const std::string &compileOptions,
          const std::vector<std::string> &arguments) {
  if (!finishExport(s))
    return 2;
  bool compiles = !s.compile.model.empty();
  if (compiles == !s.training.train.bundle.empty()) {
    std::fprintf(stderr, "ciuicc: error: give either a bundle, or --model and "
                         "--config\n");
    return 2;
  }
  if (!compiles && !compileOptions.empty()) {
    std::fprintf(stderr,
                 "ciuicc: error: %s: of no effect on a bundle, which is "
                 "compiled; give to ciuicc compile, or with --model\n",
                 compileOptions.c_str());
    return 2;
  }
  if (!compiles)
    return runTrainCommand(s.training, arguments);

  // One command from files to weights: the bundle lives as long as the run.
  TemporaryFolder temporary;
  if (temporary.path.empty()) {
    std::perror("ciuicc: error: cannot make a temporary folder");
    return 3;
  }
  s.compile.output = temporary.path + "/bundle";
  if (s.training.train.steps)
    s.compile.overrides.totalSteps =
        static_cast<int64_t>(*s.training.train.steps);
  if (s.training.train.epochs)
    s.compile.overrides.epochs = *s.training.train.epochs;
  if (!s.training.train.disk.folder.empty())
    s.compile.overrides.nvmePath = s.training.train.disk.folder;
  if (!finishCompile(s))
    return 2;
  if (int code = takeMachine(s))
    return code;
  if (int code = runCompile(s.compile))
    return code;
  s.training.train.bundle = s.compile.output;
  std::error_code ignored;
  std::filesystem::path folder = s.compile.model;
  if (s.training.train.weights.empty() && s.training.train.resume.empty() &&
      (std::filesystem::exists(folder / "model.safetensors", ignored) ||
       std::filesystem::exists(folder / "model.safetensors.index.json",
                               ignored)))
    s.training.train.weights = s.compile.model;
  return runTrainCommand(s.training, {});
}

} // namespace

int tool::runCommandLine(int argc, char **argv) {
  Settings s;
  CLI::App app{"ciuicc compiles LLM training jobs: a Hugging Face model and a "
               "DeepSpeed file become a planned, sharded training program."};
  app.set_version_flag("--version", "ciuicc 0.1");
  app.require_subcommand(1);

  CLI::App *compile = app.add_subcommand("compile", "Make a bundle of a job");
  addCompile(*compile, s, /*required=*/true);
  compile->add_option("-o,--output", s.compile.output, "The bundle's folder");
  compile->add_flag("!--no-build", s.compile.build,
                    "Write sources only; build where the bundle will run: "
                    "cmake -S BUNDLE/src -B DIR && cmake --build DIR");
  compile->add_option("--steps", s.compile.overrides.totalSteps,
                      "Steps of the training, where a schedule needs them");
  compile->add_option("--stop-after", s.compile.stopAfter,
                      "Stop after this phase, one of " + phaseNames());
  compile->add_option("--start-from", s.compile.startFrom,
                      "Go on from this phase; --model is the file that the "
                      "phase before it dumped, edited or not");
  compile->footer(
      "Example:\n  ciuicc compile --model llama/ --config ds_config.json "
      "--devices 8 --seq-len 512 -o job");

  CLI::App *training = app.add_subcommand("train", "Run a job");
  training->add_option("bundle", s.training.train.bundle,
                       "The compiled job; or give --model and --config");
  addTrainOptions(*training, s.training);
  size_t ofTrain = training->get_options().size();
  addCompile(*training, s, /*required=*/false);
  size_t ofCompile = training->get_options().size();
  training->footer("Examples:\n  ciuicc train job --data corpus/ --steps 1000 "
                   "--save checkpoints --export trained\n  ciuicc train "
                   "--model llama/ --config ds_config.json --data corpus/");

  CLI::App *inspect = app.add_subcommand("inspect", "Show what a bundle holds");
  inspect->add_option("bundle", s.inspect.bundle, "The compiled job")
      ->required();
  inspect->add_option(
      "what", s.inspect.what,
      "config, memory, schedule, comm, kernels, phase or param");
  inspect->add_option("name", s.inspect.name, "Of the phase or parameter");
  inspect->add_option("--at", s.inspect.at,
                      "Of memory: what is live at this task, by its number or "
                      "name, such as micro_first:120");
  inspect->add_flag("--csv", s.inspect.csv, "Of memory: a line a buffer");
  inspect->footer("Examples:\n  ciuicc inspect job memory\n  ciuicc inspect "
                  "job memory --at micro_first:120 --csv\n  ciuicc inspect "
                  "job phase shard\n  ciuicc inspect job param "
                  "model.layers.0.mlp.up_proj.weight");

  CLI::App *reporting = app.add_subcommand(
      "report", "Show a bundle's memory and schedule as a page for a browser");
  reporting->add_option("bundle", s.bundle, "The compiled job")->required();
  reporting->add_option("-o,--output", s.reportFile, "The HTML file")
      ->required();
  reporting->footer("Example:\n  ciuicc report job -o plan.html");

  CLI::App *configure = app.add_subcommand(
      "config", "Show what a DeepSpeed file means: every key, its value, where "
                "it comes from, what it does");
  configure->add_option("file", s.configFile,
                        "ds_config.json; not needed with --machine");
  addMachine(*configure, s);
  configure->add_option("--model", s.configModel,
                        "Hugging Face folder or config.json, for sizes that "
                        "are \"auto\"");
  addOverrides(*configure, s);
  configure->add_option("--steps", s.compile.overrides.totalSteps,
                        "Steps of the training");
  configure->add_flag("--strict", s.strict,
                      "Keys without effect and unknown keys are errors");
  configure->footer(
      "Examples:\n  ciuicc config ds_config.json --model llama/ --devices 8\n"
      "  ciuicc config --machine ciuic-monster");

  CLI::App *exporting = app.add_subcommand(
      "export", "Make a Hugging Face folder of a checkpoint");
  exporting
      ->add_option("checkpoint", s.checkpoint,
                   "A checkpoint, or a folder of them")
      ->required();
  exporting->add_option("--bundle", s.bundle, "The job it was trained by")
      ->required();
  exporting->add_option("-o,--output", s.exportFolder, "The new folder")
      ->required();
  exporting->add_option("--dtype", s.training.exportDType, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "fp32", "fp16"}));
  addShardSize(*exporting, s.training);
  exporting->footer(
      "Example:\n  ciuicc export checkpoints --bundle job -o trained");

  app.failure_message([&](const CLI::App *, const CLI::Error &error) {
    std::string help = "ciuicc";
    for (const CLI::App *used : app.get_subcommands())
      help += " " + used->get_name();
    return "ciuicc: error: " + std::string(error.what()) + "; " + help +
           " --help says more\n";
  });
  // What is no command at all gets a better answer than "one is required".
  if (argc > 1 && argv[1][0] != '-') {
    std::string names;
    bool known = false;
    for (const CLI::App *command : app.get_subcommands({})) {
      names += (names.empty() ? "" : ", ") + command->get_name();
      known |= command->get_name() == argv[1];
    }
    if (!known) {
      std::fprintf(stderr,
                   "ciuicc: error: no command \"%s\"; the commands are %s\n",
                   argv[1], names.c_str());
      return 2;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*compile) {
    takeGiven(*compile, s);
    if (!finishCompile(s))
      return 2;
    if (int code = takeMachine(s))
      return code;
    return runCompile(s.compile);
  }
  if (*training) {
    takeGiven(*training, s);
    s.training.cudaGiven = givenCudaOptions(*training);
    // What follows the word "train".
    char **given = std::find(argv, argv + argc, std::string("train")) + 1;
    return train(s, givenOptions(*training, ofTrain, ofCompile),
                 {given, argv + argc});
  }
  if (*inspect)
    return runInspect(s.inspect);
  if (*reporting)
    return runReport(s.bundle, s.reportFile);
  if (*configure) {
    if (!finishCompile(s))
      return 2;
    if (s.configFile.empty() && s.machine.empty()) {
      std::fprintf(stderr, "ciuicc: error: give a DeepSpeed file, or a "
                           "--machine, or both\n");
      return 2;
    }
    if (int code = takeMachine(s))
      return code;
    if (s.compile.machine)
      std::fputs(machine::printMachine(*s.compile.machine).c_str(), stdout);
    if (s.configFile.empty())
      return 0;
    return runConfig(s.configFile, s.configModel, s.compile.overrides,
                     s.strict);
  }
  if (!finishExport(s))
    return 2;
  return runExport(s.checkpoint, s.exportFolder, s.bundle,
                   s.training.train.exportDType,
                   s.training.train.exportShardBytes);
}
