// RUN: ciuic-opt %s --ciuic-comm-elide-trivial-collectives | FileCheck %s

// Over one rank, every collective forwards its operand.

// CHECK-LABEL: @one_rank
// CHECK-SAME: (%[[X:.+]]: tensor<128xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]]
func.func @one_rank(%x: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) {
  %a = comm.all_gather %x over <"dp" = 1> for "fwd" : tensor<128xf32> -> tensor<128xf32>
  %b = comm.reduce_scatter mean %x over <"dp" = 1> for "grad" : tensor<128xf32> -> tensor<128xf32>
  %c = comm.all_reduce sum %x over <"dp" = 1> for "norm" : tensor<128xf32>
  %d = comm.chunk %x of <"dp" = 1> : tensor<128xf32> -> tensor<128xf32>
  return %a, %b, %c, %d : tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
}

// A chain of them forwards what it started from.

// CHECK-LABEL: @chain
// CHECK-SAME: (%[[X:.+]]: tensor<128xf32>)
// CHECK-NEXT: return %[[X]]
func.func @chain(%x: tensor<128xf32>) -> tensor<128xf32> {
  %a = comm.reduce_scatter mean %x over <"dp" = 1> for "grad" : tensor<128xf32> -> tensor<128xf32>
  %b = comm.all_gather %a over <"dp" = 1> for "fwd" : tensor<128xf32> -> tensor<128xf32>
  return %b : tensor<128xf32>
}

// Two ranks have something to say.

// CHECK-LABEL: @two_ranks
// CHECK: comm.all_gather
func.func @two_ranks(%x: tensor<128xf32>) -> tensor<256xf32> {
  %a = comm.all_gather %x over <"dp" = 2> for "fwd" : tensor<128xf32> -> tensor<256xf32>
  return %a : tensor<256xf32>
}
