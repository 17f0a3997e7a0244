//===- Collective.h - What ranks enter together -----------------*- C++ -*-===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_COLLECTIVE_H
#define CIUIC_TEST_CUDA_ON_HOST_COLLECTIVE_H

#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/include/nccl.h"

namespace ciuic::onhost {

enum class Kind { AllGather, ReduceScatter, AllReduce };

const char *nameOf(Kind kind);

/// What all ranks must agree on.
struct Signature {
  Kind kind = Kind::AllGather;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  bool operator==(const Signature &) const = default;
  std::string str() const {
    std::string text = nameOf(kind);
    if (kind != Kind::AllGather)
      text += op == ncclAvg ? " (mean)" : op == ncclSum ? " (sum)" : " (?)";
    return text + " of " + std::to_string(count) + " elements of type " +
           std::to_string(type);
  }
};

struct Entry {
  bool arrived = false;
  Clock clock;
  std::vector<char> sent;
};

/// One collective of a communicator.
struct Collective {
  Signature signature; ///< Of the rank that came first.
  int first = 0;
  bool broken = false;
  size_t arrivals = 0, left = 0;
  std::vector<Entry> entries;
};

/// Bytes of an element.
size_t sizeOf(ncclDataType_t type);

/// Writes the sum (or mean) over ranks of elements [begin, begin + count) of
/// what they sent, from rank `start` on around the ring, rounded at each.
void sumAroundRing(const Collective &collective, size_t begin, size_t count,
                   size_t start, char *out);

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_COLLECTIVE_H
