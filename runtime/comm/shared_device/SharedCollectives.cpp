//===- SharedCollectives.cpp - Collectives of ranks on one GPU ------------===//
#include "runtime/comm/shared_device/SharedCollectives.h"

#include "runtime/abi/Sizes.h"
#include "runtime/device/cuda/CudaStatus.h"
#include "runtime/task/cuda/CollectiveShape.h"

#include <vector>

namespace ciuic::rt {
namespace {

class SharedCollective final : public DeviceTask {
public:
  SharedCollective(const CollectiveShape &shape, uint32_t ranks,
                   std::span<const Tensor> views, abi::CudaReduceFn reduce)
      : shape(shape), ranks(ranks), reduce(reduce), inputs(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      in.push_back(views[2 * rank].as<std::byte>());
      out.push_back(views[2 * rank + 1].as<std::byte>());
    }
  }

  Status enqueue(cudaStream_t stream) override {
    uint64_t bytes = shape.chunk * byteSize(shape.dtype);
    if (bytes == 0)
      return {};
    switch (shape.kind) {
    case abi::TaskKind::AllGather:
      for (uint32_t to = 0; to < ranks; ++to)
        for (uint32_t from = 0; from < ranks; ++from)
          CIUIC_TRY(
              enqueueCopy(out[to] + from * bytes, in[from], bytes, stream));
      return {};
    case abi::TaskKind::ReduceScatter:
      for (uint32_t to = 0; to < ranks; ++to)
        CIUIC_TRY(sum(out[to], to * bytes, bytes, stream));
      return {};
    default: // AllReduce
      CIUIC_TRY(sum(out[0], 0, bytes, stream));
      for (uint32_t to = 1; to < ranks; ++to)
        CIUIC_TRY(enqueueCopy(out[to], out[0], bytes, stream));
      return {};
    }
  }

private:
  /// to = sum over ranks of what lies `offset` bytes into their inputs.
  Status sum(std::byte *to, uint64_t offset, uint64_t bytes,
             cudaStream_t stream) {
    if (ranks == 1)
      return enqueueCopy(to, in[0] + offset, bytes, stream);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      inputs[rank] = in[rank] + offset;
    return toStatus(
        static_cast<cudaError_t>(reduce(shape.dtype, inputs.data(), ranks, to,
                                        shape.chunk, shape.mean, stream)),
        "the sum over ranks");
  }

  const CollectiveShape shape;
  const uint32_t ranks;
  abi::CudaReduceFn reduce;
  std::vector<std::byte *> in, out;
  std::vector<const void *> inputs;
};

} // namespace

Result<DeviceTaskPtr> makeSharedCollective(const DeviceTaskArguments &arguments,
                                           abi::CudaReduceFn reduce) {
  CIUIC_TRY_ASSIGN(CollectiveShape shape,
                   checkCollective(arguments, arguments.ranks));
  if (!reduce && arguments.ranks > 1 && shape.kind != abi::TaskKind::AllGather)
    return Status::invalid("the bundle has no sum for ranks that share a "
                           "device");
  return DeviceTaskPtr(std::make_unique<SharedCollective>(
      shape, arguments.ranks, arguments.views, reduce));
}

} // namespace ciuic::rt
