// RUN: ciuic-opt %s --ciuic-train-differentiate=accumulation=2 --mlir-print-local-scope | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate --cse --canonicalize --cse \
// RUN:   --ciuic-train-append-optimizer --ciuic-verify-differentiated

// A tied model with a residual, SiLU and a frozen norm: the forward twice, once
// with its backward. The tied weight has two gradients, which are added.

// CHECK-LABEL: module @tied
module @tied {
  // CHECK: train.state trainable parameter @embed.weight
  train.state trainable parameter @embed.weight : tensor<8x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state parameter @norm.weight
  train.state parameter @norm.weight : tensor<4xf32> init #train.constant<1.0>
  // CHECK: train.state trainable parameter @proj.bias
  train.state trainable parameter @proj.bias : tensor<4xf32> init #train.constant<0.0>
  train.state trainable parameter @proj.weight : tensor<4x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state gradient @embed.weight.grad of @embed.weight : tensor<8x4xf32> init #train.constant<0.000000e+00>
  // CHECK-NOT: @norm.weight.grad
  // CHECK: train.state gradient @proj.bias.grad of @proj.bias : tensor<4xf32>
  // CHECK: train.state gradient @proj.weight.grad of @proj.weight : tensor<4x4xf32>
  // CHECK: train.state metric @metric.loss : tensor<f32>
  // CHECK: train.state metric @metric.tokens : tensor<f32>
  // CHECK: train.state metric @metric.eval_loss : tensor<f32>
  // CHECK: train.state metric @metric.eval_tokens : tensor<f32>

  // CHECK-NOT: @forward
  // CHECK-LABEL: func.func @eval_step
  // CHECK-SAME: (%{{.*}}: tensor<1x4xi32>, %{{.*}}: tensor<1x4xi32>) {
  // CHECK: %[[LOSS:.+]], %[[COUNT:.+]], %{{.+}} = train.cross_entropy
  // CHECK-NEXT: train.accumulate %[[LOSS]], @metric.eval_loss {train.block = "head"}
  // CHECK-NEXT: train.accumulate %[[COUNT]], @metric.eval_tokens {train.block = "head"}
  // CHECK-NEXT: return

  // CHECK-LABEL: func.func @micro_step
  // CHECK-SAME: (%[[TOKENS:.+]]: tensor<1x4xi32>, %[[LABELS:.+]]: tensor<1x4xi32>) {
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    // CHECK-NEXT: %[[EMBED:.+]] = train.read @embed.weight
    %embed = train.read @embed.weight {train.block = "embed"} : tensor<8x4xf32>
    // CHECK-NEXT: %[[X:.+]] = train.embedding
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: %[[NORM:.+]] = train.read @norm.weight
    %norm = train.read @norm.weight {train.block = "layers.0"} : tensor<4xf32>
    // CHECK-NEXT: %[[N:.+]], %[[RSTD:.+]] = train.rms_norm
    %n, %rstd = train.rms_norm %x, %norm eps 1.0e-5 {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    // CHECK-NEXT: %[[W:.+]] = train.read @proj.weight
    %w = train.read @proj.weight {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK-NEXT: train.read @proj.bias
    %b = train.read @proj.bias {train.block = "layers.0"} : tensor<4xf32>
    // CHECK-NEXT: %[[GATE:.+]] = train.linear
    %gate = train.linear %n, %w bias %b {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: %[[S:.+]] = train.sigmoid
    %s = train.sigmoid %gate {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK-NEXT: arith.mulf
    %silu = arith.mulf %gate, %s {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK-NEXT: %[[R:.+]] = arith.addf
    %r = arith.addf %x, %silu {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK-NEXT: %[[LOGITS:.+]] = train.linear
    %logits = train.linear %r, %embed {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[LOSS:.+]], %[[COUNT:.+]], %[[LSE:.+]] = train.cross_entropy
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    // CHECK-NEXT: train.accumulate %[[LOSS]], @metric.loss {train.block = "head"}
    // CHECK-NEXT: train.accumulate %[[COUNT]], @metric.tokens {train.block = "head"}

    // 1 / (4 tokens * 2 micro-steps).
    // CHECK-NEXT: %[[SEED:.+]] = arith.constant {train.backward, train.block = "head", train.seed} dense<1.250000e-01> : tensor<f32>
    // CHECK-NEXT: %[[DLOGITS:.+]] = train.cross_entropy_grad %[[SEED]], %[[LOGITS]], %[[LABELS]], %[[LSE]] {train.backward, train.block = "head"}
    // CHECK-NEXT: %[[DR:.+]] = train.matmul %[[DLOGITS]], %[[EMBED]] {train.backward, train.block = "head"}
    // CHECK-NEXT: %[[DHEAD:.+]] = train.matmul %[[DLOGITS]] transposed, %[[R]] {train.backward, train.block = "head"}
    // The residual's gradient is the sum's own: nothing is emitted for it.
    // CHECK-NEXT: %[[DGATE0:.+]] = arith.mulf %[[DR]], %[[S]] {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: %[[DS:.+]] = arith.mulf %[[DR]], %[[GATE]]
    // CHECK-NEXT: %[[SS:.+]] = arith.mulf %[[S]], %[[S]]
    // CHECK-NEXT: %[[SLOPE:.+]] = arith.subf %[[S]], %[[SS]]
    // CHECK-NEXT: %[[DGATE1:.+]] = arith.mulf %[[DS]], %[[SLOPE]]
    // CHECK-NEXT: %[[DGATE:.+]] = arith.addf %[[DGATE0]], %[[DGATE1]]
    // CHECK-NEXT: %[[DN:.+]] = train.matmul %[[DGATE]], %[[W]]
    // CHECK-NEXT: %[[DW:.+]] = train.matmul %[[DGATE]] transposed, %[[N]]
    // CHECK-NEXT: %[[DB:.+]] = train.column_sum %[[DGATE]]
    // Both are complete, so both are accumulated now, in the order of states.
    // CHECK-NEXT: train.accumulate %[[DB]], @proj.bias.grad {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: train.accumulate %[[DW]], @proj.weight.grad {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: %[[DX0:.+]], %{{.+}} = train.rms_norm_grad %[[DN]], %[[X]], %[[NORM]], %[[RSTD]]
    // CHECK-NEXT: %[[DX:.+]] = arith.addf %[[DR]], %[[DX0]] {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: %[[DTABLE:.+]] = train.embedding_grad %[[DX]] at %[[TOKENS]] {train.backward, train.block = "embed"}
    // CHECK-NEXT: %[[DEMBED:.+]] = arith.addf %[[DHEAD]], %[[DTABLE]] {train.backward, train.block = "embed"}
    // CHECK-NEXT: train.accumulate %[[DEMBED]], @embed.weight.grad {train.backward, train.block = "embed"}
    // CHECK-NEXT: return
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
