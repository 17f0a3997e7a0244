//===- CollectiveShape.cpp - What a collective moves ----------------------===//
#include "runtime/task/cuda/CollectiveShape.h"

namespace ciuic::rt {

Result<CollectiveShape> checkCollective(const DeviceTaskArguments &arguments,
                                        uint32_t local) {
  const auto &views = arguments.views;
  if (views.size() != size_t(2) * local || local == 0)
    return Status::invalid("found " + std::to_string(views.size()) +
                           " views, expected 2 of each of " +
                           std::to_string(local) + " ranks");
  CollectiveShape shape{arguments.task->kind, views[0].dtype, 0, false};
  if (shape.dtype == abi::DType::I32)
    return Status::invalid("i32 values do not travel");
  int64_t in = views[0].elements(), out = views[1].elements();
  for (size_t i = 0; i < views.size(); ++i)
    if (!views[i].isDense() || views[i].dtype != shape.dtype ||
        views[i].elements() != (i % 2 ? out : in))
      return Status::invalid("from " + describe(views[i - i % 2]) + " to " +
                             describe(views[i - i % 2 + 1]) +
                             ": expected dense tensors of one type and size");
  bool gathers = shape.kind == abi::TaskKind::AllGather;
  int64_t chunk = gathers ? in : out, whole = gathers ? out : in;
  int64_t ranks = arguments.ranks;
  if (shape.kind == abi::TaskKind::AllReduce ? whole != chunk
                                             : whole != chunk * ranks)
    return Status::invalid("the whole has " + std::to_string(whole) +
                           " elements, a rank's part " + std::to_string(chunk) +
                           ", for " + std::to_string(ranks) + " ranks");
  shape.chunk = static_cast<uint64_t>(chunk);
  if (gathers)
    return shape;
  if (arguments.ints.empty())
    return Status::invalid("does not say whether it is a sum or a mean");
  shape.mean = arguments.ints[0] != 0;
  return shape;
}

} // namespace ciuic::rt
