//===- HostKernelsV4.cpp - The serial loops for x86-64-v4 -----------------===//
#define CIUIC_ISA v4
#define CIUIC_ISA_NAME "x86-64-v4"
#include "runtime/kernels/host/isa/HostKernels.inc"
