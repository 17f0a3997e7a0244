//===- Zero.cpp - What is sharded, and what lives on the host -------------===//

#include "frontend/config/Resolver.h"

using namespace ciuic;
using namespace ciuic::config;

const char *config::name(OffloadDevice device) {
  switch (device) {
  case OffloadDevice::None:
    return "none";
  case OffloadDevice::Cpu:
    return "cpu";
  case OffloadDevice::Nvme:
    return "nvme";
  }
  return "";
}

void Resolver::resolveZero() {
  ZeroSettings &zero = out.job.zero;
  const Node *node = top.node->find("zero_optimization");
  Section section{"zero_optimization", nullptr, true};
  Rule<int64_t> rule;
  rule.valid = [](int64_t value) { return value >= 0 && value <= 3; };
  rule.expected = "0, 1, 2 or 3";
  rule.given = over.stage;
  rule.option = "--zero-stage";
  Settled<int64_t> stage;
  if (node && node->kind == Node::Kind::Bool) { // The oldest form.
    stage = {node->boolean ? 1 : 0, Source::File, node->at.line,
             fmt::format("line {}", node->at.line)};
    note("zero_optimization", "true or false is an old form of stage 1 or 0");
    override(stage, *node, "zero_optimization", rule);
  } else {
    section = open(top, "zero_optimization");
    stage = settle(section, {"stage"}, rule);
  }
  addRow("zero_optimization.stage", stage);
  zero.stage = static_cast<int>(stage.value);

  // All sizes are elements. "auto" follows from the hidden size, as the
  // trainer computes it, the last two at stage 3 only.
  Rule<int64_t> size;
  size.valid = [](int64_t value) { return value >= 0; };
  size.expected = "a whole number of elements, 0 or above";
  auto fill = [&](int64_t fallback, bool applies, double factor, int power) {
    size.fallback = fallback;
    size.automatic.reset();
    if (!applies || !over.hiddenSize)
      return;
    double hidden = static_cast<double>(*over.hiddenSize);
    double value = factor * hidden * (power == 2 ? hidden : 1);
    if (value >= 0 && value < 9e18)
      size.automatic = static_cast<int64_t>(value);
    size.automaticSource = Source::Model;
    size.automaticOrigin = fmt::format("hidden size {}", *over.hiddenSize);
  };
  fill(500'000'000, true, 1.0, 2);
  zero.reduceBucketSize = read(section, {"reduce_bucket_size"}, size);
  fill(500'000'000, false, 0, 0);
  zero.allgatherBucketSize = read(section, {"allgather_bucket_size"}, size);
  const bool three = zero.stage == 3;
  fill(50'000'000, three, 0.9, 2);
  zero.prefetchBucketSize = read(
      section, {"stage3_prefetch_bucket_size", "prefetch_bucket_size"}, size);
  fill(100'000, three, 10.0, 1);
  zero.persistenceThreshold = read(
      section,
      {"stage3_param_persistence_threshold", "param_persistence_threshold"},
      size);
  if (section.node && !over.hiddenSize)
    for (const char *key : {"reduce_bucket_size", "stage3_prefetch_bucket_size",
                            "stage3_param_persistence_threshold"})
      if (const Node *found = section.node->find(key);
          found && found->isAuto() &&
          (three || std::string_view(key) == "reduce_bucket_size"))
        warn(&found->at, section.pathOf(key),
             "\"auto\" follows from the model's hidden size, which is not "
             "known here; DeepSpeed's default stands in");

  // Keys without effect here may still not be given twice.
  lookup(section, {"stage3_max_live_parameters", "max_live_parameters"}, false);
  lookup(section, {"stage3_max_reuse_distance", "max_reuse_distance"}, false);
  lookup(section,
         {"stage3_model_persistence_threshold", "model_persistence_threshold"},
         false);
  lookup(section,
         {"stage3_gather_16bit_weights_on_model_save",
          "gather_16bit_weights_on_model_save",
          "stage3_gather_fp16_weights_on_model_save"},
         false);

  Rule<bool> overlap;
  overlap.fallback = three;
  overlap.nullIsAbsent = true;
  zero.overlapComm = read(section, {"overlap_comm"}, overlap);

  // At stages 1 and 2 ranks start at even elements.
  if ((zero.stage == 1 || zero.stage == 2) && zero.allgatherBucketSize % 2)
    error(*section.node->find("allgather_bucket_size"),
          "zero_optimization.allgather_bucket_size",
          fmt::format("found {}, expected an even number of elements",
                      zero.allgatherBucketSize));

  Settled<bool> scatter = settle(section, {"reduce_scatter"}, Rule<bool>{true});
  reduceScatter = scatter.value;
  if (scatter.fromFile()) {
    addRow("zero_optimization.reduce_scatter", scatter);
    if (!scatter.value)
      warnIdle(&section.node->find("reduce_scatter")->at,
               "zero_optimization.reduce_scatter",
               "known to DeepSpeed, not acted on here (gradients are always "
               "reduced straight into shards)");
  }
  resolveOffload(section);
}

/// One offload section: device, pinning, and the old switches before it.
OffloadSettings Resolver::readOffload(const Section &zero, const char *key,
                                      const char *oldKey) {
  OffloadSettings offload;
  Section section = open(zero, key);
  const std::string path = section.path;
  Rule<std::string> rule{"none"};
  rule.valid = nullptr;
  rule.expected = "none, cpu or nvme";
  if (std::string_view(key) == "offload_optimizer" && over.offloadOptimizer) {
    rule.given = name(*over.offloadOptimizer);
    rule.option = "--offload-optimizer";
  }
  if (std::string_view(key) == "offload_param" && over.offloadParam) {
    rule.given = name(*over.offloadParam);
    rule.option = "--offload-param";
  }
  Settled<std::string> device = settle(section, {"device"}, rule);

  const Node *old = zero.node ? zero.node->find(oldKey) : nullptr;
  if (old) {
    std::optional<bool> on =
        asBool(*old, zero.pathOf(oldKey), true, "true or false");
    if (zero.node->find(key))
      error(*old, zero.pathOf(oldKey),
            fmt::format("an old form of {}, which is given too; expected one "
                        "of them",
                        key));
    else if (on) {
      device = {*on ? "cpu" : "none", Source::File, old->at.line,
                fmt::format("line {}, from {}", old->at.line, oldKey)};
      override(device, *old, zero.pathOf(oldKey), rule);
    }
    note(zero.pathOf(oldKey), fmt::format("an old form of {}", key));
  }

  if (device.value == "cpu") {
    offload.device = OffloadDevice::Cpu;
  } else if (device.value == "nvme") {
    offload.device = OffloadDevice::Nvme;
  } else if (device.value != "none") {
    const Node *node = section.node->find("device");
    error(*node, section.pathOf("device"),
          fmt::format("found {}, expected none, cpu or nvme", describe(*node)));
  }
  addRow(section.pathOf("device"), device);

  Settled<bool> pin = settle(section, {"pin_memory"}, Rule<bool>{true});
  const Node *oldPin =
      zero.node ? zero.node->find("cpu_offload_use_pin_memory") : nullptr;
  if (oldPin && std::string_view(key) == "offload_optimizer") {
    std::optional<bool> on =
        asBool(*oldPin, zero.pathOf("cpu_offload_use_pin_memory"), true, "");
    if (zero.node->find(key))
      error(*oldPin, zero.pathOf("cpu_offload_use_pin_memory"),
            "an old form of offload_optimizer.pin_memory, and "
            "offload_optimizer is given too; expected one of them");
    else if (on)
      pin = {*on, Source::File, oldPin->at.line,
             fmt::format("line {}", oldPin->at.line)};
  }
  offload.pinMemory = pin.value;
  if (offload.device != OffloadDevice::None)
    addRow(section.pathOf("pin_memory"), pin);
  Rule<std::string> pathRule;
  pathRule.nullIsAbsent = true;
  const bool isOptimizer = std::string_view(key) == "offload_optimizer";
  if (isOptimizer) {
    pathRule.given = over.nvmePath;
    pathRule.option = "--nvme-path";
  }
  Settled<std::string> folder = settle(section, {"nvme_path"}, pathRule);
  if (isOptimizer && offload.device == OffloadDevice::Nvme) {
    offload.nvmePath = folder.value;
    const Node *at = section.node ? section.node->find("device") : nullptr;
    if (folder.value.empty())
      error(at ? &at->at : nullptr, section.pathOf("nvme_path"),
            "missing, expected the folder for the files (--nvme-path)");
    else
      addRow(section.pathOf("nvme_path"), folder);
  } else if (isOptimizer && over.nvmePath && !over.overFile) {
    error(nullptr, section.pathOf("nvme_path"),
          fmt::format("found --nvme-path {} and device {}, expected nvme "
                      "(--offload-optimizer nvme)",
                      *over.nvmePath, name(offload.device)));
  }

  if (std::string_view(key) == "offload_optimizer") {
    Rule<double> ratioRule{
        1.0, [](double value) { return value >= 0 && value <= 1; },
        "a number from 0 to 1"};
    ratioRule.given = over.offloadRatio;
    ratioRule.option = "--offload-ratio";
    Settled<double> ratio = settle(section, {"ratio"}, ratioRule);
    offload.ratio = ratio.value;
    if (over.offloadRatio && offload.device == OffloadDevice::None)
      error(nullptr, section.pathOf("ratio"),
            fmt::format("found --offload-ratio {} where optimizer states are "
                        "not offloaded, expected it with {} cpu or nvme",
                        toText(*over.offloadRatio), section.pathOf("device")));
    // DeepSpeed's file obeys its rules; here every stage can do it.
    if (ratio.value < 1 && out.job.zero.stage != 3 && ratio.fromFile())
      error(*section.node->find("ratio"), section.pathOf("ratio"),
            fmt::format("found {} at stage {}, expected 1 below stage 3",
                        ratio.value, out.job.zero.stage));
    if (offload.device != OffloadDevice::None || ratio.fromFile())
      addRow(section.pathOf("ratio"), ratio);
  }
  return offload;
}

/// How files are read and written, where there are any.
void Resolver::resolveDisk() {
  DiskSettings &disk = out.job.zero.disk;
  Section section = open(top, "aio");
  if (out.job.zero.offloadOptimizer.device != OffloadDevice::Nvme)
    return;
  Rule<int64_t> block{disk.blockSize,
                      [](int64_t bytes) {
                        return bytes >= 4096 && bytes <= (1 << 30) &&
                               bytes % 4096 == 0;
                      },
                      "a multiple of 4096 up to 2^30"};
  Rule<int64_t> depth{
      disk.queueDepth,
      [](int64_t requests) { return requests >= 1 && requests <= 4096; },
      "1 to 4096"};
  Settled<int64_t> size = settle(section, {"block_size"}, block);
  Settled<int64_t> most = settle(section, {"queue_depth"}, depth);
  disk.blockSize = size.value;
  disk.queueDepth = most.value;
  addRow("aio.block_size", size);
  addRow("aio.queue_depth", most);
}

void Resolver::resolveOffload(const Section &zero) {
  ZeroSettings &settings = out.job.zero;
  settings.offloadOptimizer =
      readOffload(zero, "offload_optimizer", "cpu_offload");
  settings.offloadParam =
      readOffload(zero, "offload_param", "cpu_offload_param");

  auto place = [&](const char *key) -> const Position * {
    const Node *node = zero.node ? zero.node->find(key) : nullptr;
    const Node *device =
        node && node->isObject() ? node->find("device") : nullptr;
    return device ? &device->at : node ? &node->at : nullptr;
  };
  resolveDisk();
  if (settings.offloadOptimizer.device != OffloadDevice::None &&
      settings.stage == 0)
    note("zero_optimization.offload_optimizer",
         "DeepSpeed offloads at stages 1 to 3 only; here stage 0 does too");

  // The command line means what it says at every stage.
  OffloadDevice &param = settings.offloadParam.device;
  if (param == OffloadDevice::None || over.offloadParam)
    return;
  if (settings.stage != 3)
    warnIdle(place("offload_param"), "zero_optimization.offload_param",
             fmt::format("needs stage 3, found stage {}: without effect, as "
                         "in DeepSpeed; --offload-param cpu acts at every "
                         "stage",
                         settings.stage));
  else if (param == OffloadDevice::Nvme)
    warnIdle(place("offload_param"), "zero_optimization.offload_param",
             "nvme is known to DeepSpeed, not acted on here (parameter shards "
             "stay on the device; cpu keeps them in host memory)");
  else
    return;
  param = OffloadDevice::None;
}
