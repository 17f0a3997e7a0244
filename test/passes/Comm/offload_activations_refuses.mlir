// RUN: ciuic-opt %s --verify-diagnostics --ciuic-comm-offload-activations

// What is on the host stays there: the pass runs once.
func.func @micro_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{sends an activation to the host already}}
  %h = comm.transfer %x to host for "b.fwd" : tensor<4x8xf32>
  %y = comm.transfer %h to device for "b.bwd" : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
