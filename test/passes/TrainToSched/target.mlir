// The module says what its device tasks are made for, and how fast that is.
//
// RUN: ciuic-opt %s --ciuic-lower-to-sched | FileCheck %s --check-prefix=CPU
// RUN: ciuic-opt %s "--ciuic-lower-to-sched=target=cuda architectures=sm_80,sm_90a" | FileCheck %s --check-prefix=CUDA
// RUN: not ciuic-opt %s "--ciuic-lower-to-sched=target=vulkan" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not ciuic-opt %s "--ciuic-lower-to-sched=target=cuda architectures=sm_70" 2>&1 | FileCheck %s --check-prefix=ARCHITECTURE
// RUN: ciuic-opt %s "--ciuic-lower-to-sched=rates=f32=5e+12" | FileCheck %s --check-prefix=RATES
// RUN: not ciuic-opt %s "--ciuic-lower-to-sched=rates=speed=1" 2>&1 | FileCheck %s --check-prefix=RATE

// CPU: module attributes {sched.ranks = 1 : i64, sched.rates = "{{[^"]*}}", sched.target = "cpu"}
// CUDA: module attributes {sched.architectures = "sm_80,sm_90a", sched.ranks = 1 : i64, sched.rates = "{{[^"]*}}", sched.target = "cuda"}
// TARGET: error: option target is "vulkan", expected cpu or cuda
// ARCHITECTURE: error: option architectures is "sm_70": "sm_70" is no architecture that kernels can be made for; expected one of sm_80,
// RATES: sched.rates = "f32=5e+12,f16=3.5e+11,
// RATE: error: option rates: "speed" is no rate; expected one of f32,
module {}
