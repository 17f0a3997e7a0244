//===- Passes.td - Passes over the comm dialect ------------*- tablegen -*-===//
#ifndef CIUIC_PASSES_COMM_PASSES_TD
#define CIUIC_PASSES_COMM_PASSES_TD

include "mlir/Pass/PassBase.td"

def ShardStatesPass : Pass<"ciuic-comm-shard-states", "::mlir::ModuleOp"> {
  let summary = "Lays states out in buckets and shares them between ranks.";
  let description = [{
    Turns a step of one device into the step of every rank. Parameters of one
    block move into a bucket; gradients, master copies and moments follow in
    the same layout; ZeRO's stage says which of them a rank holds whole and
    which only its chunk of. At stage 3 over 2 ranks

    ```mlir
    train.state trainable parameter @w : tensor<64x4xf32> init #train.normal<std = 0.02>
    train.state gradient @w.grad of @w : tensor<64x4xf32> init #train.constant<0.0>

    %w = train.read @w : tensor<64x4xf32>
    %y = train.linear %x, %w {train.block = "layers.0"} : ...
    %dx = train.matmul %dy, %w {train.backward, train.block = "layers.0"} : ...
    train.accumulate %dw, @w.grad : tensor<64x4xf32>
    ```

    becomes

    ```mlir
    train.state trainable parameter @w : tensor<64x4xf32> init #train.normal<std = 0.02>
        in @layers.0 at 0
    comm.bucket @layers.0 over <"dp" = 2> elements 256 chunk 128 trainable
    train.state parameter @layers.0.param of @layers.0 sharded : tensor<128xf32> ...
    train.state gradient @layers.0.grad of @layers.0 sharded : tensor<128xf32> ...

    %own = train.read @layers.0.param : tensor<128xf32>
    %fwd = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : ...
    %w_fwd = comm.unpack %fwd at 0 : tensor<256xf32> -> tensor<64x4xf32>
    %y = train.linear %x, %w_fwd {train.block = "layers.0"} : ...
    %bwd = comm.all_gather %own over <"dp" = 2> for "layers.0.bwd" : ...
    %w_bwd = comm.unpack %bwd at 0 : tensor<256xf32> -> tensor<64x4xf32>
    %dx = train.matmul %dy, %w_bwd {train.backward, train.block = "layers.0"} : ...
    %flat = comm.pack %dw at [0] : (tensor<64x4xf32>) -> tensor<256xf32>
    %mean = comm.reduce_scatter mean %flat over <"dp" = 2> for "layers.0.grad" : ...
    train.accumulate %mean, @layers.0.grad : tensor<128xf32>
    ```

    A parameter belongs to the block of the op that uses it first. A block has
    a bucket `@block`, one `@block.frozen` for what no optimizer updates, and
    `.whole` ones for parameters below the persistence threshold. Members keep
    their initialisers: the storage of a bucket (`.param`, `.master`) starts
    as what its members say, zero between them.

    `@apply_step` updates buckets: the sum of squares is taken over chunks and
    then over ranks, metrics are summed over ranks, `slots` is multiplied by
    the number of ranks, members without weight decay become `undecayed`
    ranges of their bucket. An `adam` or `sgd` that works on a chunk has the
    attribute `comm.chunked`.

    Requires: differentiated `train` IR, precision lowered, of straight-line
    functions. Ensures: what `ciuic-verify-sharded` checks. The axis is there
    for one rank too; `ciuic-comm-elide-trivial-collectives` removes what is
    then left to do.
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1",
           "Ranks that share the states.">,
    Option<"stage", "stage", "int64_t", /*default=*/"0",
           "ZeRO stage: 0 nothing, 1 optimizer states, 2 gradients too, "
           "3 parameters too are in chunks.">,
    Option<"axis", "axis", "std::string", /*default=*/"\"dp\"",
           "Name of the mesh axis that the ranks form.">,
    Option<"persistenceThreshold", "persistence-threshold", "int64_t",
           /*default=*/"0",
           "At stage 3, parameters of fewer elements stay whole.">,
    Option<"minBucketElements", "min-bucket-elements", "int64_t",
           /*default=*/"0",
           "Neighbouring blocks of fewer elements share a bucket; 0 gives each "
           "block its own.">,
    Option<"maxBucketElements", "max-bucket-elements", "int64_t",
           /*default=*/"0",
           "Buckets of more elements are split between parameters; 0 leaves "
           "them whole.">,
    Option<"communicationType", "communication-type", "std::string",
           /*default=*/"\"\"",
           "Element type in which gradients travel: f32, bf16, f16; empty for "
           "f32 at stages 0 and 1 and the gradient's own at 2 and 3.">,
  ];
  let dependentDialects = [
    "::ciuic::comm::CommDialect", "::mlir::arith::ArithDialect",
  ];
}

def ElideTrivialCollectivesPass
    : Pass<"ciuic-comm-elide-trivial-collectives"> {
  let summary = "Removes collectives between one rank and itself.";
  let description = [{
    Over an axis of one rank a gather, a reduction and a chunk are all their
    own operand:

    ```mlir
    %full = comm.all_gather %own over <"dp" = 1> for "layers.0.fwd"
          : tensor<256xf32> -> tensor<256xf32>
    use(%full)
    // becomes
    use(%own)
    ```

    Requires: verified comm IR. Ensures: no op of the comm dialect names an
    axis of size 1, but for buckets.
  }];
}

#endif // CIUIC_PASSES_COMM_PASSES_TD
