// RUN: ciuic-run %s --f64 --function checksum --print | FileCheck %s
// RUN: ciuic-run %s --ranks=1 --function checksum --print | FileCheck %s

// The sum of all cosines and sines of a llama3 table is 91141.76, which is
// sensitive to every one of its parameters: 4096 positions of heads of 128,
// base 10000, factor 8, bands 1 and 4, original length 8192. (With base 500000
// it would be 141648.66.)

train.state table @rope.cos : tensor<4096x64xf32> init #train.rope<part = cos, dim = 128, theta = 1.0e4, scaling = llama3, factor = 8.0>
train.state table @rope.sin : tensor<4096x64xf32> init #train.rope<part = sin, dim = 128, theta = 1.0e4, scaling = llama3, factor = 8.0>

// CHECK: result 0: tensor<1x1xf32> [91141.7{{[56]}}
func.func @checksum() -> tensor<1x1xf32> {
  %cos = train.read @rope.cos : tensor<4096x64xf32>
  %sin = train.read @rope.sin : tensor<4096x64xf32>
  %both = arith.addf %cos, %sin : tensor<4096x64xf32>
  %rows = arith.constant dense<1.0> : tensor<1x4096xf32>
  %columns = arith.constant dense<1.0> : tensor<64x1xf32>
  %sums = train.matmul %rows, %both : (tensor<1x4096xf32>, tensor<4096x64xf32>) -> tensor<1x64xf32>
  %sum = train.matmul %sums, %columns : (tensor<1x64xf32>, tensor<64x1xf32>) -> tensor<1x1xf32>
  return %sum : tensor<1x1xf32>
}
