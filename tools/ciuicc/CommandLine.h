//===- CommandLine.h - What ciuicc understands ------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_COMMANDLINE_H
#define CIUIC_TOOLS_CIUICC_COMMANDLINE_H

#include <cstdint>
#include <optional>
#include <string>

namespace ciuic::tool {

/// Parses the command line and runs its subcommand; returns the exit code.
int runCommandLine(int argc, char **argv);

/// "40GB" (10^9), "40GiB" (2^30), "512MB", "4096": bytes; none if it is not a
/// size or does not fit.
std::optional<int64_t> parseBytes(const std::string &text);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_COMMANDLINE_H
