// RUN: ciuic-run %s --function layers --print | FileCheck %s --check-prefix=LAYERS
// RUN: ciuic-run %s --function norm --print | FileCheck %s --check-prefix=NORM
// RUN: ciuic-run %s --function attention --print | FileCheck %s --check-prefix=ATTENTION
// RUN: ciuic-run %s --function rotary --print | FileCheck %s --check-prefix=ROTARY
// RUN: ciuic-run %s --function loss --print | FileCheck %s --check-prefix=LOSS
// RUN: ciuic-run %s --function sums --print | FileCheck %s --check-prefix=SUMS

module @train_ops {

func.func @layers() -> (tensor<2x2xf32>, tensor<3x2xf32>, tensor<1x2xf32>,
                        tensor<2x2xf32>, tensor<2xf32>) {
  // Rows of a table by token; gradients of a token's uses add up.
  // LAYERS: result 0: tensor<2x2xf32> [5, 6, 5, 6]
  %table = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]>
    : tensor<3x2xf32>
  %tokens = arith.constant dense<[[2, 2]]> : tensor<1x2xi32>
  %rows = train.embedding %tokens in %table
    : (tensor<1x2xi32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  // LAYERS: result 1: tensor<3x2xf32> [0, 0, 0, 0, 10, 12]
  %dtable = train.embedding_grad %rows at %tokens
    : (tensor<2x2xf32>, tensor<1x2xi32>) -> tensor<3x2xf32>
  // [1 10] times the transposed [[1 2] [3 4]], plus [0.5 0.25].
  // LAYERS: result 2: tensor<1x2xf32> [21.5, 43.25]
  %x = arith.constant dense<[[1.0, 10.0]]> : tensor<1x2xf32>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %bias = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %y = train.linear %x, %w bias %bias
    : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  // Both transposed: [[1 3] [2 4]] times [[1 3] [2 4]].
  // LAYERS: result 3: tensor<2x2xf32> [7, 15, 10, 22]
  %product = train.matmul %w transposed, %w transposed
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // LAYERS: result 4: tensor<2xf32> [4, 6]
  %sum = train.column_sum %w : (tensor<2x2xf32>) -> tensor<2xf32>
  return %rows, %dtable, %y, %product, %sum
    : tensor<2x2xf32>, tensor<3x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>,
      tensor<2xf32>
}

// The mean of the squares of [4 -4] is 16, so rstd is 0.25 and h is [1 -1];
// the second row is all eps. dweight is dy * h summed over rows; dx is
// rstd * (w dy - h * mean(w dy h)).
func.func @norm() -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>,
                      tensor<2xf32>) {
  %x = arith.constant dense<[[4.0, -4.0], [0.0, 0.0]]> : tensor<2x2xf32>
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // NORM: result 0: tensor<2x2xf32> [1, -2, 0, 0]
  // NORM: result 1: tensor<2xf32> [0.25, 1e+10]
  %y, %rstd = train.rms_norm %x, %w eps 1.0e-20
    : (tensor<2x2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  // w dy is [1 2], the mean of its product with h -0.5.
  // NORM: result 2: tensor<2x2xf32> [0.375, 0.375, 0, 0]
  // NORM: result 3: tensor<2xf32> [1, -1]
  %dy = arith.constant dense<[[1.0, 1.0], [0.0, 0.0]]> : tensor<2x2xf32>
  %dx, %dw = train.rms_norm_grad %dy, %x, %w, %rstd
    : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
   -> (tensor<2x2xf32>, tensor<2xf32>)
  return %y, %rstd, %dx, %dw
    : tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>
}

// Two sequences of two tokens, two heads on one key/value head. Zero queries
// weigh all keys up to their own equally, and see no other sequence.
func.func @attention() -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %q = arith.constant dense<0.0> : tensor<4x2xf32>
  %k = arith.constant dense<3.0> : tensor<4x1xf32>
  %v = arith.constant dense<[[1.0], [3.0], [10.0], [20.0]]> : tensor<4x1xf32>
  // ATTENTION: result 0: tensor<4x2xf32> [1, 1, 2, 2, 10, 10, 15, 15]
  // The sum of one and of two exp(0): log 1 and log 2.
  // ATTENTION: result 1: tensor<4x2xf32> [0, 0, 0.6931472, 0.6931472, 0, 0, 0.6931472, 0.6931472]
  %y, %lse = train.attention %q, %k, %v seq 2 heads 2 of 1 scale 1.0
    : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
   -> (tensor<4x2xf32>, tensor<4x2xf32>)
  return %y, %lse : tensor<4x2xf32>, tensor<4x2xf32>
}

// A quarter turn takes (a, b) to (-b, a), halves apart; the table's rows are
// positions and start again with every sequence. The inverse undoes it.
func.func @rotary() -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0],
                             [5.0, 6.0, 7.0, 8.0], [5.0, 6.0, 7.0, 8.0]]>
    : tensor<4x4xf32>
  %cos = arith.constant dense<[[1.0, 1.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %sin = arith.constant dense<[[0.0, 0.0], [1.0, 0.0]]> : tensor<2x2xf32>
  // ROTARY: result 0: tensor<4x4xf32> [1, 2, 3, 4, -3, 2, 1, 4, 5, 6, 7, 8, -7, 6, 5, 8]
  %y = train.rotary %x, %cos, %sin
    : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x4xf32>
  // ROTARY: result 1: tensor<4x4xf32> [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]
  %back = train.rotary inverse %y, %cos, %sin
    : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x4xf32>
  return %y, %back : tensor<4x4xf32>, tensor<4x4xf32>
}

// Equal logits over two words: log 2 a counted row. An ignored row adds to
// neither sum and has no gradient.
func.func @loss() -> (tensor<f32>, tensor<f32>, tensor<2x2xf32>,
                      tensor<3xf32>) {
  %x = arith.constant dense<0.0> : tensor<2x2xf32>
  %labels = arith.constant dense<[[1, -100]]> : tensor<1x2xi32>
  // LOSS: result 0: tensor<f32> [0.6931472]
  // LOSS: result 1: tensor<f32> [1]
  %loss, %count, %lse = train.cross_entropy %x, %labels
    : (tensor<2x2xf32>, tensor<1x2xi32>)
   -> (tensor<f32>, tensor<f32>, tensor<2xf32>)
  // LOSS: result 2: tensor<2x2xf32> [2, -2, 0, 0]
  %seed = arith.constant dense<4.0> : tensor<f32>
  %dx = train.cross_entropy_grad %seed, %x, %labels, %lse
    : (tensor<f32>, tensor<2x2xf32>, tensor<1x2xi32>, tensor<2xf32>)
   -> tensor<2x2xf32>
  // LOSS: result 3: tensor<3xf32> [0, 0.5, 1]
  %far = arith.constant dense<[-1000.0, 0.0, 1000.0]> : tensor<3xf32>
  %sigmoid = train.sigmoid %far : tensor<3xf32>
  return %loss, %count, %dx, %sigmoid
    : tensor<f32>, tensor<f32>, tensor<2x2xf32>, tensor<3xf32>
}

// A sum of 16-bit values is rounded once at its end: 2048 + 1 + 1 in f16,
// where 2048 + 1 alone would round back to 2048.
func.func @sums() -> (tensor<1xf16>, tensor<1x1xf16>) {
  %x = arith.constant dense<[[2048.0], [1.0], [1.0]]> : tensor<3x1xf16>
  // SUMS: result 0: tensor<1xf16> [2050]
  %sum = train.column_sum %x : (tensor<3x1xf16>) -> tensor<1xf16>
  // SUMS: result 1: tensor<1x1xf16> [2050]
  %ones = arith.constant dense<1.0> : tensor<3x1xf16>
  %product = train.matmul %x transposed, %ones
    : (tensor<3x1xf16>, tensor<3x1xf16>) -> tensor<1x1xf16>
  return %sum, %product : tensor<1xf16>, tensor<1x1xf16>
}

}
