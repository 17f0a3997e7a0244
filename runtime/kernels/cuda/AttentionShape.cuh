//===- AttentionShape.cuh - Arguments of attention kernels ------*- C++ -*-===//
//
// The arguments of causal grouped-query attention on the device, read from a
// task's launch record and checked, and the order in which blocks of rows go
// over the chip.
//
// q, out and their gradients are rows x (heads * dim), k, v and theirs rows x
// (kvHeads * dim); lse and delta are rows x heads of f32. Rows are sequences
// * seq; query head h reads key head h / group, group = heads / kvHeads. Row
// strides are those of the views, so q, k and v may be parts of one packed
// buffer.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONSHAPE_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONSHAPE_CUH

#include "runtime/abi/Program.h"
#include "runtime/kernels/cuda/Kernel.cuh"
#include "runtime/kernels/cuda/Launch.h"
#include "runtime/kernels/cuda/Wrappers.cuh"

namespace ciuic::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

struct AttentionShape {
  int sequences;
  int seq;
  int heads;
  int kvHeads;
  int group; ///< Query heads that read one key head.
  int span;  ///< Key heads whose blocks run side by side: see placeOf.
  float scale;
};

/// A matrix in device memory: rows at `stride` elements.
template <typename T> struct Rows {
  T *data;
  int64_t stride;
};

template <typename T> struct AttentionForwardArguments {
  AttentionShape shape;
  Rows<const T> q, k, v;
  Rows<T> out;
  Rows<float> lse;
};

template <typename T> struct AttentionBackwardArguments {
  AttentionShape shape;
  Rows<const T> dy, q, k, v, y;
  Rows<const float> lse;
  Rows<float> delta; ///< In scratch: sum over a row of dy * y.
  Rows<T> dq, dk, dv;
};

/// What a thread block works on.
struct AttentionPlace {
  int block; ///< Of queries or of keys, in its sequence.
  int head;  ///< Query head; of a key head, its first query head.
  int kvHead;
  int64_t row; ///< First row of its sequence.
};

/// Places for a grid of blocks * members * kvHeads * sequences. `span` pairs
/// of sequence and key head run side by side, so that their keys stay in the
/// second-level cache; among these the blocks with most work come first: those
/// with the highest numbers if `descending`. Members (query heads of one key
/// head) are neighbours.
__device__ inline AttentionPlace
placeOf(const AttentionShape &shape, int blocks, int members, bool descending) {
  const int pairs = shape.sequences * shape.kvHeads;
  int index = static_cast<int>(blockIdx.x);
  const int firstPair = index / (shape.span * blocks * members) * shape.span;
  index -= firstPair * blocks * members;
  const int side = min(shape.span, pairs - firstPair);
  const int block = index / (side * members);
  index -= block * side * members;
  const int pair = firstPair + index / members;
  const int sequence = pair / shape.kvHeads;
  AttentionPlace place;
  place.block = descending ? blocks - 1 - block : block;
  place.kvHead = pair - sequence * shape.kvHeads;
  place.head = place.kvHead * shape.group + index % members;
  place.row = static_cast<int64_t>(sequence) * shape.seq;
  return place;
}

inline int blocksOf(int rows, int blockRows) {
  return (rows + blockRows - 1) / blockRows;
}

/// Reads the numbers of a task; false if they do not fit together or the
/// kernels were made for another head size. `q` and `k` are views of the task.
inline bool attentionShapeOf(const abi::CudaLaunch &task, uint32_t q,
                             uint32_t k, int dim, int elementBytes,
                             AttentionShape &shape) {
  // Attention has no predicate; ignoring one would be wrong.
  if (task.intCount != 3 || task.realCount != 1 || task.skip)
    return false;
  const int64_t rows = task.views[q].shape[0];
  const int64_t seq = task.ints[0], heads = task.ints[1],
                kvHeads = task.ints[2];
  constexpr int64_t kMost = int64_t(1) << 30;
  if (rows < 0 || rows > kMost || seq < 1 || seq > kMost || heads < 1 ||
      heads > 65536 || kvHeads < 1 || heads % kvHeads != 0 || rows % seq != 0)
    return false;
  if (task.views[k].shape[0] != rows || task.views[q].shape[1] != heads * dim ||
      task.views[k].shape[1] != kvHeads * dim)
    return false;
  shape.sequences = static_cast<int>(rows / seq);
  shape.seq = static_cast<int>(seq);
  shape.heads = static_cast<int>(heads);
  shape.kvHeads = static_cast<int>(kvHeads);
  shape.group = static_cast<int>(heads / kvHeads);
  shape.scale = static_cast<float>(task.reals[0]);
  // Keys and values of the pairs side by side: up to 16 MiB.
  const int64_t bytes = 2 * seq * dim * elementBytes;
  const int64_t span = (int64_t(16) << 20) / bytes;
  const int64_t pairs = shape.sequences * kvHeads;
  shape.span = static_cast<int>(span < 1 ? 1 : span > pairs ? pairs : span);
  // The maximum of scaled scores is taken before scaling.
  return shape.scale > 0.0f;
}

/// Whether two views of the task have one shape.
inline bool sameShape(const abi::CudaLaunch &task, uint32_t a, uint32_t b) {
  return task.views[a].shape[0] == task.views[b].shape[0] &&
         task.views[a].shape[1] == task.views[b].shape[1];
}

/// Whether a view of the task has a row a token and a column a query head.
inline bool isPerHead(const abi::CudaLaunch &task, uint32_t index,
                      const AttentionShape &shape) {
  return task.views[index].shape[0] ==
             static_cast<int64_t>(shape.sequences) * shape.seq &&
         task.views[index].shape[1] == shape.heads;
}

/// A matrix of the task whose rows are dense and, for 16-byte accesses, start
/// at multiples of `alignment` bytes; false if it is not such.
template <typename T, typename U>
bool rowsOf(const abi::CudaLaunch &task, uint32_t index, size_t alignment,
            Rows<U> &rows) {
  const abi::View &view = task.views[index];
  rows.data = static_cast<T *>(task.pointers[index]);
  rows.stride = view.strides[0];
  return (view.shape[1] == 1 || view.strides[1] == 1) &&
         reinterpret_cast<uintptr_t>(rows.data) % alignment == 0 &&
         rows.stride * sizeof(T) % alignment == 0;
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONSHAPE_CUH
