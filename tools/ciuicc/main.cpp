//===- main.cpp - ciuicc: compiles LLM training jobs ----------------------===//
#include "tools/ciuicc/CommandLine.h"
#include "tools/train/RunTrain.h"

int main(int argc, char **argv) {
  ciuic::tool::prepareProcess();
  return ciuic::tool::runCommandLine(argc, argv);
}
