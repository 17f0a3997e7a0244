//===- Job.h - A compiled training job with its memory ----------*- C++ -*-===//
//
// Loads a bundle's library, allocates its arenas, gives its states their first
// values and runs its steps. Parameters and moments go in and out by Hugging
// Face name and global element, whatever the layout.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_JOB_JOB_H
#define CIUIC_RUNTIME_JOB_JOB_H

#include "runtime/abi/Program.h"
#include "runtime/base/DType.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/comm/ProcessGroup.h"
#include "runtime/data/BatchLoader.h"
#include "runtime/task/Machine.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ciuic::rt {

/// What runs a job, and how.
struct JobOptions {
  MachineFactory makeMachine;
  MachineOptions machine = {};
};

/// The mean loss over labelled tokens, and how many there were.
struct EvalResult {
  double loss = 0;
  double tokens = 0;
};

class Job {
public:
  /// Opens `folder`/lib/libjob.so.
  static Result<std::unique_ptr<Job>> load(const std::string &folder,
                                           const JobOptions &options);

  /// From tables in memory, which must outlive the job.
  static Result<std::unique_ptr<Job>> create(const abi::Bundle &bundle,
                                             const JobOptions &options);
  ~Job();

  const abi::Bundle &bundle() const { return *tables; }
  Machine &devices() { return *machine; }

  //===--- States ---------------------------------------------------------===//

  /// Every state as its initialiser says; normals drawn from `seed`.
  Status initialize(uint64_t seed);

  /// Parameters (and masters) from a Hugging Face folder, after initialize().
  /// Code::Invalid unless it has each parameter in its shape.
  Status loadWeights(const std::string &path);

  /// Adds all that a resumed run needs.
  void addTo(CheckpointWriter &writer);

  /// Process 0 calls `body`, which may read the states of all ranks piece by
  /// piece; the other processes hand theirs to it until it is done.
  Status collectStates(const std::function<Status()> &body);

  /// The scalar states by name, for RunState::scalars.
  Result<std::map<std::string, double>> scalars() const;

  /// Parameters, moments and scalars from a checkpoint, after initialize().
  Status resume(const CheckpointReader &reader);

  /// Identifies the model: names and shapes of its parameters.
  std::string fingerprint() const;

  /// Writes a folder that transformers opens, in files of at most
  /// `maxShardBytes` where no single tensor is larger. Process 0 writes.
  Status exportFolder(const std::string &folder, const std::string &configJson,
                      DType dtype, uint64_t maxShardBytes = 5000000000);

  /// The same of what a checkpoint holds, straight from its files: the states
  /// of this job need not be there.
  Status exportCheckpoint(const CheckpointReader &reader,
                          const std::string &folder,
                          const std::string &configJson, DType dtype,
                          uint64_t maxShardBytes) const;

  /// The value of a scalar state on a rank of this process, the first if not
  /// said; none of that name: nullopt.
  Result<std::optional<double>> scalar(std::string_view name,
                                       std::optional<uint32_t> rank = {}) const;

  /// Elements [begin, end) of a parameter in f32: its master copy where there
  /// is one. What other processes store only within collectStates().
  Status readParameter(size_t member, uint64_t begin, uint64_t end,
                       float *out) const;

  //===--- Steps ----------------------------------------------------------===//

  /// One optimizer step on the given global batch, to its end.
  Status step(const BatchLoader &loader, uint64_t dataStep);

  /// The loss over all batches of a loader of one micro-step a batch, the same
  /// in all processes; the states are left as they are.
  Result<EvalResult> evaluate(const BatchLoader &loader);

  BatchLayout batchLayout() const;

private:
  using ReadElements =
      std::function<Status(uint64_t begin, uint64_t end, float *out)>;

  Job() = default;
  Status prepare(const JobOptions &options);
  Status checkInputs() const;
  Status fillInputs(const BatchLoader &loader, uint64_t dataStep,
                    int64_t microStep);

  const abi::State *findState(std::string_view name) const;
  std::vector<const abi::State *> statesOf(int32_t bucket, abi::Role role,
                                           std::string_view slot = "") const;
  /// The f32 truth of a bucket's parameters: master, else parameter.
  const abi::State *weightState(int32_t bucket) const;
  std::vector<std::string> momentSlots(int32_t bucket) const;

  Status writeFloats(const abi::State &state, uint32_t rank, uint64_t first,
                     uint64_t count, const float *values);
  Status readFloats(const abi::State &state, uint32_t rank, uint64_t first,
                    uint64_t count, float *out) const;
  /// Elements in the state's own type, to every rank here.
  Status writeToAll(const abi::State &state, uint64_t first, uint64_t count,
                    const void *data);
  Status writeScalar(const abi::State &state, double value);
  Status initializeState(const abi::State &state, uint64_t seed);
  Status writeMember(const abi::Member &member,
                     const std::vector<const abi::State *> &states,
                     const ReadElements &read);
  /// To the parameter and master states of the member's bucket.
  Status writeWeights(const abi::Member &member, const ReadElements &read);
  TensorSource sourceOf(const abi::Member &member, const abi::State &state,
                        DType dtype) const;
  Status readMember(const abi::Member &member, const abi::State &state,
                    uint64_t begin, uint64_t end, float *out) const;
  /// As readMember, on the ranks of this process alone.
  Status readLocal(const abi::Member &member, const abi::State &state,
                   uint64_t begin, uint64_t end, float *out) const;
  /// What other processes store of elements, as the one that asks or another.
  Status exchangeElements(const abi::Member &member, const abi::State &state,
                          uint64_t begin, uint64_t end, float *out) const;
  Status serveStates();
  /// Code::Invalid unless a checkpoint is whole and fits this job.
  Status checkCheckpoint(const CheckpointReader &reader) const;
  bool isAlone() const { return group->processes() == 1; }

  struct Library;
  std::unique_ptr<Library> library;
  const abi::Bundle *tables = nullptr;
  std::unique_ptr<ProcessGroup> alone; ///< Where no group is given.
  ProcessGroup *group = nullptr;
  std::unique_ptr<Machine> machine;
  RankRange ranks;                     ///< Of this process.
  std::vector<int32_t> tokens, labels; ///< Of one rank's micro-step.
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_JOB_H
