//===- SchedDialect.td - The sched dialect, its attributes -*- tablegen -*-===//
#ifndef CIUIC_DIALECT_SCHED_SCHEDDIALECT_TD
#define CIUIC_DIALECT_SCHED_SCHEDDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::ciuic::sched";
  let summary = "One rank's program: tasks on streams over planned buffers.";
  let description = [{
    ```
    train + comm -> sched -> bundle
    ```

    A `sched.program` is a list of tasks, each on one stream. A task may start
    when the previous task of its stream and the tasks it comes `after` are
    done; nothing else orders tasks. Operands are views of `sched.buffer`s,
    which live in arenas and, once allocated, have offsets. The program is the
    same for every rank: a rank shows only as `rank * stride` in a view.

    The module says how many ranks run it, `sched.ranks` (1 to 65536), and,
    once allocated, how large one rank's arenas are, `sched.arena.device`,
    `sched.arena.host` and, where it has one, `sched.arena.nvme`, in bytes; all
    are of type i64. The arena `nvme` is a file: only copies on the stream
    `disk`, between it and host memory, touch it. `sched.disk_alignment`, a
    power of 2 from 512 to 65536, is what places in that file and, with it, in
    host memory are multiples of. `sched.target` is what
    the device tasks are made for, "cpu" (also if absent) or "cuda", then with
    `sched.architectures`, such as "sm_80,sm_90a". `sched.rates` is how fast
    the machine is that the plan is for, "f32=1.3e+13,memory=1.3e+12,..." (see
    `dialect/Sched/Rates.h`); what it does not say is as usual for the target. A
    copy that serves one use-group alone has its name as `sched.use`.
  }];
  let hasOperationAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

def Sched_Arena : I32EnumAttr<"Arena", "A memory that holds buffers", [
  I32EnumAttrCase<"Device", 0, "device">,
  I32EnumAttrCase<"Host", 1, "host">,
  I32EnumAttrCase<"Nvme", 2, "nvme">,
]> {
  let cppNamespace = "::ciuic::sched";
  let genSpecializedAttr = 0;
}
def Sched_ArenaAttr : EnumAttr<Sched_Dialect, Sched_Arena, "arena"> {
  let assemblyFormat = "`` $value";
}

def Sched_Stream : I32EnumAttr<"Stream", "Where a task queues", [
  I32EnumAttrCase<"Compute", 0, "compute">,
  I32EnumAttrCase<"Gather", 1, "gather">,
  I32EnumAttrCase<"Reduce", 2, "reduce">,
  I32EnumAttrCase<"H2D", 3, "h2d">,
  I32EnumAttrCase<"D2H", 4, "d2h">,
  I32EnumAttrCase<"Host", 5, "host">,
  I32EnumAttrCase<"Disk", 6, "disk">,
]> {
  let cppNamespace = "::ciuic::sched";
  let genSpecializedAttr = 0;
}
def Sched_StreamAttr : EnumAttr<Sched_Dialect, Sched_Stream, "stream"> {
  let assemblyFormat = "`` $value";
}

def Sched_Access : I32EnumAttr<"Access", "What a task does to a view", [
  I32EnumAttrCase<"Read", 0, "read">,
  I32EnumAttrCase<"Write", 1, "write">,
  I32EnumAttrCase<"Update", 2, "update">,
]> {
  let cppNamespace = "::ciuic::sched";
}

/// The order and names of ciuic::abi::TaskKind, where each kind's views,
/// ints and reals are described.
def Sched_Kind : I32EnumAttr<"Kind", "What a task does", [
  I32EnumAttrCase<"Launch", 0, "launch">,
  I32EnumAttrCase<"Gemm", 1, "gemm">,
  I32EnumAttrCase<"AttentionForward", 2, "attention">,
  I32EnumAttrCase<"AttentionBackward", 3, "attention_grad">,
  I32EnumAttrCase<"Embedding", 4, "embedding">,
  I32EnumAttrCase<"EmbeddingGrad", 5, "embedding_grad">,
  I32EnumAttrCase<"CrossEntropy", 6, "cross_entropy">,
  I32EnumAttrCase<"CrossEntropyGrad", 7, "cross_entropy_grad">,
  I32EnumAttrCase<"ColumnSum", 8, "column_sum">,
  I32EnumAttrCase<"NormWeightGrad", 9, "norm_weight_grad">,
  I32EnumAttrCase<"Copy", 10, "copy">,
  I32EnumAttrCase<"Zero", 11, "zero">,
  I32EnumAttrCase<"Accumulate", 12, "accumulate">,
  I32EnumAttrCase<"AllGather", 13, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 14, "reduce_scatter">,
  I32EnumAttrCase<"AllReduce", 15, "all_reduce">,
  I32EnumAttrCase<"SquareSum", 16, "square_sum">,
  I32EnumAttrCase<"SumSlots", 17, "sum_slots">,
  I32EnumAttrCase<"GradScale", 18, "grad_scale">,
  I32EnumAttrCase<"LearningRate", 19, "learning_rate">,
  I32EnumAttrCase<"Advance", 20, "advance">,
  I32EnumAttrCase<"UpdateLossScale", 21, "update_loss_scale">,
  I32EnumAttrCase<"Adam", 22, "adam">,
  I32EnumAttrCase<"Sgd", 23, "sgd">,
  I32EnumAttrCase<"CrossEntropyWithGrad", 24, "cross_entropy_with_grad">,
]> {
  let cppNamespace = "::ciuic::sched";
  let genSpecializedAttr = 0;
}
def Sched_KindAttr : EnumAttr<Sched_Dialect, Sched_Kind, "kind"> {
  let assemblyFormat = "`` $value";
}

def Sched_ViewAttr : AttrDef<Sched_Dialect, "View"> {
  let mnemonic = "view";
  let summary = "A typed window into a buffer, and what a task does to it.";
  let description = [{
    Row-major and dense from byte `offset + rank * rank_stride` of `buffer`.
    The bytes a view can touch over all ranks follow from it.

    Constraints:
    - (C1) no offset or stride is negative.
    - (C2) the type has a static shape of at most 2 dimensions, elements of
      whole bytes, and at most 2^48 bytes.

    Example: `#sched.view<read @buf.h [256] : tensor<64x128xf32>>`,
    with a rank: `#sched.view<update @buf.w [0 + rank * 512] : ...>`.
  }];
  let parameters = (ins
    EnumParameter<Sched_Access>:$access,
    "::mlir::FlatSymbolRefAttr":$buffer,
    "int64_t":$offset,
    DefaultValuedParameter<"int64_t", "0">:$rank_stride,
    "::mlir::RankedTensorType":$type
  );
  let assemblyFormat = [{
    `<` $access $buffer `[` $offset (`+` `rank` `*` $rank_stride^)? `]`
    `:` $type `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes that one rank's window spans.
    int64_t getBytes();
    bool writes() { return getAccess() != Access::Read; }
  }];
}

def Sched_Event : TypeDef<Sched_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "That a task is done.";
}

#endif // CIUIC_DIALECT_SCHED_SCHEDDIALECT_TD
