// RUN: split-file %s %t
// RUN: ciuic-opt %t/steps.mlir --split-input-file --verify-diagnostics \
// RUN:   --ciuic-train-append-optimizer
// RUN: not ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=beta1=1.0 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BETA
// RUN: not ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=base=nan 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NAN
// RUN: not ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=accumulation=0 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ACCUMULATION
// RUN: not ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=kind=WarmupCosineLR 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TOTAL
// RUN: not ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=optimizer=lion 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: ciuic-opt %t/good.mlir --ciuic-train-append-optimizer=no-decay=embed 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PATTERN

// Options out of range are refused with what was found and expected.
// BETA: error: beta1 is 1.0{{.*}}, expected a number in [0, 1)
// NAN: error: base is {{.*}}, expected a finite number of 0 or more
// ACCUMULATION: error: accumulation is 0.0{{.*}}, expected at least 1
// TOTAL: error: schedule WarmupCosineLR has warmup 1000 and total 0, expected a warmup of 0 or more and a total of at least 1
// UNKNOWN: Cannot find option named 'lion'

// A pattern that takes nothing is a likely mistake, but none of the program's.
// PATTERN: warning: no-decay pattern 'embed' matches no trainable parameter

//--- good.mlir
module @good {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state metric @metric.loss : tensor<f32> init #train.constant<0.0>
  train.state metric @metric.tokens : tensor<f32> init #train.constant<0.0>
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
}

//--- steps.mlir
// An optimizer step needs a micro-step before it.
// expected-error @below {{holds no function @micro_step; expected a differentiated module}}
module @nothing {
}

// -----

// Appending twice would update twice.
module @twice {
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  // expected-error @below {{there is an @apply_step already}}
  func.func @apply_step() {
    return
  }
}

// -----

// A trainable parameter without a gradient cannot be updated.
module @no_gradient {
  // expected-error @below {{trainable parameter @w has no gradient state; expected a differentiated module}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
}

// -----

// The counter of steps has its own name.
// expected-error @below {{needs the name @step for a scalar state, but it is taken}}
module @taken {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  // expected-note @below {{by this train.state}}
  train.state table @step : tensor<4xf32> init #train.constant<1.0>
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
}
