//===- PrintMachine.cpp - A machine for people ----------------------------===//
#include "frontend/machine/Machine.h"

#include <fmt/format.h>
#include <iterator>

using namespace ciuic::machine;

using Out = std::back_insert_iterator<std::string>;

/// "40.00 GB"
static std::string scaled(double value, const char *unit) {
  static constexpr std::pair<double, const char *> prefixes[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto &[size, prefix] : prefixes)
    if (value >= size)
      return fmt::format("{:.2f} {}{}", value / size, prefix, unit);
  return fmt::format("{:.0f} {}", value, unit);
}

static void printReserve(Out out, const Machine &machine, Where where,
                         int64_t memory, int64_t left) {
  fmt::format_to(out, "    {} ({} bytes)\n",
                 scaled(static_cast<double>(memory), "B"), memory);
  for (const Reserve &entry : machine.reserve)
    if (entry.where == where)
      fmt::format_to(out, "    less {} for {}: {}\n",
                     scaled(static_cast<double>(entry.bytes), "B"), entry.name,
                     entry.source);
  fmt::format_to(out, "    for the job {} ({} bytes)\n",
                 scaled(static_cast<double>(left), "B"), left);
}

static void printRate(Out out, const char *what,
                      const std::optional<double> &rate, const char *unit) {
  if (rate)
    fmt::format_to(out, "  {} {}\n", what, scaled(*rate, unit));
}

std::string ciuic::machine::printMachine(const Machine &machine) {
  std::string text;
  Out out(text);
  fmt::format_to(out, "machine {}\n", machine.name);
  fmt::format_to(out, "  devices {}{}{}\n", machine.devices,
                 machine.deviceKind.empty() ? "" : " x ", machine.deviceKind);
  if (!machine.shared) {
    fmt::format_to(out, "  memory of each device\n");
    printReserve(out, machine, Where::Device, machine.deviceMemory,
                 machine.deviceLimit());
  }
  fmt::format_to(out, "  cores {}{}{}\n", machine.cores,
                 machine.hostKind.empty() ? "" : ", ", machine.hostKind);
  fmt::format_to(out, "  memory of the host{}\n",
                 machine.shared ? ", which the devices share" : "");
  printReserve(out, machine, Where::Host, machine.hostMemory,
               machine.hostLimit());
  for (const Reserve &entry : machine.reserve)
    if (entry.where == Where::Process || entry.where == Where::Thread)
      fmt::format_to(out, "    of it {} for {} of each {}: {}\n",
                     scaled(static_cast<double>(entry.bytes), "B"), entry.name,
                     entry.where == Where::Process ? "process" : "thread",
                     entry.source);
  printRate(out, "f32 of a device", machine.f32Rate, "FLOP/s");
  printRate(out, "16 bits of a device", machine.f16Rate, "FLOP/s");
  printRate(out, "memory of a device", machine.deviceBandwidth, "B/s");
  printRate(out, "memory of the host", machine.hostBandwidth, "B/s");
  printRate(out, "between devices", machine.devicesLink, "B/s");
  printRate(out, "device and host", machine.hostLink, "B/s");
  printRate(out, "disk", machine.disk, "B/s");
  if (machine.diskSpace)
    fmt::format_to(out, "  room on the disk {} ({} bytes)\n",
                   scaled(static_cast<double>(*machine.diskSpace), "B"),
                   *machine.diskSpace);
  printRate(out, "network", machine.network, "B/s");
  return text;
}
