//===- JobStates.cpp - States in and out, by name and element -------------===//
#include "runtime/abi/Sizes.h"
#include "runtime/abi/Staging.h"
#include "runtime/base/Convert.h"
#include "runtime/base/Philox.h"
#include "runtime/base/Quote.h"
#include "runtime/base/StagedBytes.h"
#include "runtime/job/Fingerprint.h"
#include "runtime/job/Job.h"
#include "runtime/job/RotaryTable.h"
#include "runtime/job/StateElements.h"
#include "runtime/kernels/host/Parallel.h"
#include "runtime/weights/HuggingFace.h"

#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include <tbb/task_arena.h>

namespace ciuic::rt {
namespace {

/// Elements that are converted at a time by one thread.
constexpr uint64_t pieceElements = uint64_t(1) << 16;

/// Elements that each thread reads, converts and stores at a time, so that all
/// of them together stay within what is planned, with as much for zeros.
uint64_t fillElements() {
  auto threads =
      static_cast<uint64_t>(tbb::this_task_arena::max_concurrency()) + 1;
  return std::clamp(abi::kFillStagingBytes / (abi::kFillElementBytes * threads),
                    uint64_t(256), pieceElements);
}

DType fileType(abi::DType dtype) {
  switch (dtype) {
  case abi::DType::F32:
    return DType::F32;
  case abi::DType::F16:
    return DType::F16;
  case abi::DType::BF16:
    return DType::BF16;
  case abi::DType::F64:
    return DType::F64;
  case abi::DType::I32:
    return DType::I32;
  }
  return DType::F32;
}

std::vector<int64_t> shapeOf(const abi::Member &member) {
  if (member.rank == 1)
    return {member.shape[0]};
  return {member.shape[0], member.shape[1]};
}

/// The first error of pieces that run at the same time.
class FirstError {
public:
  void add(Status error) {
    if (error.ok())
      return;
    std::scoped_lock lock(mutex);
    if (status.ok())
      status = std::move(error);
  }
  Status take() { return std::move(status); }

private:
  std::mutex mutex;
  Status status;
};

/// Calls fn(begin, end) for pieces of [0, count) on all threads.
template <typename Fn> Status forPieces(uint64_t count, const Fn &fn) {
  FirstError error;
  parallelChunks(
      static_cast<int64_t>(count), static_cast<int64_t>(fillElements()),
      [&](int64_t begin, int64_t end) {
        error.add(fn(static_cast<uint64_t>(begin), static_cast<uint64_t>(end)));
      });
  return error.take();
}

/// `value` as the one element of a view: at most 8 bytes.
std::array<std::byte, 8> scalarBytes(abi::DType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  if (dtype == abi::DType::I32) {
    auto whole = static_cast<int32_t>(
        std::isfinite(value) ? std::clamp(value, -2147483648.0, 2147483647.0)
                             : 0.0);
    std::memcpy(bytes.data(), &whole, sizeof(whole));
  } else {
    auto single = static_cast<float>(value);
    if (dtype == abi::DType::F64)
      std::memcpy(bytes.data(), &value, sizeof(value));
    else
      (void)convertElements(DType::F32, &single, fileType(dtype), bytes.data(),
                            1);
  }
  return bytes;
}

/// The value of one element.
double scalarOf(abi::DType dtype, const std::array<std::byte, 8> &bytes) {
  if (dtype == abi::DType::I32) {
    int32_t whole = 0;
    std::memcpy(&whole, bytes.data(), sizeof(whole));
    return whole;
  }
  double value = 0;
  (void)convertElements(fileType(dtype), bytes.data(), DType::F64, &value, 1);
  return value;
}

} // namespace

//===----------------------------------------------------------------------===//
// Finding states
//===----------------------------------------------------------------------===//

const abi::State *Job::findState(std::string_view name) const {
  for (uint32_t i = 0; i < tables->stateCount; ++i)
    if (name == tables->states[i].name)
      return &tables->states[i];
  return nullptr;
}

std::vector<const abi::State *> Job::statesOf(int32_t bucket, abi::Role role,
                                              std::string_view slot) const {
  std::vector<const abi::State *> found;
  for (uint32_t i = 0; i < tables->stateCount; ++i) {
    const abi::State &state = tables->states[i];
    if (state.bucket == bucket && state.role == role &&
        (slot.empty() || slot == state.slot))
      found.push_back(&state);
  }
  return found;
}

const abi::State *Job::weightState(int32_t bucket) const {
  for (abi::Role role : {abi::Role::Master, abi::Role::Parameter}) {
    auto states = statesOf(bucket, role);
    if (!states.empty())
      return states.front();
  }
  return nullptr;
}

std::vector<std::string> Job::momentSlots(int32_t bucket) const {
  std::vector<std::string> slots;
  for (const abi::State *state : statesOf(bucket, abi::Role::Moment))
    slots.push_back(state->slot);
  return slots;
}

Result<std::optional<double>> Job::scalar(std::string_view name,
                                          std::optional<uint32_t> rank) const {
  const abi::State *state = findState(name);
  if (!state || elementsOf(*state) != 1)
    return std::optional<double>();
  std::array<std::byte, 8> bytes{};
  CIUIC_TRY(machine->read(state->view, rank.value_or(ranks.first), 0, 1,
                          bytes.data()));
  return std::optional<double>(scalarOf(state->view.dtype, bytes));
}

Status Job::writeScalar(const abi::State &state, double value) {
  auto bytes = scalarBytes(state.view.dtype, value);
  for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank)
    CIUIC_TRY(machine->write(state.view, rank, 0, 1, bytes.data()));
  return {};
}

//===----------------------------------------------------------------------===//
// Members of buckets
//===----------------------------------------------------------------------===//

namespace {

/// The part of bucket elements [begin, end) that a rank stores.
struct Part {
  uint64_t begin, end; ///< Bucket elements.
  uint64_t at;         ///< In the rank's storage, in elements.
};

Part partOn(const abi::State &state, uint32_t rank, uint64_t begin,
            uint64_t end) {
  uint64_t held = elementsOf(state);
  uint64_t first = state.sharded ? rank * held : 0;
  begin = std::max(begin, first);
  end = std::max(begin, std::min(end, first + held));
  return {begin, end, begin - first};
}

} // namespace

Status Job::writeFloats(const abi::State &state, uint32_t rank, uint64_t first,
                        uint64_t count, const float *values) {
  if (state.view.dtype == abi::DType::F32)
    return machine->write(state.view, rank, first, count, values);
  std::vector<std::byte> staged(count * byteSize(state.view.dtype));
  StagedBytes counted(staged.size());
  CIUIC_TRY(convertElements(DType::F32, values, fileType(state.view.dtype),
                            staged.data(), count));
  return machine->write(state.view, rank, first, count, staged.data());
}

Status Job::readFloats(const abi::State &state, uint32_t rank, uint64_t first,
                       uint64_t count, float *out) const {
  if (state.view.dtype == abi::DType::F32)
    return machine->read(state.view, rank, first, count, out);
  std::vector<std::byte> staged(std::min(count, pieceElements) *
                                byteSize(state.view.dtype));
  StagedBytes counted(staged.size());
  for (uint64_t done = 0; done < count;) {
    uint64_t piece = std::min(count - done, pieceElements);
    CIUIC_TRY(
        machine->read(state.view, rank, first + done, piece, staged.data()));
    CIUIC_TRY(convertElements(fileType(state.view.dtype), staged.data(),
                              DType::F32, out + done, piece));
    done += piece;
  }
  return {};
}

Status Job::writeMember(const abi::Member &member,
                        const std::vector<const abi::State *> &states,
                        const ReadElements &read) {
  return forPieces(
      elementsOf(member), [&](uint64_t begin, uint64_t end) -> Status {
        uint64_t first = member.offset + begin, last = member.offset + end;
        std::vector<float> values;
        std::optional<StagedBytes> counted;
        for (const abi::State *state : states)
          for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank) {
            Part part = partOn(*state, rank, first, last);
            if (part.begin >= part.end)
              continue;
            // Pieces that are stored elsewhere are not even read.
            if (values.empty()) {
              values.resize(end - begin);
              counted.emplace(values.size() * sizeof(float));
              CIUIC_TRY(read(begin, end, values.data()));
            }
            CIUIC_TRY(writeFloats(*state, rank, part.at, part.end - part.begin,
                                  values.data() + (part.begin - first)));
          }
        return {};
      });
}

Status Job::readLocal(const abi::Member &member, const abi::State &state,
                      uint64_t begin, uint64_t end, float *out) const {
  uint64_t first = member.offset + begin, last = member.offset + end;
  uint32_t copies = state.sharded ? ranks.count : 1;
  for (uint32_t rank = ranks.first; rank < ranks.first + copies; ++rank) {
    Part part = partOn(state, rank, first, last);
    if (part.begin >= part.end)
      continue;
    CIUIC_TRY(readFloats(state, rank, part.at, part.end - part.begin,
                         out + (part.begin - first)));
  }
  return {};
}

Status Job::readParameter(size_t member, uint64_t begin, uint64_t end,
                          float *out) const {
  if (member >= tables->memberCount)
    return Status::invalid("no parameter " + std::to_string(member));
  const abi::Member &which = tables->members[member];
  const abi::State *state = weightState(which.bucket);
  if (!state || begin > end || end > elementsOf(which))
    return Status::invalid("parameter " + quote(which.name) +
                           " is not stored, or not that large");
  return readMember(which, *state, begin, end, out);
}

//===----------------------------------------------------------------------===//
// First values
//===----------------------------------------------------------------------===//

Status Job::initializeState(const abi::State &state, uint64_t seed) {
  uint64_t count = elementsOf(state);
  if (count == 1 && state.init.kind == abi::InitKind::Constant)
    return writeScalar(state, state.init.reals[0]);
  bool whole = state.view.dtype == abi::DType::I32;
  if (whole && state.init.kind != abi::InitKind::Constant)
    return Status::invalid("state " + quote(state.name) +
                           ": integers start as a constant");
  uint64_t stream = hashName(state.name);
  return forPieces(
             count,
             [&](uint64_t begin, uint64_t end) -> Status {
               if (whole) {
                 std::vector<int32_t> values(
                     end - begin, static_cast<int32_t>(state.init.reals[0]));
                 StagedBytes counted(values.size() * sizeof(int32_t));
                 return writeToAll(state, begin, end - begin, values.data());
               }
               std::vector<float> values(
                   end - begin, static_cast<float>(state.init.reals[0]));
               if (state.init.kind == abi::InitKind::Normal)
                 fillNormal(seed, stream, begin, end, 0, state.init.reals[0],
                            values.data());
               if (state.init.kind == abi::InitKind::Rope)
                 CIUIC_TRY(fillRotary(
                     state.init, static_cast<uint64_t>(state.view.shape[1]),
                     begin, end, values.data()));
               std::vector<std::byte> staged(values.size() *
                                             byteSize(state.view.dtype));
               StagedBytes counted(values.size() * sizeof(float) +
                                   staged.size());
               CIUIC_TRY(convertElements(DType::F32, values.data(),
                                         fileType(state.view.dtype),
                                         staged.data(), values.size()));
               return writeToAll(state, begin, end - begin, staged.data());
             })
      .during([&] { return "initialising state " + quote(state.name); });
}

Status Job::writeToAll(const abi::State &state, uint64_t first, uint64_t count,
                       const void *data) {
  for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank)
    CIUIC_TRY(machine->write(state.view, rank, first, count, data));
  return {};
}

Status Job::initialize(uint64_t seed) {
  const std::vector<std::byte> zeros(fillElements() * sizeof(double));
  StagedBytes counted(zeros.size());
  for (uint32_t i = 0; i < tables->stateCount; ++i) {
    const abi::State &state = tables->states[i];
    if (state.bucket < 0) {
      CIUIC_TRY(initializeState(state, seed));
      continue;
    }
    // Padding must be zero in every bucket, and moments start so.
    CIUIC_TRY(forPieces(elementsOf(state), [&](uint64_t begin, uint64_t end) {
      return writeToAll(state, begin, end - begin, zeros.data());
    }));
  }
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    uint64_t stream = hashName(member.name);
    CIUIC_TRY(writeWeights(
        member, [&](uint64_t begin, uint64_t end, float *out) -> Status {
          if (member.init.kind == abi::InitKind::Normal)
            fillNormal(seed, stream, begin, end, 0, member.init.reals[0], out);
          else
            std::fill_n(out, end - begin,
                        static_cast<float>(member.init.reals[0]));
          return {};
        }));
  }
  return {};
}

Status Job::writeWeights(const abi::Member &member, const ReadElements &read) {
  auto states = statesOf(member.bucket, abi::Role::Parameter);
  for (const abi::State *state : statesOf(member.bucket, abi::Role::Master))
    states.push_back(state);
  return writeMember(member, states, read).during([&] {
    return "filling parameter " + quote(member.name);
  });
}

Status Job::loadWeights(const std::string &path) {
  CIUIC_TRY_ASSIGN(HuggingFaceFolder folder, HuggingFaceFolder::open(path));
  for (uint32_t i = 0; i < tables->memberCount; ++i)
    CIUIC_TRY(
        folder.expect(tables->members[i].name, shapeOf(tables->members[i])));
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    CIUIC_TRY(
        writeWeights(member, [&](uint64_t begin, uint64_t end, float *out) {
          return folder.read(member.name, begin, end, DType::F32, out);
        }));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Checkpoints and exports
//===----------------------------------------------------------------------===//

std::string Job::fingerprint() const {
  std::string text;
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    text += std::string(member.name) + shapeString(shapeOf(member)) + ";";
  }
  return printHash(hashName(text));
}

Result<std::map<std::string, double>> Job::scalars() const {
  std::map<std::string, double> values;
  for (uint32_t i = 0; i < tables->stateCount; ++i) {
    const abi::State &state = tables->states[i];
    if (state.role != abi::Role::Scalar || state.bucket >= 0)
      continue;
    CIUIC_TRY_ASSIGN(std::optional<double> value, scalar(state.name));
    if (value)
      values[state.name] = *value;
  }
  return values;
}

TensorSource Job::sourceOf(const abi::Member &member, const abi::State &state,
                           DType dtype) const {
  TensorSource source;
  source.name = member.name;
  source.dtype = dtype;
  source.shape = shapeOf(member);
  source.fillDType = DType::F32;
  source.fill = [this, &member, &state](uint64_t begin, uint64_t end,
                                        void *out) {
    return readMember(member, state, begin, end, static_cast<float *>(out));
  };
  return source;
}

void Job::addTo(CheckpointWriter &writer) {
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    // Weights are kept as f32 under one role, so that a run resumes in
    // another precision too.
    if (const abi::State *state = weightState(member.bucket))
      writer.add("parameter", sourceOf(member, *state, DType::F32));
    for (const std::string &slot : momentSlots(member.bucket))
      writer.add(
          slot,
          sourceOf(member,
                   *statesOf(member.bucket, abi::Role::Moment, slot).front(),
                   DType::F32));
  }
}

Status Job::checkCheckpoint(const CheckpointReader &reader) const {
  std::vector<ExpectedTensor> expected;
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    if (weightState(member.bucket))
      expected.push_back({{"parameter", member.name}, shapeOf(member)});
    for (const std::string &slot : momentSlots(member.bucket))
      expected.push_back({{slot, member.name}, shapeOf(member)});
  }
  CIUIC_TRY(reader.check(expected, fingerprint()));
  return reader.verify(group->process(), group->processes());
}

Status Job::resume(const CheckpointReader &reader) {
  CIUIC_TRY(checkCheckpoint(reader));
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    auto read = [&](const std::string &role) -> ReadElements {
      return [&reader, role, &member](uint64_t begin, uint64_t end,
                                      float *out) {
        return reader.read({role, member.name}, begin, end, DType::F32, out);
      };
    };
    if (weightState(member.bucket))
      CIUIC_TRY(writeWeights(member, read("parameter")));
    for (const std::string &slot : momentSlots(member.bucket))
      CIUIC_TRY(writeMember(member,
                            statesOf(member.bucket, abi::Role::Moment, slot),
                            read(slot)));
  }
  // Scalars that the checkpoint has not (a loss scale, say, of a run that had
  // none) stay as they were initialised; so does a scale that is fixed, here
  // or there: only a dynamic one was found out by the run.
  const auto &scalars = reader.state().scalars;
  bool dynamicScale =
      findState("scaler.iteration") && scalars.count("scaler.iteration");
  for (const auto &[name, value] : scalars) {
    const abi::State *state = findState(name);
    if (!state || state->role != abi::Role::Scalar || state->bucket >= 0 ||
        elementsOf(*state) != 1 || (name == "loss_scale" && !dynamicScale))
      continue;
    CIUIC_TRY(writeScalar(*state, value));
  }
  return {};
}

Status Job::exportFolder(const std::string &folder,
                         const std::string &configJson, DType dtype,
                         uint64_t maxShardBytes) {
  std::vector<TensorSource> sources;
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    const abi::State *state = weightState(member.bucket);
    if (!state)
      return Status::invalid("parameter " + quote(member.name) +
                             " is not stored");
    sources.push_back(sourceOf(member, *state, dtype));
  }
  return collectStates([&] {
    return exportHuggingFace(folder, configJson, sources, maxShardBytes);
  });
}

Status Job::exportCheckpoint(const CheckpointReader &reader,
                             const std::string &folder,
                             const std::string &configJson, DType dtype,
                             uint64_t maxShardBytes) const {
  CIUIC_TRY(checkCheckpoint(reader));
  std::vector<TensorSource> sources;
  for (uint32_t i = 0; i < tables->memberCount; ++i) {
    const abi::Member &member = tables->members[i];
    CheckpointKey key{"parameter", member.name};
    if (!reader.find(key))
      return Status::invalid("parameter " + quote(member.name) +
                             " is not stored");
    TensorSource source;
    source.name = member.name;
    source.dtype = dtype;
    source.shape = shapeOf(member);
    source.fillDType = DType::F32;
    source.fill = [&reader, key](uint64_t begin, uint64_t end, void *out) {
      return reader.read(key, begin, end, DType::F32, out);
    };
    sources.push_back(std::move(source));
  }
  return exportHuggingFace(folder, configJson, sources, maxShardBytes);
}

} // namespace ciuic::rt
