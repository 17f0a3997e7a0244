//===- Knobs.h - What can be set to make a job fit --------------*- C++ -*-===//
//
// The table of all settings that change what a job takes and not what it
// computes: how each is asked for on the command line and in a DeepSpeed file,
// who has set it, and to what it may be set instead.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_CIUICC_FIT_KNOBS_H
#define CIUIC_TOOLS_CIUICC_FIT_KNOBS_H

#include "tools/ciuicc/Commands.h"
#include "tools/ciuicc/fit/Search.h"

namespace ciuic::fit {

/// One way in which a knob can be set.
struct Level {
  std::string flags; ///< "--zero-stage 3".
  std::string file;  ///< "\"stage\": 3"; empty: no key of a file says it.
  std::function<void(tool::CompileOptions &)> apply;
};

struct Knob {
  std::string name; ///< "ZeRO stage".
  /// From what the job has, which changes nothing, to what makes most room.
  std::vector<Level> levels;
  std::vector<unsigned> probes; ///< By default all.
  bool spends = false;          ///< Its levels take room and save time.
  /// Who decided it: "--zero-stage", "line 3 of ds.json"; empty: nobody.
  std::string fixedBy;
  bool inFile = false; ///< It is fixed in the file.
  bool given = false;  ///< The command line has a flag of it, alone or too.

  bool fixed() const { return !fixedBy.empty(); }
};

/// What is known of a job before it is compiled.
struct JobFacts {
  const tool::CompileOptions &options;
  const config::ResolvedConfig &resolved;
  size_t firstPhase; ///< Phases before it have run already.
  bool ownsImport;   ///< The batch is not built into the model's IR.
  int64_t blocks;    ///< Of the model; 0: not known.
  bool proposes;     ///< What is found is told, not done.
};

/// The knobs that this job has and that can be set to something else.
std::vector<Knob> findKnobs(const JobFacts &job);

std::vector<Ladder> laddersOf(const std::vector<Knob> &knobs);

/// The options of a job with its knobs set so.
tool::CompileOptions withChoice(tool::CompileOptions options,
                                const std::vector<Knob> &knobs,
                                const Choice &choice);

/// "--zero-stage 3 --recompute block", and what must change in the file:
/// "\"stage\": 3 in line 7 of ds.json".
std::string describe(const std::vector<Knob> &knobs, const Choice &choice);

} // namespace ciuic::fit

#endif // CIUIC_TOOLS_CIUICC_FIT_KNOBS_H
