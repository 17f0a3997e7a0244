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
    - A gather (or copy to the host) starts when the bucket `prefetch` before it
      is first used. 0: only when it is needed itself.
    - The buffer of a reduction (or copy to the device) is filled only when the
      one `depth` before it is done.

    Requires: tasks in program order. Ensures: no two tasks touch the same
    bytes unordered, one of them writing.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", /*default=*/"1",
           "Buckets gathered ahead of the one in use.">,
    Option<"depth", "depth", "int64_t", /*default=*/"2",
           "Reductions under way at once.">,
  ];
}

def VerifyScheduledPass : Pass<"ciuic-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Checks that conflicting tasks are ordered.";
  let description = [{
    Gate of the phase `schedule`: programs are acyclic (events come from
    earlier tasks), and no two tasks touch the same bytes of a buffer, one of
    them writing, without an order between them. Changes nothing.
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
    buffers that may all be live at once, found exactly (as a flow). Buffers
    are placed one by one at the lowest offset that is free; several orders are
    tried, largest first among them (Pisarchyk and Lee, 2020), and the best are
    improved by local search until the arena is within a thousandth of the
    least, or a bounded number of tries is used up. The result depends on the
    module alone. A remark tells what is lost to fragmentation.

    The size of each arena becomes the module attribute
    `sched.arena.device` and `sched.arena.host`, in bytes.

    Requires: ordered tasks. Ensures: every buffer has an offset; an arena
    above its limit is refused with the largest holders at its peak.
  }];
  let options = [
    Option<"deviceLimit", "device-limit", "int64_t", /*default=*/"0",
           "Bytes that a device has; 0: no limit.">,
    Option<"hostLimit", "host-limit", "int64_t", /*default=*/"0",
           "Bytes that the host has for all ranks; 0: no limit.">,
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
