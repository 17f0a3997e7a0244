//===- NcclRanks.cpp - Collectives among GPUs -----------------------------===//
#include "runtime/comm/nccl/NcclRanks.h"

#include "runtime/comm/ProcessGroup.h"
#include "runtime/device/cuda/CudaStatus.h"
#include "runtime/task/cuda/CollectiveShape.h"

#include <chrono>
#include <mutex>
#include <nccl.h>
#include <vector>

namespace ciuic::rt {
namespace {

Status toStatus(ncclResult_t result, const char *call) {
  if (result == ncclSuccess || result == ncclInProgress)
    return {};
  return Status::machine(std::string(call) + ": " + ncclGetErrorString(result));
}

ncclDataType_t typeOf(abi::DType dtype) {
  switch (dtype) {
  case abi::DType::F16:
    return ncclFloat16;
  case abi::DType::BF16:
    return ncclBfloat16;
  case abi::DType::F64:
    return ncclFloat64;
  case abi::DType::I32:
    return ncclInt32;
  case abi::DType::F32:
    break;
  }
  return ncclFloat32;
}

/// A rank's part of a communicator. The lock keeps a communicator from being
/// aborted, which frees it, while a call uses it.
struct Communicator {
  ncclComm_t handle = nullptr;
  std::timed_mutex lock;
  bool aborted = false;

  template <typename Fn> Status use(const char *call, Fn &&fn) {
    std::scoped_lock guard(lock);
    if (aborted || !handle)
      return Status::machine(std::string(call) +
                             ": the communicator was aborted");
    return toStatus(fn(handle), call);
  }
};

class NcclCollective final : public DeviceTask {
public:
  NcclCollective(const CollectiveShape &shape, Communicator &communicator,
                 const void *in, void *out)
      : shape(shape), communicator(communicator), in(in), out(out) {}

  Status enqueue(cudaStream_t stream) override {
    ncclDataType_t type = typeOf(shape.dtype);
    ncclRedOp_t op = shape.mean ? ncclAvg : ncclSum;
    switch (shape.kind) {
    case abi::TaskKind::AllGather:
      return communicator.use("ncclAllGather", [&](ncclComm_t comm) {
        return ncclAllGather(in, out, shape.chunk, type, comm, stream);
      });
    case abi::TaskKind::ReduceScatter:
      return communicator.use("ncclReduceScatter", [&](ncclComm_t comm) {
        return ncclReduceScatter(in, out, shape.chunk, type, op, comm, stream);
      });
    default:
      return communicator.use("ncclAllReduce", [&](ncclComm_t comm) {
        return ncclAllReduce(in, out, shape.chunk, type, op, comm, stream);
      });
    }
  }

private:
  const CollectiveShape shape;
  Communicator &communicator;
  const void *in;
  void *out;
};

} // namespace

class NcclRanks::Impl {
public:
  explicit Impl(RankRange local)
      : local(local), gather(local.count), reduce(local.count) {}
  ~Impl() {
    for (auto *row : {&gather, &reduce})
      for (Communicator &communicator : *row)
        if (communicator.handle && !communicator.aborted)
          ncclCommDestroy(communicator.handle);
  }

  Status join(std::vector<Communicator> &row, uint32_t ranks,
              std::span<const CudaDevice> devices, ProcessGroup *group);

  const RankRange local;
  std::vector<Communicator> gather, reduce;
};

/// All processes call this in the same order.
Status NcclRanks::Impl::join(std::vector<Communicator> &row, uint32_t ranks,
                             std::span<const CudaDevice> devices,
                             ProcessGroup *group) {
  ncclUniqueId id{};
  Status made;
  bool alone = !group || group->processes() == 1;
  if (alone || group->process() == 0)
    made = toStatus(ncclGetUniqueId(&id), "ncclGetUniqueId");
  // A process that failed still takes part, so that the others do not wait.
  if (!alone)
    CIUIC_TRY(group->broadcast(std::as_writable_bytes(std::span(&id, 1)), 0));
  CIUIC_TRY(std::move(made));
  CIUIC_TRY(toStatus(ncclGroupStart(), "ncclGroupStart"));
  Status failure;
  for (uint32_t i = 0; i < local.count && failure.ok(); ++i) {
    failure = rt::toStatus(cudaSetDevice(devices[i].index), "cudaSetDevice");
    if (failure.ok())
      failure =
          toStatus(ncclCommInitRank(&row[i].handle, static_cast<int>(ranks), id,
                                    static_cast<int>(local.first + i)),
                   "ncclCommInitRank")
              .during([&] {
                return "joining rank " + std::to_string(local.first + i) +
                       " on " + devices[i].str();
              });
  }
  Status ended = toStatus(ncclGroupEnd(), "ncclGroupEnd").during([&] {
    return "joining " + std::to_string(ranks) + " ranks";
  });
  CIUIC_TRY(std::move(failure));
  return ended;
}

NcclRanks::NcclRanks(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
NcclRanks::~NcclRanks() = default;

Result<std::unique_ptr<NcclRanks>>
NcclRanks::create(uint32_t ranks, RankRange local,
                  std::span<const CudaDevice> devices, ProcessGroup *group) {
  int version = 0;
  CIUIC_TRY(toStatus(ncclGetVersion(&version), "ncclGetVersion"));
  CIUIC_TRY(checkVersion("NCCL", version, NCCL_VERSION_CODE));
  auto impl = std::make_unique<Impl>(local);
  CIUIC_TRY(impl->join(impl->gather, ranks, devices, group));
  CIUIC_TRY(impl->join(impl->reduce, ranks, devices, group));
  return std::unique_ptr<NcclRanks>(new NcclRanks(std::move(impl)));
}

Result<DeviceTaskPtr>
NcclRanks::makeCollective(const DeviceTaskArguments &arguments) {
  CIUIC_TRY_ASSIGN(CollectiveShape shape, checkCollective(arguments, 1));
  auto &row =
      shape.kind == abi::TaskKind::AllGather ? impl->gather : impl->reduce;
  return DeviceTaskPtr(std::make_unique<NcclCollective>(
      shape, row[arguments.rank - impl->local.first], arguments.views[0].data,
      arguments.views[1].data));
}

Status NcclRanks::check() {
  for (auto *row : {&impl->gather, &impl->reduce})
    for (size_t i = 0; i < row->size(); ++i) {
      Communicator &communicator = (*row)[i];
      std::unique_lock guard(communicator.lock, std::try_to_lock);
      if (!guard.owns_lock() || communicator.aborted || !communicator.handle)
        continue;
      ncclResult_t found = ncclSuccess;
      CIUIC_TRY(toStatus(ncclCommGetAsyncError(communicator.handle, &found),
                         "ncclCommGetAsyncError"));
      CIUIC_TRY(toStatus(found, "a collective").during([&] {
        return std::string(row == &impl->gather ? "gathering" : "reducing") +
               " on rank " + std::to_string(impl->local.first + i);
      }));
    }
  return {};
}

void NcclRanks::abort() {
  using namespace std::chrono_literals;
  for (auto *row : {&impl->gather, &impl->reduce})
    for (Communicator &communicator : *row) {
      // A call that does not return is what aborting is there to end.
      bool owned = communicator.lock.try_lock_for(1s);
      if (!communicator.aborted && communicator.handle) {
        communicator.aborted = true;
        ncclCommAbort(communicator.handle);
      }
      if (owned)
        communicator.lock.unlock();
    }
}

} // namespace ciuic::rt
