//===- BatchLoader.cpp - The batch of each step, rank, micro-step ---------===//
#include "runtime/data/BatchLoader.h"

#include <fmt/format.h>

#include <algorithm>

namespace ciuic::rt {

Result<BatchLoader> BatchLoader::create(const TokenDataset &dataset,
                                        Split split,
                                        const BatchLayout &layout) {
  int64_t perStep = 0;
  if (layout.batch < 1 || layout.ranks < 1 || layout.accumulation < 1 ||
      __builtin_mul_overflow(layout.batch, layout.ranks, &perStep) ||
      __builtin_mul_overflow(perStep, layout.accumulation, &perStep))
    return Status::invalid(fmt::format(
        "a batch of {} sequences x {} ranks x {} micro-steps is not possible",
        layout.batch, layout.ranks, layout.accumulation));
  BatchLoader loader(dataset, split, layout);
  loader.perStep = static_cast<uint64_t>(perStep);
  loader.sequences = dataset.sequences(split);
  if (loader.sequences == 0)
    return Status::invalid(split == Split::Validation
                               ? "no sequences are held back for validation"
                               : "there are no sequences to train on");
  loader.steps = (loader.sequences - 1) / loader.perStep + 1;
  return loader;
}

BatchPosition BatchLoader::position(uint64_t step) const {
  BatchPosition position;
  position.epoch = step / steps;
  position.batch = step % steps;
  uint64_t first = position.batch * perStep;
  position.sequences = std::min(perStep, sequences - first);
  for (uint64_t i = 0; i < position.sequences; ++i)
    position.labels += static_cast<uint64_t>(dataset->labelCount(
        dataset->sequenceAt(split, position.epoch, first + i)));
  return position;
}

Status BatchLoader::fill(uint64_t step, int64_t rank, int64_t microStep,
                         int32_t *tokens, int32_t *labels) const {
  if (rank < 0 || rank >= layout.ranks || microStep < 0 ||
      microStep >= layout.accumulation)
    return Status::invalid(
        fmt::format("no batch for rank {} of {}, micro-step {} of {}", rank,
                    layout.ranks, microStep, layout.accumulation));
  int64_t length = dataset->options().sequenceLength;
  uint64_t epoch = step / steps;
  uint64_t first =
      step % steps * perStep +
      static_cast<uint64_t>((microStep * layout.ranks + rank) * layout.batch);
  for (int64_t row = 0; row < layout.batch; ++row) {
    int32_t *rowTokens = tokens + row * length;
    int32_t *rowLabels = labels + row * length;
    uint64_t index = first + static_cast<uint64_t>(row);
    if (index < sequences) {
      CIUIC_TRY(dataset->read(dataset->sequenceAt(split, epoch, index),
                              rowTokens, rowLabels));
      continue;
    }
    std::fill_n(rowTokens, length, dataset->padToken());
    std::fill_n(rowLabels, length, ignoredLabel);
  }
  return {};
}

} // namespace ciuic::rt
