//===- Checkpoint.h - Saving and resuming a training run --------*- C++ -*-===//
//
// A checkpoint is keyed by tensor name, role and global element, never by
// bucket or rank: any layout reads what any other wrote. On the disk:
//
//   ROOT/latest            the name of the newest complete checkpoint
//   ROOT/step-N/state.json counters, scalars, the lists of files with their
//                          checksums and of tensors
//   ROOT/step-N/ROLE-00001-of-00002.safetensors ...
//
// A checkpoint is written to ROOT/.saving and renamed when it is complete and
// on the disk; `latest` is replaced after that. One run at a time may save
// into a ROOT.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define CIUIC_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/base/Checksum.h"
#include "runtime/weights/SafeTensors.h"

#include <map>
#include <memory>

namespace ciuic::rt {

/// The counters and scalars of a run.
struct RunState {
  uint64_t format = 0;       ///< Version of the file it was read from.
  uint64_t step = 0;         ///< Steps taken, skipped ones included.
  uint64_t appliedSteps = 0; ///< Updates made to the parameters.
  uint64_t skippedSteps = 0; ///< Updates left out for inf or NaN.
  uint64_t dataStep = 0;     ///< The batch loader's next step.
  uint64_t epoch = 0;        ///< For people; follows from dataStep.
  uint64_t seed = 0;
  /// Identifies the model: its shapes and what changes its mathematics.
  std::string fingerprint;
  /// Loss scale, scheduler state and the like; bit-exact, inf and NaN too.
  std::map<std::string, double> scalars;
};

/// Names a tensor of a checkpoint. The role says what it is for its parameter:
/// "parameter", "master", "moment1", "moment2", ...
struct CheckpointKey {
  std::string role;
  std::string name;
  auto operator<=>(const CheckpointKey &) const = default;
};

/// A tensor that a resuming run needs.
struct ExpectedTensor {
  CheckpointKey key;
  std::vector<int64_t> shape;
};

/// Collects what a checkpoint holds, then writes it.
class CheckpointWriter {
public:
  /// `root` is made if need be.
  explicit CheckpointWriter(std::string root,
                            uint64_t maxShardBytes = uint64_t(4) << 30)
      : root(std::move(root)), maxShardBytes(maxShardBytes) {}

  /// `source.fill` is called in save(), a piece of elements at a time. Roles
  /// are made of a-z, 0-9 and '_'.
  void add(std::string role, TensorSource source) {
    sources.push_back({std::move(role), std::move(source)});
  }

  /// Writes ROOT/step-N for N = state.step and points `latest` at it; returns
  /// its path. On failure the earlier checkpoints and `latest` are as they
  /// were, and nothing is left of this one.
  Result<std::string> save(const RunState &state);

private:
  struct Source {
    std::string role;
    TensorSource tensor;
  };

  Status writeFiles(const std::string &folder, const RunState &state);

  std::string root;
  uint64_t maxShardBytes;
  std::vector<Source> sources;
};

/// An open checkpoint. Reading is const and safe from many threads.
class CheckpointReader {
public:
  /// `path` is a checkpoint's own folder, or a ROOT with `latest`.
  static Result<CheckpointReader> open(const std::string &path);

  const std::string &folder() const { return path; }
  const RunState &state() const { return run; }
  std::vector<CheckpointKey> keys() const;

  /// Null if there is none.
  const StoredTensor *find(const CheckpointKey &key) const;

  /// Code::Invalid unless the checkpoint holds exactly the expected tensors
  /// in the expected shapes, and the fingerprint is equal (an empty one is
  /// not compared). The message names what is missing, extra and different.
  Status check(const std::vector<ExpectedTensor> &expected,
               const std::string &fingerprint) const;

  /// Code::Invalid unless each file of tensors is as it was written, by its
  /// checksum. Of several processes each looks at some of the files.
  Status verify(uint32_t process = 0, uint32_t processes = 1) const;

  /// Elements [begin, end) of the flattened tensor, converted to `to`.
  Status read(const CheckpointKey &key, uint64_t begin, uint64_t end, DType to,
              void *out) const;

private:
  struct Place {
    size_t file;
    const StoredTensor *tensor;
  };

  CheckpointReader() = default;
  Status parse();

  std::string path;
  RunState run;
  std::vector<std::unique_ptr<SafeTensorsReader>> files;
  std::map<CheckpointKey, Place> places;
  std::map<std::string, FileChecksum> checksums; ///< By file; version 1: none.
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_CHECKPOINT_CHECKPOINT_H
