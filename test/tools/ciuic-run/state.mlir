// RUN: ciuic-run %s --function main --steps 2 --print --print-state w,w.grad,count \
// RUN:   | FileCheck %s
// RUN: ciuic-run %s --function main --seed 7 --print-state normal | FileCheck %s --check-prefix=SEED
// RUN: ciuic-run %s --function main --seed 7 --print-state normal | FileCheck %s --check-prefix=SEED

module @state {

train.state trainable parameter @w : tensor<2xbf16> init #train.constant<1.0>
train.state gradient @w.grad of @w : tensor<2xf32> init #train.constant<0.0>
train.state scalar @count : tensor<i32> init #train.constant<3.0>
// The same seed gives the same numbers.
// SEED: normal: tensor<2xf32> [[FIRST:.*]]
train.state parameter @normal : tensor<2xf32> init #train.normal<std = 0.5>

// A read sees the value on entry, although the write stands before it; it has
// the type of the state. Accumulation extends, and adds to what is there.

// The second of two calls:
// CHECK: result 0: tensor<2xbf16> [2, 2]
// CHECK: w: tensor<2xbf16> [4, 4]
// CHECK: w.grad: tensor<2xf32> [6, 6]
// CHECK: count: tensor<i32> [3]
func.func @main() -> tensor<2xbf16> {
  %w = train.read @w : tensor<2xbf16>
  %twice = arith.addf %w, %w : tensor<2xbf16>
  train.write %twice, @w : tensor<2xbf16>
  train.accumulate %twice, @w.grad : tensor<2xbf16>
  %again = train.read @w : tensor<2xbf16>
  return %again : tensor<2xbf16>
}

}
