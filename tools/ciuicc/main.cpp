//===- main.cpp - ciuicc: compiles LLM training jobs ----------------------===//
#include "tools/ciuicc/CommandLine.h"

int main(int argc, char **argv) {
  return ciuic::tool::runCommandLine(argc, argv);
}
