//===- SchedOps.td - Buffers, kernels, programs and tasks --*- tablegen -*-===//
#ifndef CIUIC_DIALECT_SCHED_SCHEDOPS_TD
#define CIUIC_DIALECT_SCHED_SCHEDOPS_TD

include "dialect/Sched/SchedDialect.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Sched_Op<string mnemonic, list<Trait> traits = []>
    : Op<Sched_Dialect, mnemonic, traits>;

def Sched_BufferOp : Sched_Op<"buffer", [Symbol]> {
  let summary = "Declares bytes in an arena.";
  let description = [{
    With `state` the bytes live as long as the job; else they belong to
    `program`, whose tasks alone touch them, or (neither) hold a step's inputs
    or a constant. `at` is the offset in bytes that `allocate` decides.

    Constraints:
    - (C1) `bytes` is from 1 to 2^48; `at` is a multiple of 256
      from 0 to 2^60.
    - (C2) a buffer has at most one of `state`, `program` and `constant`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$bytes,
                       Sched_ArenaAttr:$arena,
                       OptionalAttr<FlatSymbolRefAttr>:$state,
                       OptionalAttr<FlatSymbolRefAttr>:$program,
                       OptionalAttr<F64Attr>:$constant,
                       OptionalAttr<I64Attr>:$at);
  let assemblyFormat = [{
    $sym_name $bytes `bytes` `in` $arena (`state` $state^)?
    (`of` $program^)? (`constant` $constant^)? (`at` $at^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Sched_KernelOp : Sched_Op<"kernel", [
  Symbol, IsolatedFromAbove, SingleBlock, NoTerminator,
]> {
  let summary = "The body of a kernel: what one row of its grid does.";
  let description = [{
    The block's first argument is the row; the others are memrefs, one a view
    of the task that launches it, `outputs` of them written, last. The body is
    upstream `scf`, `arith`, `math` and `memref`. Its text holds shapes, never
    layout or rank, so equal bodies are one kernel.

    Constraints:
    - (C1) the block takes an index and then memrefs of static shape, each
      element after the other.
    - (C2) only the last `outputs` memrefs are stored to.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$outputs,
                       OptionalAttr<StrAttr>:$origin);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `outputs` $outputs (`from` $origin^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Sched_ProgramOp : Sched_Op<"program", [
  Symbol, SingleBlock, NoTerminator,
]> {
  let summary = "The tasks that one phase of a step runs.";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Sched_TaskOp : Sched_Op<"task", [
  HasParent<"ProgramOp">,
  DeclareOpInterfaceMethods<SymbolUserOpInterface>,
  DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
  MemoryEffects<[MemRead, MemWrite]>,
]> {
  let summary = "One piece of work on one stream.";
  let description = [{
    What each `kind` does with its views, `ints` and `reals` is said in
    `runtime/abi/Program.h`. `name` is for people: the user's tensor and what
    is done to it. A task with `skip` does nothing where that f32 scalar is
    not 0. `scratch` is bytes that the task alone uses while it runs: nothing
    is read from them that it has not written. It lies in a buffer of the
    program, of which the task is the only user.

    Constraints:
    - (C1) every view lies inside its buffer, for every rank.
    - (C2) a `launch` names a kernel of this module whose arguments have its
      views' shapes and element types; no other kind names one.
    - (C3) `after` names events of earlier tasks of the program (by SSA).
    - (C4) there are as many views, ints and reals as the kind takes, and a
      product's operands are matrices.
    - (C5) a buffer `of` a program is viewed by that program's tasks alone.
    - (C6) `scratch` is written, has one dimension and lies in a buffer `of` the
      program that no view of the task touches.

    Example:

    ```mlir
    %q = sched.task gemm "layers.0.self_attn.q_proj" on compute after (%n)
         [#sched.view<read @buf.x [0] : tensor<64x32xf32>>, ...]
         ints [0, 1, 0]
    ```
  }];
  let arguments = (ins Sched_KindAttr:$kind, StrAttr:$name,
                       Sched_StreamAttr:$stream,
                       Variadic<Sched_Event>:$after,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel,
                       TypedArrayAttrBase<Sched_ViewAttr, "views">:$views,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$ints,
                       DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$reals,
                       OptionalAttr<Sched_ViewAttr>:$skip,
                       OptionalAttr<Sched_ViewAttr>:$scratch);
  let results = (outs Sched_Event:$done);
  let assemblyFormat = [{
    $kind $name `on` $stream (`after` `(` $after^ `)`)? (`kernel` $kernel^)?
    $views (`ints` $ints^)? (`reals` $reals^)? (`skip` $skip^)? (`scratch` $scratch^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // CIUIC_DIALECT_SCHED_SCHEDOPS_TD
