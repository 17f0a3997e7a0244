//===- RunTrain.h - One training run, from options to exit code -*- C++ -*-===//
#ifndef CIUIC_TOOLS_TRAIN_RUNTRAIN_H
#define CIUIC_TOOLS_TRAIN_RUNTRAIN_H

#include "tools/train/TrainOptions.h"

namespace ciuic::tool {

/// What a bundle's manifest.json says about running it.
struct Manifest {
  bool cuda = false;
  uint64_t deviceMemory = 0; ///< Bytes; 0: no limit.
  bool wallClockBreakdown = false;
  uint64_t stepsPerPrint = 1;
};

/// Code::Invalid where `bundle` is no bundle.
rt::Result<Manifest> readManifest(const std::string &bundle);

/// Trains; where the options are silent the manifest speaks. Errors are
/// printed as `program`: error: ...; returns the exit code.
int runTrain(const char *program, const TrainSettings &settings,
             const rt::MachineFactory &makeMachine);

/// Prints "PROGRAM: error: ..." and returns the status's exit code.
int printError(const char *program, const rt::Status &status);

/// What a command does first. A caller may have closed standard input, output
/// or errors: the next file opened, a log say, would take the free number and
/// get what is printed, so they become /dev/null. And who writes beyond the
/// user's limit on the size of files gets an error to tell, and no signal.
void prepareProcess();

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_TRAIN_RUNTRAIN_H
