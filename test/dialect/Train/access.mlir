// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s
// RUN: ciuic-opt %s --cse --canonicalize | FileCheck %s --check-prefix=CLEAN

train.state trainable parameter @model.norm.weight : tensor<4xf32> init #train.constant<1.0>
train.state gradient @model.norm.weight.grad of @model.norm.weight : tensor<4xf32> init #train.constant<0.0>
train.state metric @metric.loss : tensor<f32> init #train.constant<0.0>

// A value that is read is named after its state.

// CHECK-LABEL: func.func @read_write
// CHECK: %model.norm.weight = train.read @model.norm.weight : tensor<4xf32>
// CHECK: train.write %model.norm.weight, @model.norm.weight : tensor<4xf32>
func.func @read_write() {
  %0 = train.read @model.norm.weight : tensor<4xf32>
  train.write %0, @model.norm.weight : tensor<4xf32>
  return
}

// Narrower values are added to wider states.

// CHECK-LABEL: func.func @accumulate
// CHECK: train.accumulate %{{.+}}, @model.norm.weight.grad : tensor<4xbf16>
// CHECK: train.accumulate %{{.+}}, @metric.loss : tensor<f32>
func.func @accumulate(%grad: tensor<4xbf16>, %loss: tensor<f32>) {
  train.accumulate %grad, @model.norm.weight.grad : tensor<4xbf16>
  train.accumulate %loss, @metric.loss : tensor<f32>
  return
}

// Reads are values on entry: equal ones merge, unused ones go, and a write
// between them changes nothing. Writes and accumulations stay.

// CLEAN-LABEL: func.func @clean_up
// CLEAN-NEXT: %[[W:.+]] = train.read @model.norm.weight
// CLEAN-NEXT: train.write %[[W]]
// CLEAN-NEXT: train.accumulate %[[W]]
// CLEAN-NEXT: train.accumulate %[[W]]
// CLEAN-NEXT: return %[[W]]
func.func @clean_up() -> tensor<4xf32> {
  %unused = train.read @model.norm.weight.grad : tensor<4xf32>
  %0 = train.read @model.norm.weight : tensor<4xf32>
  train.write %0, @model.norm.weight : tensor<4xf32>
  %1 = train.read @model.norm.weight : tensor<4xf32>
  train.accumulate %1, @model.norm.weight.grad : tensor<4xf32>
  train.accumulate %0, @model.norm.weight.grad : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A recompute region has inputs and results of its own.

// CHECK-LABEL: func.func @recompute
// CHECK: train.recompute "layers.0"(%{{.+}}, %{{.+}}) {train.block = "layers.0"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT: ^bb0(%[[A:.+]]: tensor<4xf32>, %[[B:.+]]: tensor<4xf32>):
// CHECK-NEXT: %[[C:.+]] = arith.addf %[[A]], %[[B]]
// CHECK-NEXT: train.yield %[[C]], %[[A]] : tensor<4xf32>, tensor<4xf32>

// Cleaning up does not see through it.

// CLEAN-LABEL: func.func @recompute
// CLEAN: arith.addf
// CLEAN: train.recompute "layers.0"
// CLEAN: arith.addf
// CLEAN: train.yield
func.func @recompute(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %sum = arith.addf %a, %b : tensor<4xf32>
  %0:2 = train.recompute "layers.0"(%a, %b) {train.block = "layers.0"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%c: tensor<4xf32>, %d: tensor<4xf32>):
    %e = arith.addf %c, %d : tensor<4xf32>
    train.yield %e, %c : tensor<4xf32>, tensor<4xf32>
  }
  return %sum, %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
