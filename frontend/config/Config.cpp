//===- Config.cpp - A DeepSpeed file, resolved ----------------------------===//
//
// The order of the parts, and those too small for a file of their own.
//
//===----------------------------------------------------------------------===//

#include "frontend/config/Config.h"

#include "frontend/config/Resolver.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <tuple>

using namespace ciuic;
using namespace ciuic::config;

rt::Result<ResolvedConfig> Resolver::run() {
  top = {"", &root, false};
  if (!root.isObject())
    return rt::Status::invalid(
        where(&root.at, "") +
        fmt::format("found {}, expected an object", describe(root)));
  checkKeys(top);
  resolveBatch();
  resolvePrecision();
  resolveOptimizer();
  resolveScheduler();
  resolveZero();
  resolveGradients();
  resolveRoom();
  resolveRest();
  crossCheck();
  if (errors.empty()) {
    // What has no effect comes last in the table.
    std::vector<ResolvedKey> idle;
    std::erase_if(out.keys, [&](ResolvedKey &row) {
      if (!row.acted)
        idle.push_back(row);
      return !row.acted;
    });
    out.keys.insert(out.keys.end(), idle.begin(), idle.end());
    return std::move(out);
  }
  std::ranges::sort(errors, {}, [](const Mistake &mistake) {
    return std::tuple(mistake.at.line, mistake.at.column, mistake.order);
  });
  std::string all;
  for (const Mistake &mistake : errors)
    all += (all.empty() ? "" : "\n") + mistake.message;
  return rt::Status::invalid(all);
}

/// A type by DeepSpeed's names for it, in any case.
static std::optional<Precision> parsePrecision(std::string text) {
  for (char &c : text)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  if (text == "fp32" || text == "float32")
    return Precision::Fp32;
  if (text == "bf16" || text == "bfp16" || text == "bfloat16")
    return Precision::Bf16;
  if (text == "fp16" || text == "half" || text == "float16")
    return Precision::Fp16;
  return std::nullopt;
}

void Resolver::resolveGradients() {
  JobSettings &job = out.job;
  Rule<double> clip{1.0};
  clip.given = over.maxGradNorm;
  clip.option = "--max-grad-norm";
  clip.automatic = 1.0;
  Settled<double> clipping = settle(top, {"gradient_clipping"}, clip);
  job.gradientClipping = std::max(0.0, clipping.value);
  addRow("gradient_clipping", clipping);
  if (clipping.source == Source::Default && !clipping.line)
    note("gradient_clipping", "1 by default, as in DeepSpeed 0.19.6; earlier "
                              "versions did not clip; 0 is off");

  Settled<bool> prescale =
      settle(top, {"prescale_gradients"}, Rule<bool>{false});
  Settled<double> divide =
      settle(top, {"gradient_predivide_factor"}, Rule<double>{1.0});
  auto early = [&](const char *key, bool asked) {
    const Node *node = asked ? top.node->find(key) : nullptr;
    if (!node)
      return;
    if (job.zero.stage > 0 && reduceScatter)
      error(*node, key,
            fmt::format("found {}, which DeepSpeed refuses at stage {} with "
                        "reduce_scatter",
                        describe(*node), job.zero.stage));
    else
      warnIdle(&node->at, key,
               "known to DeepSpeed, not acted on here (the mean over ranks is "
               "the same)");
  };
  early("prescale_gradients", prescale.value);
  early("gradient_predivide_factor", divide.value != 1.0);

  Rule<std::string> rule{"mean"};
  rule.expected = "mean or sum";
  Settled<std::string> op = settle(top, {"gradient_allreduce_op"}, rule);
  if (op.fromFile()) {
    const Node *node = top.node->find("gradient_allreduce_op");
    std::string lower = op.value;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    if (lower == "sum")
      error(*node, "gradient_allreduce_op",
            job.zero.stage == 3
                ? "found sum, which DeepSpeed refuses at stage 3, expected mean"
                : "found sum, which is not supported yet, expected mean");
    else if (lower != "mean")
      error(*node, "gradient_allreduce_op",
            fmt::format("found {}, expected mean or sum", describe(*node)));
    addRow("gradient_allreduce_op", op);
  }

  Rule<std::string> typeRule{name(job.precision.compute)};
  typeRule.expected = "fp16, bf16 or fp32";
  Settled<std::string> type =
      settle(top, {"communication_data_type"}, typeRule);
  if (std::optional<Precision> parsed = parsePrecision(type.value)) {
    job.communicationType = *parsed;
  } else {
    const Node *node = top.node->find("communication_data_type");
    error(
        *node, "communication_data_type",
        fmt::format("found {}, expected fp16, bf16 or fp32", describe(*node)));
  }
  if (!type.fromFile())
    type.origin = "the training type";
  addRow("communication_data_type", type);

  Section types = open(top, "data_types");
  Rule<std::string> sumRule{""};
  sumRule.nullIsAbsent = true;
  sumRule.expected = "fp16, bf16 or fp32";
  Settled<std::string> sum = settle(types, {"grad_accum_dtype"}, sumRule);
  if (!sum.fromFile())
    return;
  const Node *node = types.node->find("grad_accum_dtype");
  std::optional<Precision> sumType = parsePrecision(sum.value);
  if (!sumType)
    error(
        *node, "data_types.grad_accum_dtype",
        fmt::format("found {}, expected fp16, bf16 or fp32", describe(*node)));
  else if (job.zero.stage == 0 && *sumType != job.precision.compute)
    error(*node, "data_types.grad_accum_dtype",
          fmt::format("found {}, which DeepSpeed refuses at stage 0 with {} "
                      "training; expected {}",
                      describe(*node), name(job.precision.compute),
                      name(job.precision.compute)));
  else if (*sumType != Precision::Fp32)
    warnIdle(&node->at, "data_types.grad_accum_dtype",
             "known to DeepSpeed, not acted on here (gradients accumulate in "
             "fp32)");
}

void Resolver::resolveRest() {
  Rule<int64_t> printRule;
  printRule.fallback = 0;
  printRule.valid = [](int64_t value) { return value > 0; };
  printRule.expected = "a positive whole number";
  Settled<int64_t> print = settle(top, {"steps_per_print"}, printRule);
  out.job.stepsPerPrint = print.value;
  if (print.fromFile())
    addRow("steps_per_print", print);
  else
    addRow("steps_per_print", "none", Source::Default, 0, "default");
  out.job.wallClockBreakdown =
      read(top, {"wall_clock_breakdown"}, Rule<bool>{false});

  Section checkpoint = open(top, "checkpoint");
  Rule<std::string> tagRule{"Warn"};
  tagRule.expected = "Ignore, Warn or Fail";
  Settled<std::string> tag = settle(checkpoint, {"tag_validation"}, tagRule);
  std::string lower = tag.value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (lower != "ignore" && lower != "warn" && lower != "fail")
    error(*checkpoint.node->find("tag_validation"), "checkpoint.tag_validation",
          fmt::format("found {}, expected Ignore, Warn or Fail",
                      describe(*checkpoint.node->find("tag_validation"))));

  // Whole features that would change the job are refused, not ignored.
  auto isOn = [&](const char *key) -> const Node * {
    const Node *node = top.node->find(key);
    if (!node || !node->isObject())
      return nullptr;
    const Node *on = node->find("enabled");
    return on && on->kind == Node::Kind::Bool && on->boolean ? on : nullptr;
  };
  if (const Node *on = isOn("amp"))
    error(*on, "amp.enabled",
          out.job.precision.compute != Precision::Fp32 || out.job.zero.stage
              ? "found true, which DeepSpeed refuses with fp16, bf16 or ZeRO"
              : "found true, which is not supported; use fp16 or bf16");
  if (const Node *on = isOn("elasticity"))
    error(*on, "elasticity.enabled",
          "found true, which is not supported yet; give the batch sizes");
}

/// Rules between parts.
void Resolver::crossCheck() {
  const JobSettings &job = out.job;
  Settled<bool> untested =
      settle(top, {"zero_allow_untested_optimizer"}, Rule<bool>{false});
  Settled<bool> force =
      settle(top, {"zero_force_ds_cpu_optimizer"}, Rule<bool>{true});
  if (untested.fromFile())
    addRow("zero_allow_untested_optimizer", untested);
  if (force.fromFile())
    addRow("zero_force_ds_cpu_optimizer", force);

  const Node *optimizer = top.node->find("optimizer");
  const Node *type =
      optimizer && optimizer->isObject() ? optimizer->find("type") : nullptr;
  if (job.optimizer.kind == OptimizerKind::Sgd && type) {
    if (job.zero.stage > 0 && !untested.value)
      error(*type, "optimizer.type",
            fmt::format("found SGD at stage {}, expected "
                        "zero_allow_untested_optimizer to be true with it",
                        job.zero.stage));
    if (job.zero.offloadOptimizer.device != OffloadDevice::None && force.value)
      error(*type, "optimizer.type",
            "found SGD with offload_optimizer, expected "
            "zero_force_ds_cpu_optimizer to be false with it");
  }
  if (masters && job.zero.stage == 0)
    error(*masters, mastersKey,
          "found true at stage 0, expected stage 1, 2 or 3");
  if (job.precision.compute == Precision::Fp16 && job.zero.stage == 0 &&
      job.precision.lossScale.dynamic)
    note("fp16", "DeepSpeed's stage 0 ignores hysteresis and never stops at "
                 "the smallest loss scale; here every stage does as stages 1 "
                 "to 3 do");
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

rt::Result<ResolvedConfig> config::resolveText(std::string_view text,
                                               const std::string &name,
                                               const Overrides &overrides,
                                               bool strict) {
  CIUIC_TRY_ASSIGN(Node root, parseHjson(text, name));
  return Resolver(name, root, overrides, strict).run();
}

rt::Result<ResolvedConfig> config::resolve(const std::string &path,
                                           const Overrides &overrides,
                                           bool strict) {
  std::error_code failure;
  auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status))
    return rt::Status::invalid(fmt::format("{}: no such file", path));
  if (!std::filesystem::is_regular_file(status))
    return rt::Status::invalid(fmt::format(
        "{}: not a file, expected a DeepSpeed configuration", path));
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
      std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file)
    return rt::Status::invalid(fmt::format("{}: cannot be opened", path));
  // One byte beyond the limit tells the parser that the file is too large.
  std::string text(maxHjsonBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()))
    return rt::Status::machine(fmt::format("{}: cannot be read", path));
  return resolveText(text, path, overrides, strict);
}
