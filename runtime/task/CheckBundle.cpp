//===- CheckBundle.cpp - Is a compiled program safe to run? ---------------===//
#include "runtime/task/CheckBundle.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Quote.h"

#include <set>
#include <string>
#include <string_view>

namespace ciuic::rt {
namespace {

/// Larger than any memory; sums and products of two such fit 128 bits.
constexpr uint64_t mostBytes = uint64_t(1) << 46;
constexpr uint32_t mostRanks = 65536;

std::string text(const char *name) { return quote(name ? name : ""); }

Status fail(const std::string &where, const std::string &what) {
  return Status::invalid("compiled program: " + where + ": " + what);
}

class Checker {
public:
  explicit Checker(const abi::Bundle &bundle) : bundle(bundle) {}

  Status check() {
    CIUIC_TRY(checkHead());
    for (uint32_t i = 0; i < bundle.bufferCount; ++i)
      CIUIC_TRY(checkBuffer(i));
    CIUIC_TRY(checkInput("tokens", bundle.tokensBuffer));
    CIUIC_TRY(checkInput("labels", bundle.labelsBuffer));
    for (uint32_t i = 0; i < bundle.bucketCount; ++i)
      CIUIC_TRY(checkBucket(i));
    for (uint32_t i = 0; i < bundle.memberCount; ++i)
      CIUIC_TRY(checkMember(i));
    for (uint32_t i = 0; i < bundle.stateCount; ++i)
      CIUIC_TRY(checkState(i));
    for (uint32_t i = 0; i < bundle.programCount; ++i)
      CIUIC_TRY(checkProgram(bundle.programs[i]));
    return {};
  }

private:
  Status checkHead() {
    if (bundle.version != abi::kVersion)
      return fail("version", "found " + std::to_string(bundle.version) +
                                 ", expected " + std::to_string(abi::kVersion));
    if (bundle.ranks == 0 || bundle.ranks > mostRanks)
      return fail("ranks", "found " + std::to_string(bundle.ranks) +
                               ", expected 1 to " + std::to_string(mostRanks));
    for (uint64_t bytes : bundle.arenaBytes)
      if (bytes > mostBytes)
        return fail("arenas", "an arena of " + std::to_string(bytes) +
                                  " bytes is larger than any memory");
    constexpr int64_t most = int64_t(1) << 31;
    for (int64_t value : {bundle.microBatch, bundle.sequence,
                          bundle.accumulation, bundle.vocabulary})
      if (value <= 0 || value >= most)
        return fail("sizes", "found " + std::to_string(value) +
                                 ", expected a positive number below 2^31");
    if (bundle.microBatch > most / bundle.sequence)
      return fail("sizes", "a micro-step of " +
                               std::to_string(bundle.microBatch) + " x " +
                               std::to_string(bundle.sequence) +
                               " tokens is too large");
    if (bundle.arenaBytes[static_cast<int>(abi::Arena::Nvme)] != 0 &&
        !bundle.disk.folder)
      return fail("head", "no folder for files");
    if (!bundle.isa || !bundle.modelName)
      return fail("head", "no instruction set or model name");
    if (static_cast<unsigned>(bundle.target) >
        static_cast<unsigned>(abi::Target::Cuda))
      return fail("head", "unknown target");
    if (bundle.target == abi::Target::Cuda && !bundle.architectures)
      return fail("head", "no architectures");
    if ((bundle.bufferCount && !bundle.buffers) ||
        (bundle.programCount && !bundle.programs) ||
        (bundle.stateCount && !bundle.states) ||
        (bundle.bucketCount && !bundle.buckets) ||
        (bundle.memberCount && !bundle.members))
      return fail("head", "a table is missing");
    return {};
  }

  Status checkBuffer(uint32_t index) {
    const abi::Buffer &buffer = bundle.buffers[index];
    std::string where = "buffer " + std::to_string(index);
    if (!buffer.name)
      return fail(where, "no name");
    where += " " + text(buffer.name);
    auto arena = static_cast<unsigned>(buffer.arena);
    if (arena >= abi::kArenas)
      return fail(where, "unknown arena " + std::to_string(arena));
    if (buffer.offset % 256 != 0)
      return fail(where, "offset " + std::to_string(buffer.offset) +
                             " is no multiple of 256");
    uint64_t limit = bundle.arenaBytes[arena];
    if (buffer.offset > limit || buffer.bytes > limit - buffer.offset)
      return fail(where, std::to_string(buffer.bytes) + " bytes at offset " +
                             std::to_string(buffer.offset) +
                             " end beyond the arena of " +
                             std::to_string(limit));
    return {};
  }

  Status checkInput(const char *what, int32_t index) {
    if (index < 0 || static_cast<uint32_t>(index) >= bundle.bufferCount)
      return fail(what, "buffer " + std::to_string(index) + " of " +
                            std::to_string(bundle.bufferCount));
    if (bundle.buffers[index].arena == abi::Arena::Nvme)
      return fail(what, "its buffer is in a file");
    uint64_t needed = static_cast<uint64_t>(bundle.microBatch) *
                      static_cast<uint64_t>(bundle.sequence) * 4;
    if (bundle.buffers[index].bytes < needed)
      return fail(what, "its buffer has " +
                            std::to_string(bundle.buffers[index].bytes) +
                            " bytes, expected " + std::to_string(needed));
    return {};
  }

  Status checkView(const std::string &where, const abi::View &view) {
    if (view.buffer >= bundle.bufferCount)
      return fail(where, "buffer " + std::to_string(view.buffer) + " of " +
                             std::to_string(bundle.bufferCount));
    const abi::Buffer &buffer = bundle.buffers[view.buffer];
    uint64_t element = byteSize(view.dtype);
    if (element == 0)
      return fail(where, "unknown element type " +
                             std::to_string(static_cast<int>(view.dtype)));
    if (view.rank > 2)
      return fail(where,
                  "rank " + std::to_string(view.rank) + ", expected at most 2");
    // The last element, in bytes from the buffer's start on rank 0.
    __int128 last = view.offset;
    bool empty = false;
    for (int d = 0; d < 2; ++d) {
      if (view.shape[d] < 0 || view.strides[d] < 0 ||
          static_cast<uint64_t>(view.shape[d]) > mostBytes ||
          static_cast<uint64_t>(view.strides[d]) > mostBytes)
        return fail(where, "shape " + std::to_string(view.shape[d]) +
                               " with stride " +
                               std::to_string(view.strides[d]));
      if (view.rank + d < 2 && view.shape[d] != 1)
        return fail(where, "shape " + std::to_string(view.shape[d]) +
                               " in an unused dimension");
      empty |= view.shape[d] == 0;
      last += static_cast<__int128>(view.shape[d] - 1) * view.strides[d] *
              static_cast<int64_t>(element);
    }
    if (empty)
      last = view.offset;
    else
      last += static_cast<int64_t>(element);
    __int128 shift =
        static_cast<__int128>(view.rankStride) * (bundle.ranks - 1);
    __int128 lowest = static_cast<__int128>(view.offset) +
                      (shift < 0 ? shift : static_cast<__int128>(0));
    __int128 highest = last + (shift > 0 ? shift : static_cast<__int128>(0));
    if (lowest < 0 || highest > buffer.bytes)
      return fail(where, "reaches beyond buffer " + text(buffer.name) + " of " +
                             std::to_string(buffer.bytes) + " bytes");
    if (view.offset % element != 0 ||
        view.rankStride % static_cast<int64_t>(element) != 0)
      return fail(where, "is not aligned to its elements");
    return {};
  }

  Status checkBucket(uint32_t index) {
    const abi::Bucket &bucket = bundle.buckets[index];
    std::string where =
        "bucket " + std::to_string(index) + " " + text(bucket.name);
    if (!bucket.name)
      return fail(where, "no name");
    if (bucket.chunk > mostBytes ||
        bucket.elements != bucket.chunk * bundle.ranks)
      return fail(where, std::to_string(bucket.elements) +
                             " elements are not " +
                             std::to_string(bundle.ranks) + " chunks of " +
                             std::to_string(bucket.chunk));
    return {};
  }

  Status checkInit(const std::string &where, const abi::Init &init) {
    switch (init.kind) {
    case abi::InitKind::Constant:
    case abi::InitKind::Normal:
    case abi::InitKind::Rope:
      return {};
    }
    return fail(where, "unknown initialiser");
  }

  Status checkMember(uint32_t index) {
    const abi::Member &member = bundle.members[index];
    std::string where =
        "parameter " + std::to_string(index) + " " + text(member.name);
    if (!member.name)
      return fail(where, "no name");
    if (!memberNames.insert(member.name).second)
      return fail(where, "appears twice");
    if (member.bucket < 0 ||
        static_cast<uint32_t>(member.bucket) >= bundle.bucketCount)
      return fail(where, "bucket " + std::to_string(member.bucket) + " of " +
                             std::to_string(bundle.bucketCount));
    if (member.rank < 1 || member.rank > 2 || member.shape[0] <= 0 ||
        member.shape[1] <= 0 || (member.rank == 1 && member.shape[1] != 1))
      return fail(where, "its shape is not one or two positive sizes");
    const abi::Bucket &bucket = bundle.buckets[member.bucket];
    __int128 end = static_cast<__int128>(member.shape[0]) * member.shape[1] +
                   member.offset;
    if (end > bucket.elements)
      return fail(where, "ends beyond bucket " + text(bucket.name) + " of " +
                             std::to_string(bucket.elements) + " elements");
    if (member.init.kind == abi::InitKind::Rope)
      return fail(where, "a parameter cannot start as a rotary table");
    return checkInit(where, member.init);
  }

  Status checkState(uint32_t index) {
    const abi::State &state = bundle.states[index];
    std::string where =
        "state " + std::to_string(index) + " " + text(state.name);
    if (!state.name || !state.slot)
      return fail(where, "no name or slot");
    if (!stateNames.insert(state.name).second)
      return fail(where, "appears twice");
    if (static_cast<unsigned>(state.role) >
        static_cast<unsigned>(abi::Role::Scalar))
      return fail(where, "unknown role");
    CIUIC_TRY(checkView(where, state.view));
    if (state.view.rankStride != 0)
      return fail(where, "its storage depends on the rank");
    uint64_t rows = state.view.shape[0], columns = state.view.shape[1];
    bool dense =
        (columns <= 1 || state.view.strides[1] == 1) &&
        (rows <= 1 || static_cast<uint64_t>(state.view.strides[0]) == columns);
    if (!dense)
      return fail(where, "its storage has gaps");
    CIUIC_TRY(checkInit(where, state.init));
    if (state.bucket < -1 ||
        (state.bucket >= 0 &&
         static_cast<uint32_t>(state.bucket) >= bundle.bucketCount))
      return fail(where, "bucket " + std::to_string(state.bucket) + " of " +
                             std::to_string(bundle.bucketCount));
    if (state.bucket < 0)
      return {};
    const abi::Bucket &bucket = bundle.buckets[state.bucket];
    uint64_t expected = state.sharded ? bucket.chunk : bucket.elements;
    if (rows * columns != expected)
      return fail(where, "holds " + std::to_string(rows * columns) +
                             " elements, expected " + std::to_string(expected) +
                             " of bucket " + text(bucket.name));
    if (state.view.dtype == abi::DType::I32 ||
        state.view.dtype == abi::DType::F64)
      return fail(where, "a bucket stores f32, f16 or bf16");
    return {};
  }

  static bool inside(const abi::Range &range, uint32_t count) {
    return range.begin <= range.end && range.end <= count;
  }

  Status checkProgram(const abi::Program &program) {
    if (!program.name)
      return fail("program", "no name");
    std::string where = "program " + text(program.name);
    if (!programNames.insert(program.name).second)
      return fail(where, "appears twice");
    if ((program.taskCount && !program.tasks) ||
        (program.viewCount && !program.views) ||
        (program.waitCount && !program.waits) ||
        (program.intCount && !program.ints) ||
        (program.realCount && !program.reals))
      return fail(where, "a table is missing");
    for (uint32_t i = 0; i < program.viewCount; ++i)
      CIUIC_TRY(
          checkView(where + ": view " + std::to_string(i), program.views[i]));
    for (uint32_t i = 0; i < program.taskCount; ++i)
      CIUIC_TRY(checkTask(program, i, where));
    return {};
  }

  Status checkTask(const abi::Program &program, uint32_t index,
                   const std::string &of) {
    const abi::Task &task = program.tasks[index];
    std::string where = of + ": task " + std::to_string(index);
    if (!task.name)
      return fail(where, "no name");
    where += " " + text(task.name);
    if (static_cast<unsigned>(task.kind) >=
        static_cast<unsigned>(abi::kTaskKinds))
      return fail(where, "unknown kind " +
                             std::to_string(static_cast<int>(task.kind)));
    if (static_cast<unsigned>(task.stream) >= abi::kStreams)
      return fail(where, "unknown stream " +
                             std::to_string(static_cast<int>(task.stream)));
    if (!inside(task.views, program.viewCount) ||
        !inside(task.waits, program.waitCount) ||
        !inside(task.ints, program.intCount) ||
        !inside(task.reals, program.realCount))
      return fail(where, "a range lies outside its table");
    for (uint32_t i = task.waits.begin; i < task.waits.end; ++i)
      if (program.waits[i] >= index)
        return fail(where, "waits for task " +
                               std::to_string(program.waits[i]) +
                               ", which is not earlier");
    if (task.skipView < -1 ||
        (task.skipView >= 0 &&
         static_cast<uint32_t>(task.skipView) >= program.viewCount))
      return fail(where, "is skipped by view " + std::to_string(task.skipView) +
                             " of " + std::to_string(program.viewCount));
    if (task.skipView >= 0) {
      const abi::View &view = program.views[task.skipView];
      if (view.dtype != abi::DType::F32 || view.rank != 0)
        return fail(where, "is skipped by a view that is no f32 scalar");
    }
    bool onGpu = bundle.target == abi::Target::Cuda &&
                 task.stream != abi::Stream::Host &&
                 task.stream != abi::Stream::Disk;
    CIUIC_TRY(checkFiles(program, task, where));
    if ((task.kind == abi::TaskKind::Launch && !onGpu) !=
        (task.kernel != nullptr))
      return fail(where, "a launch of the host has a kernel, other tasks have "
                         "none");
    if (task.launch && !onGpu)
      return fail(where, "has a launcher, and no GPU runs it");
    if (onGpu && task.kind == abi::TaskKind::Launch && !task.launch)
      return fail(where, "a launch of a GPU has no launcher");
    return checkScratch(program, task, where);
  }

  /// Files have no address: what is in them is only copied, as it is.
  Status checkFiles(const abi::Program &program, const abi::Task &task,
                    const std::string &where) {
    auto arenaOf = [&](uint32_t view) {
      return bundle.buffers[program.views[view].buffer].arena;
    };
    if (task.stream != abi::Stream::Disk) {
      bool touches =
          task.skipView >= 0 &&
          arenaOf(static_cast<uint32_t>(task.skipView)) == abi::Arena::Nvme;
      for (uint32_t i = task.views.begin; i < task.views.end; ++i)
        touches |= arenaOf(i) == abi::Arena::Nvme;
      return touches ? fail(where, "touches a file and is not on disk")
                     : Status();
    }
    if (task.kind != abi::TaskKind::Copy ||
        task.views.end - task.views.begin != 2 || task.scratchView != -1)
      return fail(where, "is on disk and is no copy of two views");
    const abi::View &from = program.views[task.views.begin];
    const abi::View &to = program.views[task.views.begin + 1];
    abi::Arena a = bundle.buffers[from.buffer].arena,
               b = bundle.buffers[to.buffer].arena;
    if (!(a == abi::Arena::Nvme && b == abi::Arena::Host) &&
        !(a == abi::Arena::Host && b == abi::Arena::Nvme))
      return fail(where, "is on disk and does not copy between a file and host "
                         "memory");
    for (const abi::View *view : {&from, &to})
      if (view->dtype != from.dtype || view->rank != 1 ||
          view->shape[1] != from.shape[1] || view->strides[1] != 1)
        return fail(where, "is on disk and does not copy a vector as it is");
    if (task.skipView >= 0 &&
        arenaOf(static_cast<uint32_t>(task.skipView)) != abi::Arena::Host)
      return fail(where, "is on disk and skipped by another memory than the "
                         "host's");
    return {};
  }

  Status checkScratch(const abi::Program &program, const abi::Task &task,
                      const std::string &where) {
    if (task.scratchView == -1)
      return {};
    if (task.scratchView < 0 ||
        static_cast<uint32_t>(task.scratchView) >= program.viewCount)
      return fail(where, "has scratch in view " +
                             std::to_string(task.scratchView) + " of " +
                             std::to_string(program.viewCount));
    const abi::View &view = program.views[task.scratchView];
    if (view.rank > 1 || (view.shape[1] > 1 && view.strides[1] != 1))
      return fail(where, "has scratch in a view with rows or gaps");
    return {};
  }

  const abi::Bundle &bundle;
  std::set<std::string_view> memberNames, stateNames, programNames;
};

} // namespace

Status checkBundle(const abi::Bundle &bundle) {
  return Checker(bundle).check();
}

} // namespace ciuic::rt
