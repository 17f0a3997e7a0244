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

def VerifyShardedPass : Pass<"ciuic-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "The gate after sharding.";
  let description = [{
    Changes nothing. Fails unless

    - every parameter lies in a bucket, at a multiple of 128 elements, inside
      it and apart from the other members;
    - every bucket has one parameter storage and, if trainable, one f32
      gradient (and a master copy of 16-bit parameters), of all its elements
      or, if `sharded`, of one chunk: chunks times ranks is the whole;
    - axes of one name have one size;
    - functions are straight-line, so all ranks run the same collectives in
      the same order, and none hides in a region;
    - no function names a parameter itself, only buckets;
    - `comm.unpack` and `comm.pack` of a bucket name its members;
    - what is gathered for a use-group is only viewed, and only by ops of that
      (block, direction).

    The error names the first state or op at fault.
  }];
}

def OffloadOptimizerPass
    : Pass<"ciuic-comm-offload-optimizer", "::mlir::ModuleOp"> {
  let summary = "Keeps optimizer states in host memory and updates there.";
  let description = [{
    Master copies and moments move to host memory; each update takes its
    gradient there and sends the new parameter back, already in the
    parameter's own type:

    ```mlir
    %next, %m1, %v1 = train.adam %p, %g, %m0, %v0 ...
    train.write %next, @layers.0.master : tensor<128xf32>
    %narrow = arith.truncf %next : tensor<128xf32> to tensor<128xbf16>
    train.write %narrow, @layers.0.param : tensor<128xbf16>
    ```

    becomes

    ```mlir
    %g_host = comm.transfer %g to host : tensor<128xf32>
    %next, %m1, %v1 = train.adam %p, %g_host, %m0, %v0 ...
    train.write %next, @layers.0.master : tensor<128xf32>
    %narrow = arith.truncf %next : tensor<128xf32> to tensor<128xbf16>
    %new = comm.transfer %narrow to device : tensor<128xbf16>
    train.write %new, @layers.0.param : tensor<128xbf16>
    ```

    where `@layers.0.master` and the moments have `space host`. With a `ratio`
    below 1, the buckets whose elements together come nearest to that share of
    all are offloaded, and the other ones updated on the device. Under f32
    training, where a parameter is its own most precise copy, a master copy is
    made on the host, so that no parameter is sent there.

    With `device=nvme` the states have `space nvme`, files; an update takes them
    to the host and gives them back:

    ```mlir
    %p_host = comm.transfer %p to host : tensor<128xf32>
    %m_host = comm.transfer %m0 to host : tensor<128xf32>
    %v_host = comm.transfer %v0 to host : tensor<128xf32>
    %next, %m1, %v1 = train.adam %p_host, %g_host, %m_host, %v_host ...
    %kept = comm.transfer %next to nvme : tensor<128xf32>
    train.write %kept, @layers.0.master : tensor<128xf32>
    ```

    Requires: sharded IR. Ensures: what `ciuic-verify-placed` checks.
  }];
  let options = [
    Option<"ratio", "ratio", "double", /*default=*/"1.0",
           "Share of the optimizer's elements to offload, in whole buckets.">,
    Option<"device", "device", "std::string", /*default=*/"\"cpu\"",
           "Where states are kept: cpu (host memory) or nvme (files).">,
  ];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def OffloadParametersPass
    : Pass<"ciuic-comm-offload-parameters", "::mlir::ModuleOp"> {
  let summary = "Keeps parameters in host memory and copies them up for use.";
  let description = [{
    The storage of buckets moves to host memory. Each use-group copies what it
    needs to the device, and then gathers it if ranks hold chunks:

    ```mlir
    %own = train.read @layers.0.param : tensor<128xbf16>
    %fwd = comm.all_gather %own over <"dp" = 2> for "layers.0.fwd" : ...
    ...
    %bwd = comm.all_gather %own over <"dp" = 2> for "layers.0.bwd" : ...
    ```

    becomes

    ```mlir
    %own = train.read @layers.0.param : tensor<128xbf16>
    %up = comm.transfer %own to device for "layers.0.fwd" : tensor<128xbf16>
    %fwd = comm.all_gather %up over <"dp" = 2> for "layers.0.fwd" : ...
    ...
    %up_2 = comm.transfer %own to device for "layers.0.bwd" : tensor<128xbf16>
    %bwd = comm.all_gather %up_2 over <"dp" = 2> for "layers.0.bwd" : ...
    ```

    where `@layers.0.param` has `space host`. Where a rank holds a bucket
    whole, all of it is copied for each use-group, and unpacked there. The
    copies are ordered ahead of their use when the program is scheduled.

    `@apply_step` sends the new value to the host; where a parameter is its own
    most precise copy, it is copied to the device for its update. An optimizer
    that is offloaded as well (`ciuic-comm-offload-optimizer`, afterwards) has
    no need of these copies and removes them.

    Persistent buckets stay on the device, with a remark.

    Requires: sharded IR; runs after recompute, which finds a block's gathers
    by their chunk. Ensures: what `ciuic-verify-placed` checks.
  }];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def OffloadActivationsPass
    : Pass<"ciuic-comm-offload-activations", "::mlir::ModuleOp"> {
  let summary = "Keeps what a block needs for its backward in host memory.";
  let description = [{
    In `@micro_step`, the forward's values that a block's backward reads go to
    the host as soon as they are there, and come back for that backward:

    ```mlir
    %h = train.linear %x, %w {train.block = "layers.0"} : ...
    ...
    %dw = train.matmul %dy transposed, %h {train.backward, train.block = "layers.0"} : ...
    ```

    becomes

    ```mlir
    %h = train.linear %x, %w {train.block = "layers.0"} : ...
    %kept = comm.transfer %h to host for "layers.0.fwd" : ...
    ...
    %back = comm.transfer %kept to device for "layers.0.bwd" : ...
    ...                                    // The backward of layers.1.
    %dw = train.matmul %dy transposed, %back {train.backward, train.block = "layers.0"} : ...
    ```

    With recompute these are the inputs of what is computed again. A value
    that the backwards of several blocks read goes down once and up for each.
    Pointwise values without storage stay as they are: kernels compute them
    where they need them. The block of the loss is left alone: its backward
    follows its forward at once.

    A copy up stands where it may start, and the program's schedule keeps it
    from starting earlier: where the backward of the block `ahead` before
    begins. So of a block only its neighbours' values are on the device with
    its own.

    Requires: differentiated IR, sharded or not; runs after recompute.
    Ensures: what `ciuic-verify-placed` checks.
  }];
  let options = [
    Option<"blocks", "blocks", "int64_t", /*default=*/"-1",
           "Blocks, from the first, whose values go to the host; -1: all.">,
    Option<"ahead", "ahead", "int64_t", /*default=*/"1",
           "Blocks of the backward before its own with which a copy up may "
           "start.">,
  ];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def RecomputeBlocksPass
    : Pass<"ciuic-comm-recompute-blocks", "::mlir::ModuleOp"> {
  let summary = "Computes a block's forward values again in its backward.";
  let description = [{
    Values of a block's forward that its backward reads are no longer kept:
    `@micro_step` computes them again from the block's inputs, fenced in a
    region, before the block's backward:

    ```mlir
    %h = train.linear %x, %w_fwd {train.block = "layers.0"} : ...
    %y = train.sigmoid %h {train.block = "layers.0"} : ...
    ...
    %dh = use(%dy, %y) {train.backward, train.block = "layers.0"}
    ```

    becomes

    ```mlir
    %h = train.linear %x, %w_fwd {train.block = "layers.0"} : ...
    %y = train.sigmoid %h {train.block = "layers.0"} : ...
    ...
    %y2 = train.recompute "layers.0"(%x, %w_bwd)
        {train.backward, train.block = "layers.0"} : ... {
    ^bb0(%x_in: ..., %w: ...):
      %h2 = train.linear %x_in, %w ...
      %y2 = train.sigmoid %h2 ...
      train.yield %y2 : ...
    }
    %dh = use(%dy, %y2) {train.backward, train.block = "layers.0"}
    ```

    Weights come from the gather of the block's backward, so a bucket is still
    gathered twice and not three times. What other blocks take from a block is
    kept, and not computed again. The block of the loss is left alone: its
    backward follows its forward at once.

    With `count`, the first blocks of which something can be computed again
    are, and the others keep what they keep.

    Requires: differentiated IR, sharded or not. Ensures: no op of such a
    block's backward uses a value of its forward, but for what other blocks use
    too.
  }];
  let options = [
    Option<"count", "count", "int64_t", /*default=*/"-1",
           "Blocks to compute again, counted from the first; -1 for all.">,
  ];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def RecomputeOpsPass : Pass<"ciuic-comm-recompute-ops", "::mlir::ModuleOp"> {
  let summary = "Computes cheap values of a block again in its backward.";
  let description = [{
    Of the values that a block keeps for its backward, those that take little
    work for their size are computed again instead, each before the first op
    that reads it and fenced in a region of its own:

    ```mlir
    %y, %lse = train.attention %q, %k, %v ... {train.block = "layers.0"}
    ...
    %dw = train.matmul %do, %y {train.backward, train.block = "layers.0"}
    ```

    becomes

    ```mlir
    %y, %lse = train.attention %q, %k, %v ... {train.block = "layers.0"}
    ...
    %y2, %lse2 = train.recompute "layers.0.attention"(%q, %k, %v)
        {train.backward, train.block = "layers.0"} : ... {
      ...
    }
    %dw = train.matmul %do, %y2 {train.backward, train.block = "layers.0"}
    ```

    An op is repeated if that frees at least as many bytes a flop as
    repeating its whole block would: where attention costs more, over long
    sequences of a narrow model, whole blocks are the better choice. Products
    are kept. An op that would have to keep as much as it frees is left alone,
    and so is the block of the loss.

    Blocks that `ciuic-comm-recompute-blocks` computes again are passed over;
    of the others, `count` says how many are looked at.

    Requires: differentiated IR, sharded or not. Ensures: repeated values are
    read by no op of the backward; parameters come from the backward's gather.
  }];
  let options = [
    Option<"count", "count", "int64_t", /*default=*/"-1",
           "Blocks to look at, counted from the first; -1 for all.">,
  ];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def KeepGatheredPass : Pass<"ciuic-comm-keep-gathered", "::mlir::ModuleOp"> {
  let summary = "Lets one gather serve a block's forward and its backward.";
  let description = [{
    Where parameters are in chunks, a block gathers them for its forward and
    again for its backward. In the last `count` blocks that do, the backward
    uses what the forward gathered:

    ```mlir
    %fwd = comm.all_gather %own over <"dp" = 2> for "layers.3.fwd" : ...
    %y = use(%fwd)
    %bwd = comm.all_gather %own over <"dp" = 2> for "layers.3.bwd" : ...
    %dx = use(%bwd)
    // becomes
    %fwd = comm.all_gather %own over <"dp" = 2> for "layers.3.fwd" : ...
    %y = use(%fwd)
    %dx = use(%fwd)
    ```

    The last blocks come first since they wait the least: the block of the loss
    hardly at all.

    Requires: sharded IR, computed again or not. Ensures: no such block gathers
    a bucket twice.
  }];
  let options = [
    Option<"count", "count", "int64_t", /*default=*/"-1",
           "Blocks that keep what they gathered, counted from the last; -1 for "
           "all.">,
  ];
  let dependentDialects = ["::ciuic::comm::CommDialect"];
}

def VerifyPlacedPass : Pass<"ciuic-verify-placed", "::mlir::ModuleOp"> {
  let summary = "The gate after placement.";
  let description = [{
    Changes nothing. Fails unless

    - each op other than `comm.transfer` takes its tensors from one memory,
      scalars apart, and a state is written from the memory that holds it;
    - what lies in files (`nvme`) is only brought to the host, and what goes
      there comes from the host;
    - collectives work on device memory, and so do all functions but
      `@apply_step`, which read states of the host only to copy them to the
      device;
    - only parameters, master copies and moments of buckets live on the host,
      of the last two all those of a bucket or none;
    - where a block is computed again, its backward reads nothing of its
      forward but what other blocks use too.

    The error names the first state or op at fault.
  }];
}

#endif // CIUIC_PASSES_COMM_PASSES_TD
