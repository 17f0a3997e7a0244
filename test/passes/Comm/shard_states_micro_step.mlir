// What a micro-step does with parameters and gradients at each stage.
//
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=0" | FileCheck %s --check-prefixes=WHOLE,ZERO
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=1" | FileCheck %s --check-prefixes=WHOLE,ONE
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=2" | FileCheck %s --check-prefix=TWO
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" | FileCheck %s --check-prefix=THREE

// Stages 0 and 1 hold parameters and gradients whole; the optimizer's states
// tell them apart. No rank talks to another in a micro-step.

// WHOLE: train.state trainable parameter @layers.0.proj.weight : tensor<8x8xf32> init #train.normal<std = 2.000000e-02> in @layers.0 at 128
// WHOLE: comm.bucket @layers.0 over #axis elements 512 chunk 256 trainable
// WHOLE: train.state parameter @layers.0.param of @layers.0 : tensor<512xf32>
// WHOLE: train.state gradient @layers.0.grad of @layers.0 : tensor<512xf32>
// ZERO: train.state moment @layers.0.exp_avg of @layers.0 slot "exp_avg" : tensor<512xf32>
// ONE: train.state moment @layers.0.exp_avg of @layers.0 slot "exp_avg" sharded : tensor<256xf32>
// WHOLE-LABEL: func.func @micro_step
// WHOLE-NOT: comm.all_
// WHOLE-NOT: comm.reduce_scatter
// WHOLE: %[[FLAT:.+]] = comm.pack %{{.+}}, %{{.+}}, %{{.+}} at [0, 128, 256]
// WHOLE: train.accumulate %[[FLAT]], @layers.0.grad {{.*}}: tensor<512xf32>
// WHOLE-LABEL: func.func @apply_step

// Stage 2 keeps parameters whole and reduces each gradient to a chunk at once.

// TWO: train.state parameter @layers.0.param of @layers.0 : tensor<512xf32>
// TWO: train.state gradient @layers.0.grad of @layers.0 sharded : tensor<256xf32>
// TWO-LABEL: func.func @micro_step
// TWO-NOT: comm.all_gather
// TWO: %[[FLAT:.+]] = comm.pack %{{.+}}, %{{.+}}, %{{.+}} at [0, 128, 256]
// TWO: %[[MEAN:.+]] = comm.reduce_scatter mean %[[FLAT]] over #axis for "layers.0.grad"
// TWO: train.accumulate %[[MEAN]], @layers.0.grad {{.*}}: tensor<256xf32>
// TWO-LABEL: func.func @apply_step

// Stage 3 gathers a bucket for each (block, direction) that uses it, right
// before the first use. The tied table belongs to the embedding and is
// gathered for the head too; the embedding's backward does not need it.

// THREE: train.state parameter @embed.param of @embed sharded : tensor<128xf32>
// THREE-LABEL: func.func @micro_step
// THREE: %[[EMBED:.+]] = train.read @embed.param : tensor<128xf32>
// THREE: %[[EFWD:.+]] = comm.all_gather %[[EMBED]] over #axis for "embed.fwd"
// THREE: %[[TABLE:.+]] = comm.unpack %[[EFWD]] at 0 {{.*}}tensor<256xf32> -> tensor<16x8xf32>
// THREE: train.embedding %{{.+}} in %[[TABLE]]
// THREE: %[[LAYER:.+]] = train.read @layers.0.param : tensor<256xf32>
// THREE: %[[LFWD:.+]] = comm.all_gather %[[LAYER]] over #axis for "layers.0.fwd"
// THREE: comm.unpack %[[LFWD]] at 0 {{.*}} -> tensor<8xf32>
// THREE: %[[W:.+]] = comm.unpack %[[LFWD]] at 128 {{.*}} -> tensor<8x8xf32>
// THREE: %[[B:.+]] = comm.unpack %[[LFWD]] at 256 {{.*}} -> tensor<8xf32>
// THREE: train.linear %{{.+}}, %[[W]] bias %[[B]]
// THREE: comm.all_gather %[[EMBED]] over #axis for "head.fwd"
// THREE: comm.all_gather %[[EMBED]] over #axis for "head.bwd"
// THREE: %[[LBWD:.+]] = comm.all_gather %[[LAYER]] over #axis for "layers.0.bwd"
// THREE: %[[WB:.+]] = comm.unpack %[[LBWD]] at 128
// THREE: train.matmul %{{.+}}, %[[WB]]
// THREE: comm.reduce_scatter mean %{{.+}} over #axis for "layers.0.grad"
// THREE-NOT: "embed.bwd"
// THREE: comm.reduce_scatter mean %{{.+}} over #axis for "embed.grad"
// THREE-LABEL: func.func @apply_step
