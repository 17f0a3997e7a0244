//===- Passes.td - From mathematics to tasks ---------------*- tablegen -*-===//
#ifndef CIUIC_PASSES_TRAINTOSCHED_PASSES_TD
#define CIUIC_PASSES_TRAINTOSCHED_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToSchedPass : Pass<"ciuic-lower-to-sched", "::mlir::ModuleOp"> {
  let summary = "Lowers train and comm functions to tasks over buffers.";
  let description = [{
    Each function becomes one program, or two where it accumulates: `_first`
    writes gradients and metrics, `_next` adds to them.

    ```mlir
    %q = train.linear %x, %w : (...) -> tensor<64x64xf32>
    // becomes
    %gemm = sched.task gemm "layers.0.self_attn.q_proj" on compute
            [#sched.view<read @buf.x [0] : tensor<64x64xf32>>, ...]
    ```

    What is decided here:
    - Reads, `unpack` and `chunk` become views; nothing is copied.
    - A value is computed straight into where it is going: into a bucket's
      gradient buffer if it is packed, into the state if it is written and no
      later task reads the old value (otherwise a copy ends the program).
    - Optimizer states are updated in place.
    - Pointwise values that only pointwise ops use are never stored: each
      kernel computes them again from what is. Neighbouring pointwise values of
      one shape share a kernel. Equal kernels are emitted once.
    - The gradient of the logits takes the place of the logits where nothing
      else reads them.
    - The module says what its device tasks are made for (`sched.target`,
      `sched.architectures`) and how fast their machine is (`sched.rates`).
    - Host tasks touch host memory alone: the scalars of an optimizer on the
      host (rate, clip factor, step, skip) are copied there, once a program for
      all its buckets.

    - An optimizer whose states lie in files (`space nvme`) works part by part
      of a bucket, each of at most `disk-part` bytes of a state: what it needs
      is read into host memory, on the stream `disk`, while the part before is
      updated, and written back while the next one is.

    What would be lowered to something else than it says is refused: a function
    of another name, a state that is read, written or written twice where it is
    added to, an optimizer's state that is read after its update, states that
    change places, tensors of more than two dimensions or without a place.

    Requires: placed IR. Ensures: only states, buckets, buffers, kernels and
    programs are left in the module; tasks are in program order, each on its
    stream, without events.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"",
           "What runs the device tasks: cpu or cuda.">,
    Option<"architectures", "architectures", "std::string",
           /*default=*/"\"sm_80\"",
           "For cuda: the GPUs, such as sm_80,sm_90a.">,
    Option<"diskPart", "disk-part", "int64_t", /*default=*/"16777216",
           "Bytes of a state in a file that are updated at once.">,
    Option<"diskBuffers", "disk-buffers", "int64_t", /*default=*/"2",
           "Parts of states in files that host memory holds at once.">,
    Option<"rates", "rates", "std::string", /*default=*/"",
           "How fast the machine is, as sched.rates says it; empty: as usual "
           "for the target.">,
  ];
  let dependentDialects = [
    "::ciuic::sched::SchedDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect",
  ];
}

#endif // CIUIC_PASSES_TRAINTOSCHED_PASSES_TD
