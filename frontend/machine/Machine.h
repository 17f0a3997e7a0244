//===- Machine.h - The machine that a job is planned for --------*- C++ -*-===//
//
// How much memory devices and host have, what of it others need, and how fast
// bytes move: from a JSON file, a machine built in, or the one at hand. Plans
// are made for a machine on any other.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_MACHINE_MACHINE_H
#define CIUIC_FRONTEND_MACHINE_MACHINE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::machine {

enum class Where { Device, Host, Process, Thread };

/// Memory that the job cannot have: of each device, or of the host. What each
/// process of a job takes of the host, and each of its threads, comes on top
/// of what is planned.
struct Reserve {
  std::string name;
  Where where = Where::Device;
  int64_t bytes = 0;
  std::string source; ///< Who says so.
};

/// Rates are bytes a second, and floating-point operations a second.
struct Machine {
  std::string name;

  int64_t devices = 1;
  std::string deviceKind;
  int64_t deviceMemory = 0; ///< Of each.
  std::optional<double> deviceBandwidth, f32Rate, f16Rate;

  int64_t cores = 1;
  std::string hostKind;
  int64_t hostMemory = 0;
  std::optional<double> hostBandwidth;
  /// Devices have no memory of their own: theirs is the host's.
  bool shared = false;

  std::optional<double> devicesLink; ///< Of a device with the others.
  std::optional<double> hostLink;    ///< Of a device with the host.
  std::optional<double> disk, network;
  std::optional<int64_t> diskSpace; ///< Bytes for files; none: not known.

  std::vector<Reserve> reserve;

  int64_t reserved(Where where) const;
  /// What a job may use of a device, and of the host for all its ranks.
  int64_t deviceLimit() const;
  int64_t hostLimit() const { return hostMemory - reserved(Where::Host); }
};

/// Reads the text of a machine file; `what` names it in messages. Refuses
/// what is missing, unknown, out of range, or reserved beyond what there is.
rt::Result<Machine> parseMachine(std::string_view text,
                                 const std::string &what);

/// "ciuic-monster", "host", or a file. The host's disk is that of `diskFolder`.
rt::Result<Machine> findMachine(const std::string &nameOrFile,
                                const std::string &diskFolder = ".");

/// The machine at hand. Its disk, that of `diskFolder`, is measured where that
/// is possible. Reads what Linux says below `root`; cores are those
/// that this process may run on, memory that which its control group may use.
/// Its devices are the GPUs that `gpuLibrary` (NVML) finds, else one that
/// shares the host's memory.
rt::Result<Machine>
measureHost(const std::string &root = "",
            const std::string &gpuLibrary = "libnvidia-ml.so.1",
            const std::string &diskFolder = ".");

/// What a process of a job takes of the host besides what is planned, where
/// no machine says it: measured on CPUs.
std::vector<Reserve> usualProcess();

/// For people, a line a fact.
std::string printMachine(const Machine &machine);

/// "40GB" (10^9), "40GiB" (2^30), "4096": bytes. "600GB/s", "100Gb/s" (bits):
/// bytes a second. "312TFLOP/s": operations a second.
std::optional<double> parseQuantity(std::string_view text, std::string_view of);

} // namespace ciuic::machine

#endif // CIUIC_FRONTEND_MACHINE_MACHINE_H
