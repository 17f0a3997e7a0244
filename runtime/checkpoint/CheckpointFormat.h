//===- CheckpointFormat.h - What writer and reader share --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_CHECKPOINT_CHECKPOINTFORMAT_H
#define CIUIC_RUNTIME_CHECKPOINT_CHECKPOINTFORMAT_H

#include <cstdint>

namespace ciuic::rt {

constexpr const char *checkpointFormat = "ciuicc checkpoint";
/// Version 1 had no checksums of its files; it can still be read.
constexpr uint64_t checkpointVersion = 2;
constexpr uint64_t oldestCheckpointVersion = 1;
constexpr const char *stateFileName = "state.json";
constexpr const char *latestFileName = "latest";
constexpr const char *stepPrefix = "step-";

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_CHECKPOINT_CHECKPOINTFORMAT_H
