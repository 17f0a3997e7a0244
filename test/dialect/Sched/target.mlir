// What the device tasks of a module are made for.
//
// RUN: ciuic-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// The CPU, which needs no more.
// CHECK: module attributes {sched.target = "cpu"}
module attributes {sched.target = "cpu"} {}

// -----

// GPUs: one architecture or several.
// CHECK: module attributes {sched.architectures = "sm_80,sm_90a,sm_100f", sched.target = "cuda"}
module attributes {sched.target = "cuda", sched.architectures = "sm_80,sm_90a,sm_100f"} {}

// -----

// No other target is known.
// expected-error @+1 {{has "sched.target" = "hip", expected "cpu" or "cuda"}}
module attributes {sched.target = "hip"} {}

// -----

// It is a string.
// expected-error @+1 {{has "sched.target" = 80 : i64, expected a string on the module}}
module attributes {sched.target = 80 : i64} {}

// -----

// On the module.
module {
// expected-error @+1 {{has "sched.target" = "cpu", expected a string on the module}}
sched.program @p attributes {sched.target = "cpu"} {
}
}

// -----

// A module for CUDA says for which GPUs.
// expected-error @+1 {{is for cuda without sched.architectures}}
module attributes {sched.target = "cuda"} {}

// -----

// One for the CPU has none.
// expected-error @+1 {{has "sched.architectures" and is not for cuda}}
module attributes {sched.target = "cpu", sched.architectures = "sm_80"} {}

// -----

// Older ones lack what the kernels use.
// expected-error @+1 {{"sm_75" is no architecture that kernels can be made for; expected one of sm_80, sm_86,}}
module attributes {sched.target = "cuda", sched.architectures = "sm_75"} {}

// -----

// Only some have a form with extensions.
// expected-error @+1 {{"sm_80a" is no architecture}}
module attributes {sched.target = "cuda", sched.architectures = "sm_80a"} {}

// -----

// A list has no empty entries.
// expected-error @+1 {{"" is no architecture}}
module attributes {sched.target = "cuda", sched.architectures = "sm_80,"} {}

// -----

// And says each once.
// expected-error @+1 {{"sm_80" appears twice}}
module attributes {sched.target = "cuda", sched.architectures = "sm_80,sm_90a,sm_80"} {}

// -----

// How fast the machine is.
// CHECK: module attributes {sched.rates = "f32=1e+12,memory=2e+11"}
module attributes {sched.rates = "f32=1e+12,memory=2e+11"} {}

// -----

// By known names.
// expected-error @+1 {{has "sched.rates" = "f64=1": "f64" is no rate; expected one of f32, f16, memory,}}
module attributes {sched.rates = "f64=1"} {}

// -----

// Each is above zero.
// expected-error @+1 {{"f32=0": expected a number from 1e-6 to 1e21}}
module attributes {sched.rates = "f32=0"} {}

// -----

// On the module, as a string.
// expected-error @+1 {{has "sched.rates" = 1 : i64: expected a string on the module}}
module attributes {sched.rates = 1 : i64} {}
