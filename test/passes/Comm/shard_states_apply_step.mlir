// What an apply step does on buckets at each stage.
//
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=0" | FileCheck %s --check-prefixes=ALL,ZERO
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=1" | FileCheck %s --check-prefixes=ALL,ONE
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=2" | FileCheck %s --check-prefixes=ALL,TWO
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" | FileCheck %s --check-prefixes=ALL,THREE

// Metrics are sums over ranks wherever the step reads them.

// ALL-LABEL: func.func @apply_step
// ALL: %[[TOKENS:.+]] = comm.all_reduce sum %metric.tokens over #axis for "metric.tokens"
// ALL: %[[LOSS:.+]] = comm.all_reduce sum %metric.loss over #axis for "metric.loss"

// Gradients meet here at stages 0 (all on every rank) and 1 (a chunk each).

// ZERO: %[[G0:.+]] = comm.all_reduce mean %embed.grad over #axis for "embed.grad" : tensor<256xf32>
// ZERO: %[[G1:.+]] = comm.all_reduce mean %layers.0.grad over #axis for "layers.0.grad" : tensor<512xf32>
// ONE: %[[G0:.+]] = comm.reduce_scatter mean %embed.grad over #axis for "embed.grad" : tensor<256xf32> -> tensor<128xf32>
// ONE: %[[G1:.+]] = comm.reduce_scatter mean %layers.0.grad over #axis for "layers.0.grad" : tensor<512xf32> -> tensor<256xf32>
// TWO-NOT: comm.reduce_scatter
// TWO: %[[G1:.+]] = train.read @layers.0.grad : tensor<256xf32>
// THREE-NOT: comm.reduce_scatter
// THREE: %[[G1:.+]] = train.read @layers.0.grad : tensor<256xf32>

// Squares of chunks are summed over ranks; whole gradients are equal already.

// ALL: %[[SQ:.+]] = train.square_sum %{{.+}}, %[[G1]]
// ZERO-NOT: "grad_norm"
// ZERO: train.grad_scale %[[SQ]], %[[TOKENS]], %{{.+}} slots 1.600000e+01 clip 1.0
// ONE: %[[SUM:.+]] = comm.all_reduce sum %[[SQ]] over #axis for "grad_norm" : tensor<f64>
// ONE: train.grad_scale %[[SUM]], %[[TOKENS]], %{{.+}} slots 1.600000e+01 clip 1.0
// TWO: comm.all_reduce sum %[[SQ]] over #axis for "grad_norm" : tensor<f64>
// THREE: comm.all_reduce sum %[[SQ]] over #axis for "grad_norm" : tensor<f64>

// One update a bucket, on what the rank owns. The norm's weight and the bias
// take no decay: elements [0, 8) and [256, 264) of their bucket.

// ONE: %[[P:.+]] = train.read @layers.0.param : tensor<512xf32>
// ONE: %[[OWN:.+]] = comm.chunk %[[P]] of #axis : tensor<512xf32> -> tensor<256xf32>
// TWO: %[[P:.+]] = train.read @layers.0.param : tensor<512xf32>
// TWO: %[[OWN:.+]] = comm.chunk %[[P]] of #axis : tensor<512xf32> -> tensor<256xf32>
// THREE: %[[OWN:.+]] = train.read @layers.0.param : tensor<256xf32>
// ZERO: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %layers.0.param, %[[G1]], %layers.0.exp_avg, %layers.0.exp_avg_sq
// ZERO-NOT: comm.chunked
// ZERO-SAME: undecayed = array<i64: 0, 8, 256, 264>
// ONE: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[OWN]], %[[G1]]
// ONE-SAME: comm.chunked
// ONE-SAME: undecayed = array<i64: 0, 8, 256, 264>
// TWO: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[OWN]], %[[G1]]
// THREE: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[OWN]], %[[G1]]

// Whole parameters are gathered from the chunks that the ranks updated.

// ZERO: train.write %[[NEXT]], @layers.0.param : tensor<512xf32>
// ONE: %[[FULL:.+]] = comm.all_gather %[[NEXT]] over #axis for "layers.0.apply" : tensor<256xf32> -> tensor<512xf32>
// ONE: train.write %[[FULL]], @layers.0.param : tensor<512xf32>
// TWO: %[[FULL:.+]] = comm.all_gather %[[NEXT]] over #axis for "layers.0.apply"
// TWO: train.write %[[FULL]], @layers.0.param : tensor<512xf32>
// THREE-NOT: comm.all_gather
// THREE: train.write %[[NEXT]], @layers.0.param : tensor<256xf32>

// ALL: train.write %{{.+}}, @layers.0.exp_avg_sq

// The mean loss is over the tokens of all ranks.

// ALL: %[[MOST:.+]] = arith.maximumf %[[TOKENS]]
// ALL: arith.divf %[[LOSS]], %[[MOST]]
