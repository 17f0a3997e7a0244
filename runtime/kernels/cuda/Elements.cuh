//===- Elements.cuh - Kernels that treat elements one by one ----*- CUDA
//-*-===//
//
// A matrix whose rows have no gaps is divided into items: the vectors of each
// row, then the elements that are left at its end. Threads take items in turn,
// so that neighbours in a warp access neighbours in memory.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ELEMENTS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ELEMENTS_CUH

#include "runtime/kernels/cuda/Arguments.cuh"

namespace ciuic::cuda {

inline constexpr unsigned elementThreads = 256;

/// `vectors` vectors, then `perRow - vectors` single elements in each row.
struct Items {
  int64_t rows, perRow, vectors;

  int64_t count() const { return rows * perRow; }
};

/// Matrices without gaps between rows are one long row.
inline Items itemsOf(int64_t rows, int64_t columns, bool dense, int width) {
  if (dense) {
    columns *= rows;
    rows = 1;
  }
  int64_t vectors = columns / width;
  return {rows, vectors + columns - vectors * width, vectors};
}

/// Calls fn(row, column, width) for the items of this thread, which are
/// `threads` apart; `width` is a constant: Width or 1.
template <int Width, typename Fn>
__device__ void forItems(const Items &items, int64_t first, int64_t threads,
                         Fn fn) {
  const int64_t count = items.rows * items.perRow;
  for (int64_t item = first; item < count; item += threads) {
    int64_t row = 0, at = item;
    if (items.rows > 1) {
      // A division of 32 bits takes a third of the time.
      row = count <= UINT32_MAX ? static_cast<uint32_t>(item) /
                                      static_cast<uint32_t>(items.perRow)
                                : item / items.perRow;
      at -= row * items.perRow;
    }
    if (at < items.vectors)
      fn(row, at * Width, std::integral_constant<int, Width>());
    else
      fn(row, at + items.vectors * (Width - 1),
         std::integral_constant<int, 1>());
  }
}

template <int Width, typename Op>
__global__ void __launch_bounds__(elementThreads)
    elementsKernel(Op op, Items items, const float *skip) {
  if (isSkipped(skip))
    return;
  forItems<Width>(items, int64_t(blockIdx.x) * elementThreads + threadIdx.x,
                  int64_t(gridDim.x) * elementThreads,
                  [&](int64_t row, int64_t column, auto width) {
                    op.template at<decltype(width)::value>(row, column);
                  });
}

/// Runs `op` on every element, in vectors of Width if `aligned`: at<N>(row,
/// column) treats N elements of a row.
template <int Width, typename Op>
cudaError_t launchElements(const abi::CudaLaunch &launch, int64_t rows,
                           int64_t columns, bool dense, bool aligned,
                           const Op &op) {
  Items items = itemsOf(rows, columns, dense, aligned ? Width : 1);
  unsigned blocks =
      fillingGrid(static_cast<uint64_t>(items.count()), elementThreads,
                  elementThreads, launch.processors);
  auto kernel = aligned ? elementsKernel<Width, Op> : elementsKernel<1, Op>;
  return cuda::launch(kernel, dim3(blocks), dim3(elementThreads), 0,
                      streamOf(launch), op, items, launch.skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ELEMENTS_CUH
