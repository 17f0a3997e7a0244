//===- HostKernelsV3.cpp - The serial loops for x86-64-v3 -----------------===//
#define CIUIC_ISA v3
#define CIUIC_ISA_NAME "x86-64-v3"
#include "runtime/kernels/host/isa/HostKernels.inc"
