//===- CheckOptions.cpp - What options of a compilation come to nothing ---===//
#include "tools/ciuicc/Compiler.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::tool;

/// Sums and products that are too large for a number are too large for any
/// memory.
static int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return llvm::MulOverflow(a, b, product) ? INT64_MAX : product;
}
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return llvm::AddOverflow(a, b, sum) ? INT64_MAX : sum;
}

std::string tool::whatIsTooLarge(ModuleOp module,
                                 const CompileOptions &options) {
  auto arena = [&](StringRef name) -> int64_t {
    auto attr = module->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  int64_t ranks = sched::getRanks(module);
  int64_t device = arena(sched::kDeviceArena);
  int64_t beside = besideArenas(module, options);
  int64_t host = plus(times(arena(sched::kHostArena), ranks), beside);
  struct Limit {
    int64_t needs, has;
    const char *where;
  };
  for (const Limit &limit :
       {Limit{device, options.deviceMemory, "on each device"},
        Limit{host, options.hostMemory, "of host memory"},
        Limit{times(arena(sched::kNvmeArena), ranks), options.nvmeSpace,
              "of NVMe"},
        Limit{plus(times(device, ranks), host), options.sharedMemory,
              "of memory for devices and host together"}})
    if (limit.has > 0 && limit.needs > limit.has)
      return "does not fit: needs " + std::to_string(limit.needs) + " bytes " +
             limit.where + ", has " + std::to_string(limit.has) +
             "; its buffers have their places already";
  return "";
}

std::vector<std::string>
tool::flagsWithoutEffect(const CompileOptions &options,
                         const config::JobSettings &job) {
  struct Decided {
    const char *flag, *phase; ///< The phase that does what the flag says.
  };
  static constexpr Decided decided[] = {
      {"--recompute", "place"},         {"--keep-gathered", "place"},
      {"--offload-optimizer", "place"}, {"--offload-ratio", "place"},
      {"--offload-param", "place"},     {"--offload-activations", "place"},
      {"--prefetch", "schedule"},       {"--nvme-buffer", "schedule"}};
  std::vector<std::string> found;
  for (const std::string &flag : options.given) {
    for (const auto &[name, phase] : decided)
      if (flag == name && !options.startFrom.empty() &&
          *findPhase(phase) < *findPhase(options.startFrom))
        found.push_back(flag + " is without effect: the phase " + phase +
                        " comes before --start-from " + options.startFrom);
    if (flag == "--keep-gathered" && job.zero.stage < 3)
      found.push_back("--keep-gathered is without effect at ZeRO stage " +
                      std::to_string(job.zero.stage) +
                      ": parameters are gathered at stage 3 only");
    if (flag == "--nvme-buffer" &&
        job.zero.offloadOptimizer.device != config::OffloadDevice::Nvme)
      found.push_back("--nvme-buffer is without effect: no optimizer states "
                      "are in files (--offload-optimizer nvme)");
  }
  return found;
}
