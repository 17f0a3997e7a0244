//===- MachineRates.cpp - The rates of a machine, as reached --------------===//
#include "tools/ciuicc/MachineRates.h"

#include <algorithm>

using namespace ciuic;
using namespace ciuic::tool;

// Of what a data sheet says: large products, memory that is streamed, copies
// over PCIe, and collectives, for which it counts both ways of a link.
static constexpr double kProducts = 0.7;
static constexpr double kMemory = 0.85;
static constexpr double kLink = 0.8;
static constexpr double kCollectives = 0.4;

sched::Rates tool::ratesOf(const machine::Machine &machine, bool cuda,
                           int64_t ranks) {
  sched::Rates rates = sched::defaultRates(cuda, ranks);
  // How many ranks one host serves, and how many share a device.
  int64_t onHost = machine.shared
                       ? ranks
                       : std::min(ranks, std::max<int64_t>(machine.devices, 1));
  auto sharers = static_cast<double>(std::max<int64_t>(onHost, 1));
  double onDevice = machine.shared ? sharers : 1;
  auto take = [](double &rate, std::optional<double> said, double share) {
    if (said)
      rate = *said * share;
  };
  take(rates.f32, machine.f32Rate, kProducts / onDevice);
  take(rates.f16, machine.f16Rate, kProducts / onDevice);
  // In f32 where nothing is said of 16 bits: they are converted on the way.
  if (machine.f32Rate && !machine.f16Rate)
    rates.f16 = rates.f32;
  take(rates.host, machine.hostBandwidth, kMemory / sharers);
  take(rates.disk, machine.disk, kMemory / sharers);
  if (machine.shared) {
    rates.memory = rates.devices = rates.link = rates.host;
    take(rates.memory, machine.deviceBandwidth, kMemory / sharers);
    return rates;
  }
  take(rates.memory, machine.deviceBandwidth, kMemory);
  take(rates.link, machine.hostLink, kLink);
  take(rates.devices, machine.devicesLink, kCollectives);
  // A ring over several hosts is as fast as its slowest link, which the
  // devices of a host share.
  if (ranks > onHost && machine.network)
    rates.devices = std::min(rates.devices, *machine.network * kLink);
  return rates;
}
