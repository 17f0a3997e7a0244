//===- Program.h - The task program as plain records ------------*- C++ -*-===//
//
// What a compiled job hands to the runtime. `src/program.cpp` of a bundle is
// constant tables of these records, one line a task; `lib/libjob.so` exports
// them through `ciuic_bundle()`. Plain data only: no constructors, no virtual
// calls, nothing allocated. Sizes are bytes and offsets are bytes unless a
// comment says elements.
//
// One program serves every rank: a rank's address is
//
//   arena[rank][buffer.arena] + buffer.offset + view.offset
//     + rank * view.rankStride
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ABI_PROGRAM_H
#define CIUIC_RUNTIME_ABI_PROGRAM_H

#include <cstdint>

namespace ciuic::abi {

/// Raised whenever a record changes; a bundle of another version is refused.
inline constexpr uint32_t kVersion = 3;

enum class DType : uint8_t { F32, F16, BF16, F64, I32 };

/// What runs the device tasks. The tables are the same for both.
enum class Target : uint8_t { Cpu, Cuda };

/// Memories that hold buffers, each one allocation a rank.
/// That of Nvme is a file a rank: it has no address, and only copies on the
/// stream Disk, between it and the host's arena, touch it.
enum class Arena : uint8_t { Device, Host, Nvme };
inline constexpr int kArenas = 3;

/// Where tasks queue. Tasks of one stream run in program order; a task may
/// start when its stream's previous task and its awaited tasks are done.
enum class Stream : uint8_t { Compute, Gather, Reduce, H2D, D2H, Host, Disk };
inline constexpr int kStreams = 7;

/// A place in an arena.
struct Buffer {
  const char *name;
  uint64_t bytes;
  uint64_t offset; ///< In its arena; a multiple of 256.
  Arena arena;
};

/// A typed, strided window into a buffer of at most two dimensions; a scalar
/// has rank 0, shape {1, 1}. Rows have `shape[0]`, columns `shape[1]`; a
/// one-dimensional view has shape {1, n}. Strides are in elements.
struct View {
  uint32_t buffer;
  DType dtype;
  uint8_t rank;
  uint64_t offset;
  int64_t rankStride; ///< Bytes to add for each rank.
  int64_t shape[2];
  int64_t strides[2];
};

/// What a task does. Comments: views in order -> views written; ints; reals.
/// 16-bit data is computed on in f32 and rounded once when stored.
enum class TaskKind : uint8_t {
  /// An emitted kernel over rows. views: as the kernel's; ints: rows, grain
  /// (rows a chunk: the fixed partition).
  Launch,
  /// C = op(A) op(B) [+ bias] [+ C]. A, B, C, [bias]; ints: transposeA,
  /// transposeB, accumulate.
  Gemm,
  /// q, k, v -> out, lse (rows x heads, f32); ints: seq, heads, kvHeads;
  /// reals: scale. Causal.
  AttentionForward,
  /// dy, q, k, v, y, lse -> dq, dk, dv; ints and reals as forward.
  AttentionBackward,
  /// tokens, table -> out.
  Embedding,
  /// dy, tokens -> out (V x D); ints: accumulate (add to out instead of
  /// starting from zero).
  EmbeddingGrad,
  /// logits, labels -> loss, count, lse. loss and count are f32 scalars.
  CrossEntropy,
  /// seed, logits, labels, lse -> dlogits (may be the same place as logits).
  CrossEntropyGrad,
  /// x -> out: sums over rows.
  ColumnSum,
  /// dy, x, rstd -> dweight: sum over rows of dy * x * rstd.
  NormWeightGrad,
  /// src -> dst, same shape; converts where dtypes differ.
  Copy,
  /// -> dst: all bytes zero.
  Zero,
  /// x -> out (f32): out = x, or out += x. ints: add.
  Accumulate,
  /// chunk -> whole. One task for all ranks.
  AllGather,
  /// whole -> chunk; ints: mean.
  ReduceScatter,
  /// x -> out; ints: mean.
  AllReduce,
  /// x -> out (f64 scalar): the sum of squares.
  SquareSum,
  /// x (f64, 1 x n) -> out (f64 scalar): the sum in order.
  SumSlots,
  /// squareSum, count, scale -> coef, norm, skip; ints: check; reals: slots,
  /// clip.
  GradScale,
  /// step -> lr; ints: kind, warmup, total, logarithmic; reals: base, min,
  /// max, warmupRatio, cosMinRatio.
  LearningRate,
  /// step, skip -> next step.
  Advance,
  /// scale, iteration, lastOverflow, hysteresis, skip -> next scale, next
  /// iteration, next lastOverflow, next hysteresis, stopped; ints: window,
  /// hysteresis, consecutive; reals: min.
  UpdateLossScale,
  /// p, grad, m, v (p, m, v updated in place), lr, coef, step, skip, [half:
  /// the updated p in 16 bits]; ints: decoupled, biasCorrection, stride, then
  /// pairs [begin, end) of bucket elements without decay; reals: beta1, beta2,
  /// eps, decay. Rank r's first element is r * stride.
  Adam,
  /// p, grad, m (p and m in place), lr, coef, skip, [half]; ints: nesterov,
  /// stride, then pairs as for Adam; reals: momentum, decay.
  Sgd,
  /// seed, logits, labels -> loss, count, dlogits (may be the same place as
  /// logits): CrossEntropy and CrossEntropyGrad in one pass over the rows.
  CrossEntropyWithGrad,
};
inline constexpr int kTaskKinds =
    static_cast<int>(TaskKind::CrossEntropyWithGrad) + 1;

/// What a task is for, as `wall_clock_breakdown` tells it. Collectives, copies
/// between memories and updates are told by their stream and kind; this only
/// divides the rest.
enum class Phase : uint8_t { Other, Forward, Backward };

/// An emitted kernel: does rows [begin, end) given one pointer a view.
using KernelFn = void (*)(int64_t begin, int64_t end, void *const *pointers);

/// What the launcher of a device task is given: the task of one rank with its
/// views resolved to device addresses.
struct CudaLaunch {
  void *const *pointers; ///< One a view, in the task's order.
  const struct View *views;
  uint32_t viewCount;
  const int64_t *ints;
  uint32_t intCount;
  const double *reals;
  uint32_t realCount;
  void *scratch; ///< Planned bytes for this task alone; null: none.
  uint64_t scratchBytes;
  const float *skip; ///< On the device: does nothing where not 0; null: none.
  uint32_t rank;
  uint32_t ranks;
  uint32_t processors; ///< Multiprocessors of the device.
  void *stream;        ///< cudaStream_t
};

/// Enqueues a device task; returns a cudaError_t, 0 if it was enqueued.
using CudaLaunchFn = int (*)(const CudaLaunch &launch);

/// Enqueues out[i] = sum (or mean) over ranks, in rank order, of inputs[r][i],
/// added in f32 (f64 for f64) and rounded once; for ranks that share a device.
using CudaReduceFn = int (*)(DType dtype, const void *const *inputs,
                             uint32_t ranks, void *out, uint64_t elements,
                             int mean, void *stream);

/// Half-open range of a table.
struct Range {
  uint32_t begin;
  uint32_t end;
};

struct Task {
  TaskKind kind;
  Stream stream;
  /// The task does nothing where the f32 scalar view `skip` is not 0; -1: none.
  int32_t skipView;
  Range views; ///< Of Program::views.
  Range waits; ///< Of Program::waits: indices of earlier tasks.
  Range ints;
  Range reals;
  KernelFn kernel; ///< Of a Launch that the CPU runs; else null.
  /// Of a task that a CUDA device runs, if it is no product, collective or
  /// copy between memories; else null.
  CudaLaunchFn launch;
  /// Bytes that this task alone uses while it runs, planned like any other
  /// buffer: index of a one-dimensional view, or -1.
  int32_t scratchView;
  /// For people and profiles: what it computes, in the user's names.
  const char *name;
  Phase phase;
};

struct Program {
  /// micro_first, micro_next, apply, eval_first or eval_next.
  const char *name;
  const Task *tasks;
  uint32_t taskCount;
  const View *views;
  const uint32_t *waits;
  const int64_t *ints;
  const double *reals;
  /// Entries of the tables above: a range beyond them is refused at load.
  uint32_t viewCount;
  uint32_t waitCount;
  uint32_t intCount;
  uint32_t realCount;
};

enum class Role : uint8_t {
  Parameter,
  Gradient,
  Master,
  Moment,
  Table,
  Metric,
  Scalar,
};

enum class InitKind : uint8_t { Constant, Normal, Rope };

/// How a tensor starts. Constant: reals[0] is the value. Normal: reals[0] is
/// the standard deviation. Rope: reals are theta, factor, low, high, original;
/// ints are part (0 cos, 1 sin), dim, scaling (0 none, 1 linear, 2 llama3).
struct Init {
  InitKind kind;
  double reals[5];
  int64_t ints[3];
};

/// A tensor that lives from step to step. One with `bucket >= 0` stores the
/// members of that bucket: whole, or the chunk of one rank if `sharded`.
struct State {
  const char *name;
  Role role;
  const char *slot; ///< The moment's name ("exp_avg"), else "".
  View view;        ///< Whole storage of one rank; rankStride 0.
  int32_t bucket;   ///< Of Bundle::buckets, or -1.
  bool sharded;
  Init init; ///< For a state without bucket.
};

/// Parameters that share one layout (see comm.bucket). Sizes in elements.
struct Bucket {
  const char *name;
  uint64_t elements; ///< chunk * ranks.
  uint64_t chunk;
  bool trainable;
};

/// A parameter, by its Hugging Face name, and its place in a bucket.
struct Member {
  const char *name;
  int32_t bucket;
  uint64_t offset; ///< Elements from the bucket's start.
  uint8_t rank;
  int64_t shape[2]; ///< {n, 1} for rank 1.
  Init init;
};

/// How states in files are moved.
struct Disk {
  const char *folder;  ///< For the files, unless another is given; or "".
  uint64_t blockBytes; ///< Of one request of the system.
  uint32_t depth;      ///< Requests under way at once.
};

/// A whole compiled job.
struct Bundle {
  uint32_t version;
  uint32_t ranks;
  const char *modelName;
  int64_t microBatch; ///< Sequences a rank a micro-step.
  int64_t sequence;   ///< Tokens a sequence.
  int64_t accumulation;
  int64_t vocabulary;
  /// Floating-point operations of the matrix products of one micro-step of
  /// one rank, forward and backward.
  double gemmFlops;
  uint64_t arenaBytes[kArenas]; ///< Of one rank.
  int32_t tokensBuffer;         ///< i32, microBatch x sequence.
  int32_t labelsBuffer;
  const Buffer *buffers;
  uint32_t bufferCount;
  const Program *programs;
  uint32_t programCount;
  const State *states;
  uint32_t stateCount;
  const Bucket *buckets;
  uint32_t bucketCount;
  const Member *members;
  uint32_t memberCount;
  /// The instruction set its host code was built for, e.g. "x86-64-v4".
  const char *isa;
  Target target;
  /// For CUDA: "sm_80,sm_90a", what its kernels were built for; else "".
  const char *architectures;
  CudaReduceFn cudaReduce; ///< For CUDA; else null.
  Disk disk;
};

/// The one symbol that a job's library exports.
inline constexpr const char *kEntryPoint = "ciuic_bundle";
using EntryPointFn = const Bundle *(*)();

} // namespace ciuic::abi

#endif // CIUIC_RUNTIME_ABI_PROGRAM_H
