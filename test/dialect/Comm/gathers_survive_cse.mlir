// RUN: ciuic-opt %s --cse --canonicalize --cse | FileCheck %s

// Gathers of one chunk for two use-groups stay two: merged, the whole bucket
// would live from the forward to the backward.

// CHECK-LABEL: @two_groups
func.func @two_groups(%own: tensor<128xf32>) -> (tensor<256xf32>, tensor<256xf32>) {
  // CHECK: comm.all_gather %{{.+}} over #axis for "layers.0.fwd"
  %fwd = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : tensor<128xf32> -> tensor<256xf32>
  // CHECK: comm.all_gather %{{.+}} over #axis for "layers.0.bwd"
  %bwd = comm.all_gather %own over <"dp" = 2> for "layers.0.bwd" : tensor<128xf32> -> tensor<256xf32>
  return %fwd, %bwd : tensor<256xf32>, tensor<256xf32>
}

// Within one group a second gather is the first.

// CHECK-LABEL: @one_group
func.func @one_group(%own: tensor<128xf32>) -> (tensor<256xf32>, tensor<256xf32>) {
  // CHECK: %[[FULL:.+]] = comm.all_gather
  // CHECK-NOT: comm.all_gather
  %a = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : tensor<128xf32> -> tensor<256xf32>
  %b = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : tensor<128xf32> -> tensor<256xf32>
  // CHECK: return %[[FULL]], %[[FULL]]
  return %a, %b : tensor<256xf32>, tensor<256xf32>
}

// What a region computes again is not what the forward computed: nothing is
// merged across its fence, in either direction.

// CHECK-LABEL: @recompute
func.func @recompute(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[Y:.+]] = train.sigmoid
  %y = train.sigmoid %x : tensor<4x8xf32>
  // CHECK: %[[AGAIN:.+]] = train.recompute "layers.0"
  %again = train.recompute "layers.0"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%in: tensor<4x8xf32>):
    // CHECK: train.sigmoid
    %z = train.sigmoid %in : tensor<4x8xf32>
    train.yield %z : tensor<4x8xf32>
  }
  // CHECK: return %[[Y]], %[[AGAIN]]
  return %y, %again : tensor<4x8xf32>, tensor<4x8xf32>
}

// Copies for two use-groups stay two, and one back to where a value came from
// is no copy of the value: it would stay where it was.

// CHECK-LABEL: @copies
func.func @copies(%x: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  // CHECK: %[[DOWN:.+]] = comm.transfer %{{.+}} to host for "layers.0.fwd"
  %down = comm.transfer %x to host for "layers.0.fwd" : tensor<128xf32>
  // CHECK: comm.transfer %[[DOWN]] to device for "layers.0.bwd"
  %up = comm.transfer %down to device for "layers.0.bwd" : tensor<128xf32>
  // CHECK: comm.transfer %[[DOWN]] to device for "layers.1.bwd"
  %other = comm.transfer %down to device for "layers.1.bwd" : tensor<128xf32>
  return %up, %other : tensor<128xf32>, tensor<128xf32>
}
