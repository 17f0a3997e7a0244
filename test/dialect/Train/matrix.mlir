// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s

// A row for each token, and its gradient back.

// CHECK-LABEL: func.func @embedding
// CHECK: train.embedding %{{.+}} in %{{.+}} : (tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
// CHECK: train.embedding_grad %{{.+}} at %{{.+}} : (tensor<6x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
func.func @embedding(%tokens: tensor<2x3xi32>, %table: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %dtable = train.embedding_grad %x at %tokens : (tensor<6x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  return %dtable : tensor<8x4xf32>
}

// Weights as Hugging Face stores them: a row for each output.

// CHECK-LABEL: func.func @linear
// CHECK: train.linear %[[X:.+]], %[[W:.+]] : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
// CHECK: train.linear %[[X]], %[[W]] bias %{{.+}} : (tensor<6x4xbf16>, tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<6x8xbf16>
func.func @linear(%x: tensor<6x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xbf16>) -> (tensor<6x8xbf16>, tensor<6x8xbf16>) {
  %0 = train.linear %x, %w : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
  %1 = train.linear %x, %w bias %b : (tensor<6x4xbf16>, tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<6x8xbf16>
  return %0, %1 : tensor<6x8xbf16>, tensor<6x8xbf16>
}

// Each side of a product may be transposed.

// CHECK-LABEL: func.func @matmul
// CHECK: train.matmul %[[A:.+]], %[[B:.+]] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
// CHECK: train.matmul %[[A]] transposed, %{{.+}} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
// CHECK: train.matmul %[[A]], %{{.+}} transposed : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
// CHECK: train.matmul %[[B]] transposed, %[[A]] transposed : (tensor<3x4xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xf32>, %d: tensor<4x3xf32>)
    -> (tensor<2x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>, tensor<4x2xf32>) {
  %0 = train.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = train.matmul %a transposed, %c : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %2 = train.matmul %a, %d transposed : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %3 = train.matmul %b transposed, %a transposed : (tensor<3x4xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
  return %0, %1, %2, %3 : tensor<2x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>, tensor<4x2xf32>
}

// The gradient of a bias.

// CHECK-LABEL: func.func @column_sum
// CHECK: train.column_sum %{{.+}} : (tensor<6x4xf16>) -> tensor<4xf16>
func.func @column_sum(%x: tensor<6x4xf16>) -> tensor<4xf16> {
  %0 = train.column_sum %x : (tensor<6x4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}
