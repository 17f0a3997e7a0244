//===- Batch.cpp - Global batch, micro-batch and accumulation -------------===//
//
// DeepSpeed infers what is missing of the three with floor divisions and then
// asserts that the product is right. The same jobs pass here, but a job that
// does not divide is told which numbers do not.
//
//===----------------------------------------------------------------------===//

#include "frontend/config/Resolver.h"

using namespace ciuic;
using namespace ciuic::config;

static constexpr const char *totalKey = "train_batch_size";
static constexpr const char *microKey = "train_micro_batch_size_per_gpu";
static constexpr const char *stepsKey = "gradient_accumulation_steps";

/// a * b, or nothing beyond 63 bits.
static std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

static bool isPositive(int64_t value) { return value > 0; }

void Resolver::resolveBatch() {
  Rule<int64_t> rule;
  rule.valid = isPositive;
  rule.expected = "a positive whole number";
  // 0 stands for "not said": what "auto" and absence have in common here.
  rule.fallback = 0;
  rule.automatic = 0;

  size_t errorsBefore = errors.size();
  auto readOne = [&](const char *key, std::optional<int64_t> given,
                     const char *option) {
    rule.given = given;
    rule.option = option;
    return settle(top, {key}, rule);
  };
  Settled<int64_t> total = readOne(totalKey, over.trainBatchSize, "--batch");
  Settled<int64_t> micro = readOne(microKey, over.microBatch, "--micro-batch");
  Settled<int64_t> steps =
      readOne(stepsKey, over.accumulation, "--accumulation");
  if (over.devices < 1)
    error(nullptr, "",
          fmt::format("found --devices {}, expected 1 or more", over.devices));
  if (errors.size() == errorsBefore)
    settleBatch(total, micro, steps);

  addRow(totalKey, total);
  addRow(microKey, micro);
  addRow(stepsKey, steps);
  out.job.batch = {total.value, micro.value, steps.value, over.devices};
}

void Resolver::settleBatch(Settled<int64_t> &total, Settled<int64_t> &micro,
                           Settled<int64_t> &steps) {
  const int64_t devices = over.devices;
  auto isAuto = [&](const char *key) {
    const Node *node = top.node ? top.node->find(key) : nullptr;
    return node && node->isAuto();
  };
  auto infer = [](Settled<int64_t> &settled, int64_t value,
                  std::string origin) {
    settled.value = value;
    settled.source = Source::Inferred;
    settled.origin = std::move(origin);
  };
  auto fail = [&](const char *key, std::string what) {
    const Node *node = top.node ? top.node->find(key) : nullptr;
    error(node ? &node->at : nullptr, key, what);
  };

  // What the trainer would pass for "auto", unless the rest of the file
  // already decides it.
  if (!total.value && !micro.value && (isAuto(totalKey) || isAuto(microKey))) {
    micro.value = 8;
    micro.source = Source::Default;
    micro.origin = "trainer's default";
  }
  if (!total.value && !steps.value && isAuto(stepsKey)) {
    steps.value = 1;
    steps.source = Source::Default;
    steps.origin = "trainer's default";
  }

  if (!total.value && !micro.value)
    return fail(totalKey,
                fmt::format("either train_batch_size or {} needs to be given, "
                            "here or on the command line",
                            microKey));

  if (!total.value) {
    if (!steps.value)
      steps.value = 1; // The default, and named so.
    std::optional<int64_t> perStep = product(micro.value, steps.value);
    std::optional<int64_t> all =
        perStep ? product(*perStep, devices) : std::nullopt;
    if (!all)
      return fail(microKey,
                  fmt::format("{} x {} x {} devices is beyond 63 bits",
                              micro.value, steps.value, devices));
    return infer(
        total, *all,
        fmt::format("{} x {} x {} devices", micro.value, steps.value, devices));
  }

  if (!micro.value && !steps.value) {
    if (total.value % devices != 0)
      return fail(totalKey, fmt::format("{} sequences do not divide over {} "
                                        "devices, expected a multiple of {}",
                                        total.value, devices, devices));
    steps.value = 1; // The default, and named so.
    return infer(micro, total.value / devices,
                 fmt::format("{} / {} devices", total.value, devices));
  }

  // One of the two is known: the other is the rest, if it is whole.
  if (!micro.value || !steps.value) {
    const Settled<int64_t> &known = micro.value ? micro : steps;
    const char *knownKey = micro.value ? microKey : stepsKey;
    std::optional<int64_t> unit = product(known.value, devices);
    if (!unit || total.value % *unit != 0)
      return fail(
          totalKey,
          fmt::format("{} sequences do not divide into {} {} x {} "
                      "devices, expected a multiple of {}",
                      total.value, knownKey, known.value, devices,
                      unit ? fmt::format("{}", *unit) : "more than 63 bits"));
    return infer(
        micro.value ? steps : micro, total.value / *unit,
        fmt::format("{} / {} / {} devices", total.value, known.value, devices));
  }

  std::optional<int64_t> perStep = product(micro.value, steps.value);
  std::optional<int64_t> all =
      perStep ? product(*perStep, devices) : std::nullopt;
  if (all != total.value)
    fail(totalKey,
         fmt::format("found {}, expected {} = {} {} x {} {} x {} devices",
                     total.value,
                     all ? fmt::format("{}", *all) : "more than 63 bits",
                     microKey, micro.value, stepsKey, steps.value, devices));
}
