//===- CommandLine.h - What ciuicc understands ------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_COMMANDLINE_H
#define CIUIC_TOOLS_CIUICC_COMMANDLINE_H

namespace ciuic::tool {

/// Parses the command line and runs its subcommand; returns the exit code.
int runCommandLine(int argc, char **argv);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_COMMANDLINE_H
