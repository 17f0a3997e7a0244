// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s

// Every op of the dialect prints as it is read.

// CHECK: #axis = #comm.axis<"dp" = 2>
// CHECK-LABEL: module @ops
module @ops {
  // CHECK: comm.bucket @layers.0 over #axis elements 512 chunk 256 trainable
  comm.bucket @layers.0 over <"dp" = 2> elements 512 chunk 256 trainable
  // CHECK: comm.bucket @layers.0.whole over #axis elements 256 chunk 128 trainable persistent
  comm.bucket @layers.0.whole over <"dp" = 2> elements 256 chunk 128 trainable persistent
  // CHECK: comm.bucket @embed.frozen over #axis elements 256 chunk 128{{$}}
  comm.bucket @embed.frozen over <"dp" = 2> elements 256 chunk 128

  // CHECK-LABEL: @views
  // CHECK-SAME: (%[[FULL:.+]]: tensor<512xbf16>)
  func.func @views(%full: tensor<512xbf16>) -> (tensor<512xbf16>, tensor<256xbf16>) {
    // CHECK: %[[W:.+]] = comm.unpack %[[FULL]] at 128 : tensor<512xbf16> -> tensor<8x16xbf16>
    %w = comm.unpack %full at 128 : tensor<512xbf16> -> tensor<8x16xbf16>
    // CHECK: %[[B:.+]] = comm.unpack %[[FULL]] at 256 : tensor<512xbf16> -> tensor<8xbf16>
    %b = comm.unpack %full at 256 : tensor<512xbf16> -> tensor<8xbf16>
    // CHECK: %[[FLAT:.+]] = comm.pack %[[W]], %[[B]] at [0, 128] : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<512xbf16>
    %flat = comm.pack %w, %b at [0, 128] : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<512xbf16>
    // CHECK: comm.chunk %[[FLAT]] of #axis : tensor<512xbf16> -> tensor<256xbf16>
    %own = comm.chunk %flat of <"dp" = 2> : tensor<512xbf16> -> tensor<256xbf16>
    return %flat, %own : tensor<512xbf16>, tensor<256xbf16>
  }

  // A pack of nothing is all zero.

  // CHECK-LABEL: @nothing
  func.func @nothing() -> tensor<256xf32> {
    // CHECK: comm.pack at [] : () -> tensor<256xf32>
    %zero = comm.pack at [] : () -> tensor<256xf32>
    return %zero : tensor<256xf32>
  }

  // Results of collectives are named after their axis.

  // CHECK-LABEL: @collectives
  // CHECK-SAME: (%[[OWN:.+]]: tensor<256xf32>, %[[SUM:.+]]: tensor<f64>)
  func.func @collectives(%own: tensor<256xf32>, %sum: tensor<f64>) -> tensor<f64> {
    // CHECK: %dp_full = comm.all_gather %[[OWN]] over #axis for "layers.0.fwd" : tensor<256xf32> -> tensor<512xf32>
    %full = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : tensor<256xf32> -> tensor<512xf32>
    // CHECK: %dp_chunk = comm.reduce_scatter mean %dp_full over #axis for "layers.0.grad" : tensor<512xf32> -> tensor<256xf32>
    %mean = comm.reduce_scatter mean %full over <"dp" = 2> for "layers.0.grad" : tensor<512xf32> -> tensor<256xf32>
    // CHECK: comm.all_reduce sum %[[SUM]] over #axis for "grad_norm" : tensor<f64>
    %all = comm.all_reduce sum %sum over <"dp" = 2> for "grad_norm" : tensor<f64>
    // CHECK: %[[HOST:.+]] = comm.transfer %dp_chunk to host : tensor<256xf32>
    %host = comm.transfer %mean to host : tensor<256xf32>
    // CHECK: comm.transfer %[[HOST]] to device : tensor<256xf32>
    %back = comm.transfer %host to device : tensor<256xf32>
    // CHECK: comm.transfer %[[HOST]] to device for "layers.0.bwd" : tensor<256xf32>
    %again = comm.transfer %host to device for "layers.0.bwd" : tensor<256xf32>
    return %all : tensor<f64>
  }
}
