//===- main.cpp - ciuic-train: runs compiled jobs -------------------------===//
//
// `ciuicc train` for machines without the compiler: it needs the runtime
// alone. A bundle for CUDA devices carries the sources of this program and
// builds it as bin/train.
//
//===----------------------------------------------------------------------===//
#include "tools/ciuic-train/Machines.h"
#include "tools/train/RunTrain.h"

#include <CLI/CLI.hpp>
#include <cstdio>

using namespace ciuic;

static constexpr const char *program = "ciuic-train";

int main(int argc, char **argv) {
  tool::prepareProcess();
  tool::TrainSettings settings;
  CLI::App app{"Runs a compiled training job."};
  app.set_version_flag("--version", "ciuic-train 0.1");
  app.add_option("bundle", settings.train.bundle, "The compiled job")
      ->required();
  tool::addTrainOptions(app, settings);
  app.footer("Example:\n  ciuic-train job --data corpus/ --steps 1000 --save "
             "checkpoints --export trained");
  app.failure_message([](const CLI::App *, const CLI::Error &error) {
    return std::string(program) + ": error: " + error.what() + "; " + program +
           " --help says more\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (rt::Status status = tool::finishTrainOptions(settings); !status.ok()) {
    tool::printError(program, status);
    return 2;
  }
  settings.cudaGiven = tool::givenCudaOptions(app);
  return tool::runTrain(program, settings, tool::makeMachine);
}
