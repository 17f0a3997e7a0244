//===- main.cpp - ciuicc: compiles LLM training jobs ----------------------===//
#include "tools/ciuicc/CommandLine.h"

#include <fcntl.h>
#include <unistd.h>

/// A caller may have closed standard input, output or errors. The next file
/// opened, a log say, would take the free number and get what is printed.
static void fillStandardDescriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)open("/dev/null", O_RDWR); // Takes the lowest free number.
}

int main(int argc, char **argv) {
  fillStandardDescriptors();
  return ciuic::tool::runCommandLine(argc, argv);
}
