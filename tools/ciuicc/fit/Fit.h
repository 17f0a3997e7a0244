//===- Fit.h - Whether a job fits, and what would ---------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_FIT_FIT_H
#define CIUIC_TOOLS_CIUICC_FIT_FIT_H

#include "tools/ciuicc/Commands.h"

namespace ciuic::fit {

/// What was decided about a knob, for a remark.
struct Decision {
  bool chosen;
  std::string text;
};

/// `--fit`: changes `options` so that the job fits, and says what was chosen,
/// what it saves and costs, and what was not needed. Returns the exit code; 0
/// also where nothing is known of the job because it cannot be read, which
/// compiling it will tell.
int chooseWhatFits(tool::CompileOptions &options,
                   std::vector<Decision> &decisions);

/// After a refusal: the nearest jobs that fit, as notes.
void printNearest(const tool::CompileOptions &options);

} // namespace ciuic::fit

#endif // CIUIC_TOOLS_CIUICC_FIT_FIT_H
