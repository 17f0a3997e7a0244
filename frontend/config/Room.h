//===- Room.h - Ways to make room that a job chooses ------------*- C++ -*-===//
//
// What the command line says about memory beyond DeepSpeed's keys, as text and
// as numbers: the texts are flags that a user gives and a message proposes.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_CONFIG_ROOM_H
#define CIUIC_FRONTEND_CONFIG_ROOM_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ciuic::config {

/// As a number of blocks: all that there are.
inline constexpr int64_t kAllBlocks = -1;

/// Which blocks compute what of their forward again in their backward. Blocks
/// are counted from the model's first.
struct RecomputeSpec {
  int64_t whole = 0;     ///< So many first blocks, from their inputs.
  int64_t selective = 0; ///< So many next ones, op by op; the rest keeps all.

  bool operator==(const RecomputeSpec &) const = default;
  bool any() const { return whole != 0 || selective != 0; }
};

/// Reads "none", "block", "selective", "block:N", "selective:N",
/// "block:N,selective" or "block:N,selective:M".
rt::Result<RecomputeSpec> parseRecompute(std::string_view text);

/// The shortest text that parseRecompute() reads as `spec`.
std::string printRecompute(const RecomputeSpec &spec);

/// Reads a number of blocks: "none", "all" or a whole number.
rt::Result<int64_t> parseBlocks(std::string_view text);

/// "none", "all" or the number.
std::string printBlocks(int64_t blocks);

/// Room that costs time: each is exact, none changes what is trained.
struct RoomSettings {
  RecomputeSpec recompute; ///< --recompute

  /// So many last blocks keep what their forward gathered for their backward;
  /// takes room, saves gathers. The last one alone, that of the loss, mostly
  /// takes none: its backward follows at once, and a second gather would hold
  /// the same parameters twice. --keep-gathered
  int64_t keepGathered = 1;

  /// So many first blocks send what they keep for their backward to the host
  /// in between. --offload-activations
  int64_t offloadActivations = 0;
};

} // namespace ciuic::config

#endif // CIUIC_FRONTEND_CONFIG_ROOM_H
