// RUN: ciuic-run %s --function main --print | FileCheck %s

// Three ranks that start from their chunks of one constant.
#dp = #comm.axis<"dp" = 3>

module @collectives {

// CHECK: result 0 on rank 0: tensor<2xf32> [1, 2]
// CHECK: result 0 on rank 1: tensor<2xf32> [3, 4]
// CHECK: result 0 on rank 2: tensor<2xf32> [5, 6]
// A gather joins chunks in rank order, the same for all.
// CHECK: result 1: tensor<6xf32> [1, 2, 3, 4, 5, 6]
// Rank r of a reduce-scatter gets its own part of the sum: the ranks' buckets
// are [1 2 0 0 0 0], [3 4 0 0 0 0] and [5 6 0 0 0 0].
// CHECK: result 2 on rank 0: tensor<2xf32> [9, 12]
// CHECK: result 2 on rank 1: tensor<2xf32> [0, 0]
// CHECK: result 2 on rank 2: tensor<2xf32> [0, 0]
// CHECK: result 3: tensor<2xf32> [3, 4]
// A sum of bf16 values is rounded once at the end: 256 + 1 + 1 is 258.
// CHECK: result 4: tensor<1xbf16> [258]
// A transfer changes nothing.
// CHECK: result 5 on rank 2: tensor<2xf32> [5, 6]
func.func @main() -> (tensor<2xf32>, tensor<6xf32>, tensor<2xf32>,
                      tensor<2xf32>, tensor<1xbf16>, tensor<2xf32>) {
  %whole = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %chunk = comm.chunk %whole of #dp : tensor<6xf32> -> tensor<2xf32>
  %full = comm.all_gather %chunk over #dp for "test"
        : tensor<2xf32> -> tensor<6xf32>
  %bucket = comm.pack %chunk at [0] : (tensor<2xf32>) -> tensor<6xf32>
  %share = comm.reduce_scatter sum %bucket over #dp for "test"
         : tensor<6xf32> -> tensor<2xf32>
  %mean = comm.all_reduce mean %chunk over #dp for "test" : tensor<2xf32>
  %parts = arith.constant dense<[256.0, 1.0, 1.0]> : tensor<3xbf16>
  %part = comm.chunk %parts of #dp : tensor<3xbf16> -> tensor<1xbf16>
  %sum = comm.all_reduce sum %part over #dp for "test" : tensor<1xbf16>
  %host = comm.transfer %chunk to host : tensor<2xf32>
  return %chunk, %full, %share, %mean, %sum, %host
    : tensor<2xf32>, tensor<6xf32>, tensor<2xf32>, tensor<2xf32>,
      tensor<1xbf16>, tensor<2xf32>
}

}
