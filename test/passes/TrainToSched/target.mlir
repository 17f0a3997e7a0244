// The module says what its device tasks are made for.
//
// RUN: ciuic-opt %s --ciuic-lower-to-sched | FileCheck %s --check-prefix=CPU
// RUN: ciuic-opt %s "--ciuic-lower-to-sched=target=cuda architectures=sm_80,sm_90a" | FileCheck %s --check-prefix=CUDA
// RUN: not ciuic-opt %s "--ciuic-lower-to-sched=target=vulkan" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not ciuic-opt %s "--ciuic-lower-to-sched=target=cuda architectures=sm_70" 2>&1 | FileCheck %s --check-prefix=ARCHITECTURE

// CPU: module attributes {sched.ranks = 1 : i64, sched.target = "cpu"}
// CUDA: module attributes {sched.architectures = "sm_80,sm_90a", sched.ranks = 1 : i64, sched.target = "cuda"}
// TARGET: error: option target is "vulkan", expected cpu or cuda
// ARCHITECTURE: error: option architectures is "sm_70": "sm_70" is no architecture that kernels can be made for; expected one of sm_80,
module {}
