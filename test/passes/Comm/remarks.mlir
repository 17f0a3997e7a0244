// What sharding and placement decide, and what it costs.
//
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3 persistence-threshold=10" --ciuic-comm-offload-optimizer=ratio=0.5 --ciuic-comm-recompute-blocks --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states --ciuic-comm-elide-trivial-collectives --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3 persistence-threshold=10" --ciuic-comm-recompute-ops --ciuic-comm-keep-gathered=count=1 --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=ROOM
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3 persistence-threshold=10" --ciuic-comm-recompute-blocks=count=0 --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=LEFT

// CHECK-DAG: Bucket {{.*}}"embed: members 1, elements 256 (1024 bytes), 128 a rank, padding 128; optimizer states, gradients and parameters in chunks"
// CHECK-DAG: Persistent {{.*}}"layers.0.norm.weight stays whole on every rank: 8 elements, fewer than 10"
// CHECK-DAG: Bucket {{.*}}"layers.0.whole: members 2, elements 256 (1024 bytes), 128 a rank, padding 0; optimizer states and gradients in chunks"
// CHECK-DAG: TiedGather {{.*}}"bucket embed is gathered again for head.fwd: 1024 bytes"
// CHECK-DAG: TiedGather {{.*}}"bucket embed is gathered again for head.bwd: 1024 bytes"
// CHECK-DAG: MicroStep {{.*}}"@micro_step gathers 5120 bytes in 5 gathers and reduces 3072 bytes in 3 reductions over 2 ranks"
// CHECK-DAG: ApplyStep {{.*}}"@apply_step gathers 1024 bytes and reduces 0 bytes over 2 ranks"
// CHECK-DAG: OptimizerOffloaded {{.*}}"embed keeps 1536 bytes a rank on the host; a step moves 512 bytes there and 512 back"
// CHECK-DAG: NotOffloaded {{.*}}"the share of 0.5{{0*}} is offloaded without these 128 elements"
// CHECK-DAG: OptimizerShare {{.*}}"1 of 3 buckets are offloaded, 128 of 384 elements a rank: a share of 0.33{{3*}}, wanted 0.5{{0*}}"
// CHECK-DAG: Recomputed {{.*}}"layers.0 keeps 144 bytes fewer until its backward, which repeats 1 ops of 128 flops"
// CHECK-DAG: NotRecomputed {{.*}}"head holds the loss: its backward follows at once"

// ONE: CollectivesElided {{.*}}"4 collectives over one rank moved nothing"

// ROOM-DAG: OpRecomputed {{.*}}"layers.0.rms_norm keeps 144 bytes fewer until its backward, which repeats 1 ops of 128 flops"
// ROOM-DAG: GatheredKept {{.*}}"head keeps 1024 gathered bytes until its backward, which gathers 1 buckets fewer"
// ROOM-DAG: GatheredAgain {{.*}}"1 blocks gather again in their backward: 1 were to keep what they have"

// LEFT-DAG: NotRecomputed {{.*}}"1 more blocks could be computed again: 0 were asked for"
