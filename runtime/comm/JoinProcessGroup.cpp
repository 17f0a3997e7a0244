//===- JoinProcessGroup.cpp - How this process was started ----------------===//
//
// The one place that reads the environment of mpirun and torchrun.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Quote.h"
#include "runtime/comm/mpi/MpiModule.h"
#include "runtime/comm/tcp/TcpGroup.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <unistd.h>

namespace ciuic::rt {
namespace {

constexpr uint32_t mostProcesses = 4096;

/// A variable's value; one that is empty counts as not set.
std::optional<std::string> variable(const char *name) {
  const char *value = std::getenv(name);
  if (!value || *value == 0)
    return std::nullopt;
  return std::string(value);
}

/// A variable that is a number in [least, most], or not set.
Result<std::optional<uint32_t>> numberOf(const char *name, uint32_t least,
                                         uint32_t most) {
  std::optional<std::string> text = variable(name);
  if (!text)
    return std::optional<uint32_t>();
  bool digits = text->size() <= 9 &&
                text->find_first_not_of("0123456789") == std::string::npos;
  unsigned long value = digits ? std::strtoul(text->c_str(), nullptr, 10) : 0;
  if (!digits || value < least || value > most)
    return Status::invalid(std::string("the environment's ") + name + " is " +
                           quote(*text) + ", expected a number from " +
                           std::to_string(least) + " to " +
                           std::to_string(most));
  return std::optional<uint32_t>(static_cast<uint32_t>(value));
}

/// What a launcher says of this process.
struct Numbers {
  std::optional<uint32_t> process, processes;
  bool given() const { return process || processes; }
};

Result<Numbers> numbersOf(const char *process, const char *processes) {
  Numbers numbers;
  CIUIC_TRY_ASSIGN(numbers.process, numberOf(process, 0, mostProcesses - 1));
  CIUIC_TRY_ASSIGN(numbers.processes, numberOf(processes, 1, mostProcesses));
  if (numbers.process.has_value() != numbers.processes.has_value())
    return Status::invalid(std::string("the environment has ") +
                           (numbers.process ? process : processes) +
                           " but no " +
                           (numbers.process ? processes : process));
  if (numbers.process && *numbers.process >= *numbers.processes)
    return Status::invalid(std::string("the environment's ") + process +
                           " is " + std::to_string(*numbers.process) +
                           ", expected less than " + processes + ", which is " +
                           std::to_string(*numbers.processes));
  return numbers;
}

/// The folder of this executable.
std::string ownFolder() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0)
    return ".";
  std::string text(path, static_cast<size_t>(length));
  return text.substr(0, text.rfind('/'));
}

Result<std::unique_ptr<ProcessGroup>> joinByMpi(const JoinOptions &options) {
  // It is never unloaded: MPI's own threads may outlive the group.
  std::string problem;
  void *module = nullptr;
  for (const char *folder : {"/", "/../lib/"}) {
    std::string path = ownFolder() + folder + mpiModuleName;
    if (access(path.c_str(), R_OK) != 0)
      continue;
    module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module)
      break;
    problem = dlerror();
  }
  if (!module)
    return Status::machine(
        std::string("started by mpirun, but ") +
        (problem.empty() ? std::string(mpiModuleName) +
                               " is not beside this program: it was built "
                               "without MPI"
                         : "cannot load MPI: " + problem));
  auto join = reinterpret_cast<MpiEntryPoint>(dlsym(module, mpiEntryPoint));
  if (!join)
    return Status::machine(std::string(mpiModuleName) + " does not export " +
                           mpiEntryPoint);
  Status status;
  std::unique_ptr<ProcessGroup> group(join(mpiModuleVersion, options, status));
  if (!group)
    return std::move(status).during([] { return "joining by MPI"; });
  return group;
}

/// Refuses two launchers that say different things.
Status compare(const Numbers &mpi, const Numbers &torch) {
  if (!torch.given() ||
      (mpi.process == torch.process && mpi.processes == torch.processes))
    return {};
  return Status::invalid(
      "the environment contradicts itself: mpirun says process " +
      std::to_string(*mpi.process) + " of " + std::to_string(*mpi.processes) +
      ", RANK and WORLD_SIZE say process " + std::to_string(*torch.process) +
      " of " + std::to_string(*torch.processes));
}

/// What torchrun says besides: not needed, but it must make sense.
Status checkLocal(const Numbers &torch) {
  CIUIC_TRY_ASSIGN(auto rank, numberOf("LOCAL_RANK", 0, mostProcesses - 1));
  CIUIC_TRY_ASSIGN(auto size, numberOf("LOCAL_WORLD_SIZE", 1, mostProcesses));
  if (rank && size && *rank >= *size)
    return Status::invalid("the environment's LOCAL_RANK is " +
                           std::to_string(*rank) +
                           ", expected less than LOCAL_WORLD_SIZE, which is " +
                           std::to_string(*size));
  if (rank && *rank > *torch.process)
    return Status::invalid(
        "the environment's LOCAL_RANK is " + std::to_string(*rank) +
        ", expected at most RANK, which is " + std::to_string(*torch.process));
  return {};
}

} // namespace

Status checkOneProcessHere() {
  for (const char *name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}) {
    CIUIC_TRY_ASSIGN(auto size, numberOf(name, 1, mostProcesses));
    if (size && *size > 1)
      return Status::invalid(
          "the environment's " + std::string(name) + " is " +
          std::to_string(*size) +
          ", expected 1: one process drives all devices of a machine (mpirun "
          "--map-by ppr:1:node, torchrun --nproc-per-node 1)");
  }
  return {};
}

Result<std::unique_ptr<ProcessGroup>>
joinProcessGroup(const JoinOptions &options) {
  CIUIC_TRY_ASSIGN(Numbers mpi,
                   numbersOf("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
  CIUIC_TRY_ASSIGN(Numbers torch, numbersOf("RANK", "WORLD_SIZE"));
  if (mpi.given())
    CIUIC_TRY(compare(mpi, torch));
  if (mpi.given() && *mpi.processes > 1)
    return joinByMpi(options);
  if (!torch.given() || *torch.processes == 1)
    return makeSingleProcess();
  CIUIC_TRY(checkLocal(torch));
  tcp::Place place;
  place.process = *torch.process;
  place.processes = *torch.processes;
  CIUIC_TRY_ASSIGN(auto port, numberOf("MASTER_PORT", 1, 65535));
  auto host = variable("MASTER_ADDR");
  if (!host || !port)
    return Status::invalid(std::string("the environment has WORLD_SIZE ") +
                           std::to_string(*torch.processes) + " but no " +
                           (host ? "MASTER_PORT" : "MASTER_ADDR") +
                           ": where process 0 waits for the others");
  place.host = *host;
  place.port = static_cast<uint16_t>(*port);
  auto group = tcp::joinByTcp(place, options);
  if (!group.ok())
    return group.takeStatus().during([&] {
      return "joining as process " + std::to_string(place.process) + " of " +
             std::to_string(place.processes);
    });
  return group;
}

} // namespace ciuic::rt
