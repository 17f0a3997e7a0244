// RUN: ciuic-run %s --function main --print | FileCheck %s

module @layout_ops {

// Packing leaves zeros between members, in row-major order; unpacking reads
// any stretch in any shape.

// CHECK: result 0: tensor<8xf32> [0, 1, 2, 3, 4, 0, 0, 9]
// CHECK: result 1: tensor<2x2xf32> [1, 2, 3, 4]
func.func @main() -> (tensor<8xf32>, tensor<2x2xf32>) {
  %a = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<9.0> : tensor<1xf32>
  %bucket = comm.pack %a, %b at [1, 7]
          : (tensor<2x2xf32>, tensor<1xf32>) -> tensor<8xf32>
  %back = comm.unpack %bucket at 1 : tensor<8xf32> -> tensor<2x2xf32>
  return %bucket, %back : tensor<8xf32>, tensor<2x2xf32>
}

}
