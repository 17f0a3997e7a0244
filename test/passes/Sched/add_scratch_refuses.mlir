// RUN: ciuic-opt %s --ciuic-sched-add-scratch --verify-diagnostics

// Scratch is given once.
module attributes {sched.target = "cuda", sched.architectures = "sm_80"} {
sched.buffer @b 512 bytes in device
sched.buffer @s 8192 bytes in device of @p
sched.program @p {
  // expected-error @+1 {{"norm" has scratch already}}
  %0 = sched.task square_sum "norm" on compute [#sched.view<read @b [0] : tensor<64xf32>>, #sched.view<write @b [256] : tensor<f64>>] scratch #sched.view<write @s [0] : tensor<2048xi32>>
}
}
