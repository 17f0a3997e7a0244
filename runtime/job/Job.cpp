//===- Job.cpp - Loading a bundle and running its steps -------------------===//
#include "runtime/job/Job.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/File.h"
#include "runtime/base/Quote.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/task/CheckBundle.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>

namespace ciuic::rt {

/// An open shared library.
struct Job::Library {
  void *handle = nullptr;
  ~Library() {
    if (handle)
      dlclose(handle);
  }
};

/// Fails for a library of which the end is missing: a process that loaded it
/// would be killed at the first access to what is not there.
static Status checkWholeLibrary(const std::string &path) {
  CIUIC_TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  std::span<const std::byte> bytes = file.bytes();
  auto fits = [&](uint64_t offset, uint64_t length) {
    return offset <= bytes.size() && length <= bytes.size() - offset;
  };
  auto broken = [&](const char *what) {
    return Status::invalid(path + ": cannot load the compiled job: " + what);
  };
  Elf64_Ehdr header;
  if (!fits(0, sizeof(header)))
    return broken("file too short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return broken("it is no shared library");
  // The sections' table is the last thing in a file.
  if (!fits(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)) ||
      !fits(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize))
    return broken("its end is missing");
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment,
                bytes.data() + header.e_phoff + i * sizeof(Elf64_Phdr),
                sizeof(segment));
    if (segment.p_type == PT_LOAD && !fits(segment.p_offset, segment.p_filesz))
      return broken("its end is missing");
  }
  return {};
}

Job::~Job() {
  // Graphs hold the library's kernels.
  machine.reset();
}

Result<std::unique_ptr<Job>> Job::load(const std::string &folder,
                                       const JobOptions &options) {
  std::unique_ptr<Job> job(new Job());
  job->library = std::make_unique<Library>();
  std::string path = folder + "/lib/libjob.so";
  CIUIC_TRY(checkWholeLibrary(path));
  // A path with a slash is never searched for.
  if (path.find('/') == 0 || path.find("./") == 0)
    job->library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  else
    job->library->handle = dlopen(("./" + path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!job->library->handle)
    return Status::invalid(
        path + ": cannot load the compiled job: " + std::string(dlerror()));
  auto entry = reinterpret_cast<abi::EntryPointFn>(
      dlsym(job->library->handle, abi::kEntryPoint));
  if (!entry)
    return Status::invalid(path + ": no compiled job: it does not export " +
                           quote(abi::kEntryPoint));
  job->tables = entry();
  if (!job->tables)
    return Status::invalid(path + ": the compiled job is empty");
  CIUIC_TRY(job->prepare(options).during([&] { return "loading " + path; }));
  return job;
}

Result<std::unique_ptr<Job>> Job::create(const abi::Bundle &bundle,
                                         const JobOptions &options) {
  std::unique_ptr<Job> job(new Job());
  job->tables = &bundle;
  CIUIC_TRY(job->prepare(options));
  return job;
}

Status Job::prepare(const JobOptions &options) {
  // The version first: another one may mean other records.
  if (tables->version != abi::kVersion)
    return Status::invalid(
        "compiled for version " + std::to_string(tables->version) +
        " of the runtime, this is version " + std::to_string(abi::kVersion) +
        ": compile it again");
  if (!tables->isa || !processorRuns(tables->isa))
    return Status::invalid("compiled for the instruction set " +
                           quote(tables->isa ? tables->isa : "") +
                           ", this processor runs " + quote(processorIsa()) +
                           ": compile it on this machine");
  if (!processorRuns("x86-64-v3"))
    return Status::machine("this processor has no AVX2, which the runtime "
                           "needs");
  CIUIC_TRY(checkBundle(*tables));
  for (const char *needed : {"micro_first", "apply"}) {
    bool found = false;
    for (uint32_t i = 0; i < tables->programCount; ++i)
      found |= std::string_view(tables->programs[i].name) == needed;
    if (!found)
      return Status::invalid("the compiled job has no program " +
                             quote(needed));
  }
  group = options.machine.group;
  if (!group) {
    alone = makeSingleProcess();
    group = alone.get();
  }
  CIUIC_TRY(checkProcesses(group->processes(), tables->ranks));
  CIUIC_TRY_ASSIGN(machine, options.makeMachine(*tables, options.machine));
  ranks = {machine->firstRank(), machine->localRanks()};
  auto inputs = static_cast<size_t>(tables->microBatch * tables->sequence);
  tokens.resize(inputs);
  labels.resize(inputs);
  return {};
}

BatchLayout Job::batchLayout() const {
  return {tables->microBatch, static_cast<int64_t>(tables->ranks),
          tables->accumulation};
}

/// Refuses what the vocabulary has not: devices look tokens up unchecked.
Status Job::checkInputs() const {
  auto refuse = [&](const char *what, size_t at, int32_t value) {
    auto sequence = static_cast<size_t>(tables->sequence);
    return Status::invalid(
        std::string(what) + " " + std::to_string(at % sequence) + " of row " +
        std::to_string(at / sequence) + " is " + std::to_string(value) +
        ", the vocabulary has " + std::to_string(tables->vocabulary));
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= tables->vocabulary)
      return refuse("token", i, tokens[i]);
    if (labels[i] != ignoredLabel &&
        (labels[i] < 0 || labels[i] >= tables->vocabulary))
      return refuse("label", i, labels[i]);
  }
  return {};
}

Status Job::fillInputs(const BatchLoader &loader, uint64_t dataStep,
                       int64_t microStep) {
  abi::View view{};
  view.dtype = abi::DType::I32;
  view.rank = 2;
  view.shape[0] = tables->microBatch;
  view.shape[1] = view.strides[0] = tables->sequence;
  view.strides[1] = 1;
  for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank) {
    CIUIC_TRY(
        loader.fill(dataStep, rank, microStep, tokens.data(), labels.data()));
    CIUIC_TRY(checkInputs().during([&] {
      return "loading micro-step " + std::to_string(microStep) + " of rank " +
             std::to_string(rank);
    }));
    view.buffer = static_cast<uint32_t>(tables->tokensBuffer);
    CIUIC_TRY(machine->write(view, rank, 0, tokens.size(), tokens.data()));
    view.buffer = static_cast<uint32_t>(tables->labelsBuffer);
    CIUIC_TRY(machine->write(view, rank, 0, labels.size(), labels.data()));
  }
  return {};
}

Status Job::step(const BatchLoader &loader, uint64_t dataStep) {
  for (int64_t micro = 0; micro < tables->accumulation; ++micro) {
    CIUIC_TRY(fillInputs(loader, dataStep, micro));
    CIUIC_TRY(machine->run(micro == 0 ? "micro_first" : "micro_next"));
  }
  CIUIC_TRY(machine->run("apply"));
  return machine->wait();
}

Result<EvalResult> Job::evaluate(const BatchLoader &loader) {
  // Each batch by itself: sums over many batches are kept in double. Ranks are
  // added in order, whatever process they are in.
  struct Metrics {
    double loss = 0;
    double tokens = 0;
  };
  const uint32_t processes = group->processes();
  const uint32_t most = (tables->ranks + processes - 1) / processes;
  std::vector<Metrics> mine(most), all(size_t{most} * processes);
  EvalResult result;
  double sum = 0;
  for (uint64_t batch = 0; batch < loader.stepsPerEpoch(); ++batch) {
    CIUIC_TRY(fillInputs(loader, batch, 0));
    CIUIC_TRY(machine->run("eval_first"));
    CIUIC_TRY(machine->wait());
    for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank) {
      CIUIC_TRY_ASSIGN(auto loss, scalar("metric.eval_loss", rank));
      CIUIC_TRY_ASSIGN(auto count, scalar("metric.eval_tokens", rank));
      if (!loss || !count)
        return Status::invalid("the compiled job keeps no evaluation metrics");
      mine[rank - ranks.first] = {*loss, *count};
    }
    CIUIC_TRY(group->gather(std::as_bytes(std::span(mine)),
                            std::as_writable_bytes(std::span(all))));
    for (uint32_t p = 0; p < processes; ++p)
      for (uint32_t i = 0; i < ranksOf(p, processes, tables->ranks).count;
           ++i) {
        sum += all[size_t{p} * most + i].loss;
        result.tokens += all[size_t{p} * most + i].tokens;
      }
  }
  result.loss = sum / std::max(result.tokens, 1.0);
  return result;
}

} // namespace ciuic::rt
