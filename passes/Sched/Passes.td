//===- Passes.td - Passes over the sched dialect -----------*- tablegen -*-===//
#ifndef CIUIC_PASSES_SCHED_PASSES_TD
#define CIUIC_PASSES_SCHED_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderTasksPass : Pass<"ciuic-sched-order-tasks", "::mlir::ModuleOp"> {
  let summary = "Says which tasks each task must wait for.";
  let description = [{
    Two tasks of a program that touch the same bytes, one of them writing, keep
    their program order: by their stream if they share one, else by an event.
    An event that others imply is left out.

    ```mlir
    %0 = sched.task all_gather "..." on gather [.., write @buf.w ..]
    %1 = sched.task gemm "..." on compute [.., read @buf.w ..]
    // becomes
    %1 = sched.task gemm "..." on compute after (%0) [..]
    ```

    Work on the other streams is kept from running too far ahead, so that its
    buffers can be reused:
    - A gather (or copy of a state, or for a use-group) starts when the bucket
      `prefetch` before it is first used. 0: only when it is needed itself. So
      does a copy to the host. It starts later than that if the work left before
      its use takes at least `slack` times as long as it does, by the module's
      rates: what it fills then overlaps less.
    - The buffer of a reduction (or copy of a computed value) is filled only
      when the one `depth` before it is done.
    - A copy of an activation back to the device starts when the tasks before
      it on `compute` are done.
    - What is read from files is read when all that was read before it, and is
      used up before it in program order, is used up.
    - Copies for one use-group count as one, those of states and of activations
      apart.

    Requires: tasks in program order. Ensures: no two tasks touch the same
    bytes unordered, one of them writing.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", /*default=*/"1",
           "Buckets gathered ahead of the one in use.">,
    Option<"depth", "depth", "int64_t", /*default=*/"2",
           "Reductions under way at once.">,
    Option<"slack", "slack", "double", /*default=*/"3",
           "How many times over a gather that starts late would still be in "
           "time; 0: none starts late.">,
  ];
}

def FuseLossPass : Pass<"ciuic-sched-fuse-loss", "::mlir::ModuleOp"> {
  let summary = "Makes one task of a loss and its gradient.";
  let description = [{
    The logits are the largest activation; a loss and then its gradient read
    them three times and write them once. One task reads each row once.

    ```mlir
    sched.task cross_entropy "loss" on compute [logits, labels, loss, count, lse]
    sched.task cross_entropy_grad "loss.bwd" on compute [seed, logits, labels, lse, dlogits]
    // becomes
    sched.task cross_entropy_with_grad "loss" on compute
               [seed, logits, labels, loss, count, dlogits]
    ```

    It takes the place of the gradient if nothing reads the loss before, else
    that of the loss if the seed is known by then; tasks in between that make
    nothing but the seed of what was there before the loss come first.

    Not fused, with a remark: a gradient whose `lse` something else reads, or
    that tasks in between keep from both places.

    Requires: tasks in program order, without events.
  }];
}

def AddScratchPass : Pass<"ciuic-sched-add-scratch", "::mlir::ModuleOp"> {
  let summary = "Plans the memory that device tasks use while they run.";
  let description = [{
    On CUDA some kernels and the library's products need memory of their own.
    It is planned like any other buffer:

    ```mlir
    sched.buffer @buf.micro_first.loss.scratch 512 bytes in device of @micro_first
    sched.task cross_entropy "loss" on compute [...]
               scratch #sched.view<write @buf.micro_first.loss.scratch[0] : tensor<128xi32>>
    ```

    Bytes, of R rows and D columns:
    - `gemm` (M x N): 32 MiB on sm_90 and newer, else 4 MiB, but not more than
      4 M N or 1 MiB, whichever is larger.
    - `attention` of 16 bits: 64 KiB, for cuDNN.
    - `attention_grad`: 4 R heads, the rows' products of output and gradient.
    - `column_sum`, `norm_weight_grad`: 4 D for each of min(128, R/32) parts.
    - `embedding_grad` of V tokens: 4 (2 R + V + 1 + 1024), a sort by token.
    - `square_sum`: 8 for each of 1024 parts.
    - `cross_entropy`, `cross_entropy_with_grad`: 8 R, the rows' losses.

    On CPUs tasks get none: the workers keep what they need.

    Requires: tasks without scratch.
  }];
}

def VerifyScheduledPass : Pass<"ciuic-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Checks that conflicting tasks are ordered.";
  let description = [{
    Gate of the phase `schedule`: programs are acyclic (events come from
    earlier tasks), and no two tasks touch the same bytes of a buffer, one of
    them writing, without an order between them. Tasks of the host touch host
    memory alone, tasks of the device device memory; only copies, on `h2d` and
    `d2h`, go from one to the other, and only copies of whole blocks, on `disk`,
    between host memory and files. Changes nothing.
  }];
}

def AllocateBuffersPass
    : Pass<"ciuic-sched-allocate-buffers", "::mlir::ModuleOp"> {
  let summary = "Gives every buffer its offset.";
  let description = [{
    States, inputs and constants come first in their arena. The buffers of a
    program follow; two of them share bytes only if every task that touches
    the one comes before every task that touches the other in the order that
    streams and events give. Programs never run at the same time, so they share
    the same bytes.

    The least bytes that a program can take are those of the heaviest set of
    buffers that may all be live at once, found exactly (as flows, where program
    order does not tell) unless that takes too long. Then the remarks say "at
    least". Buffers are placed one by
    one in the smallest or the lowest gap that is free; several orders are
    tried, largest first among them (Pisarchyk and Lee, 2020), and the best are
    improved by local search until the arena is within 0.2 % of the least, or a
    bounded number of tries is used up. The result depends on the module alone.
    A remark tells what is lost to fragmentation.

    The size of each arena becomes the module attribute
    `sched.arena.device`, `sched.arena.host` and, where states lie in files,
    `sched.arena.nvme`, in bytes.

    With `whole-host` the limits of the host and of shared memory are all that
    a machine has, and not for arenas alone: what the processes hold besides
    them when a run starts, makes steps, saves, resumes or exports, whichever
    is most (passes/Analysis/HostPhases.h), must fit too.

    Requires: ordered tasks. Ensures: every buffer has an offset; an arena
    above its limit is refused with the largest holders at its peak.
  }];
  let options = [
    Option<"deviceLimit", "device-limit", "int64_t", /*default=*/"0",
           "Bytes that a device has; 0: no limit.">,
    Option<"hostLimit", "host-limit", "int64_t", /*default=*/"0",
           "Bytes that the host has for all ranks; 0: no limit.">,
    Option<"nvmeLimit", "nvme-limit", "int64_t", /*default=*/"0",
           "Bytes that files may take for all ranks; 0: no limit.">,
    Option<"sharedLimit", "shared-limit", "int64_t", /*default=*/"0",
           "Bytes for both arenas of all ranks together, where devices have no "
           "memory of their own; 0: no limit.">,
    Option<"boundWork", "bound-work", "int64_t", /*default=*/"kBoundWork",
           "Comparisons that finding the least bytes may take.">,
    Option<"wholeHost", "whole-host", "bool", /*default=*/"false",
           "What processes hold beside their arenas counts too.">,
    Option<"processes", "processes", "int64_t", /*default=*/"1",
           "Processes of a run.">,
    Option<"threads", "threads", "int64_t", /*default=*/"1",
           "Threads of each.">,
    Option<"processBytes", "process-bytes", "int64_t", /*default=*/"0",
           "Bytes that each process takes whatever it runs.">,
    Option<"threadBytes", "thread-bytes", "int64_t", /*default=*/"0",
           "And each of its threads.">,
  ];
}

def VerifyAllocatedPass : Pass<"ciuic-verify-allocated", "::mlir::ModuleOp"> {
  let summary = "Checks that live buffers never overlap.";
  let description = [{
    Gate of the phase `allocate`: every buffer has an offset and lies inside
    its arena, and two buffers that share bytes belong to different programs
    or are ordered, all tasks of one before all of the other. Changes nothing.
  }];
}

#endif // CIUIC_PASSES_SCHED_PASSES_TD
