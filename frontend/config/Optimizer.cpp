//===- Optimizer.cpp - The update rule and the learning rate's curve ------===//

#include "frontend/config/Resolver.h"

#include <algorithm>
#include <cmath>

using namespace ciuic;
using namespace ciuic::config;

const char *config::name(OptimizerKind kind) {
  switch (kind) {
  case OptimizerKind::AdamW:
    return "AdamW";
  case OptimizerKind::Adam:
    return "Adam";
  case OptimizerKind::Sgd:
    return "SGD";
  }
  return "";
}

static bool notNegative(double value) { return value >= 0; }
static bool isDecay(double value) { return value >= 0 && value < 1; }

static std::string lower(std::string text) {
  for (char &c : text)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  return text;
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// Optimizers that DeepSpeed has and this compiler does not.
static constexpr std::string_view unsupportedOptimizers[] = {
    "lamb",       "adagrad", "lion",        "muon",    "onebitadam",
    "onebitlamb", "muadam",  "zerooneadam", "muadamw", "musgd"};

void Resolver::resolveOptimizer() {
  Section section = open(top, "optimizer");
  Settled<std::string> type;
  type.value = "AdamW";
  if (!section.node) {
    note("optimizer", "the file has none: AdamW with lr 0.001, betas 0.9 and "
                      "0.999, eps 1e-08 and no decay, where the command line "
                      "says nothing else");
  } else if (const Node *node = section.node->find("type")) {
    Rule<std::string> rule{"AdamW"};
    rule.expected = "the name of an optimizer";
    type = settle(section, {"type"}, rule);
    if (node->isAuto())
      error(*node, "optimizer.type",
            "\"auto\" is not filled for this key, expected AdamW, Adam or SGD");
  } else {
    error(*section.node, "optimizer.type",
          "missing, expected AdamW, Adam or SGD");
  }

  std::string kind = lower(type.value);
  if (kind != "adamw" && kind != "adam" && kind != "sgd") {
    bool known = std::ranges::find(unsupportedOptimizers, kind) !=
                 std::end(unsupportedOptimizers);
    const Node *node = section.node->find("type");
    error(*node, "optimizer.type",
          fmt::format("found {}, which {}; expected AdamW, Adam or SGD",
                      describe(*node),
                      known ? "is not supported yet"
                            : "DeepSpeed does not bring"));
    return; // Its parameters are other ones.
  }
  Section params = open(section, "params");

  if (params.node)
    if (const Node *node = params.node->find("max_grad_norm"))
      error(*node, "optimizer.params.max_grad_norm",
            "not a parameter of the optimizer, use \"gradient_clipping\" at "
            "the top level");

  Rule<double> lrRule{1e-3, notNegative, "a number, 0 or above"};
  lrRule.given = over.lr;
  lrRule.option = "--lr";
  lrRule.automatic = 5e-5;
  learningRate = settle(params, {"lr"}, lrRule);
  out.job.optimizer.lr = learningRate.value;
  addRow("optimizer.type", type);
  addRow("optimizer.params.lr", learningRate);
  if (kind == "sgd")
    resolveSgd(params);
  else
    resolveAdam(params, kind);
  out.job.scheduler.rate.lr = out.job.optimizer.lr;
}

/// What PyTorch's optimizers offer and this compiler does not.
void Resolver::refuseWhenTrue(const Section &params, const char *key) {
  Settled<bool> settled = settle(params, {key}, Rule<bool>{false});
  if (settled.value)
    error(*params.node->find(key), params.pathOf(key),
          "found true, which is not supported yet, expected false");
}

void Resolver::resolveAdam(const Section &params, std::string_view type) {
  OptimizerSettings &optimizer = out.job.optimizer;

  // The pair is one key; each half may come from the command line.
  Settled<bool> pair; // Only its origin is used.
  double betas[2] = {0.9, 0.999};
  const Node *node = lookup(params, {"betas"}, /*nullIsAbsent=*/false);
  if (node && !node->isAuto()) {
    pair = {true, Source::File, node->at.line,
            fmt::format("line {}", node->at.line)};
    bool good = node->kind == Node::Kind::Array && node->elements.size() == 2;
    for (size_t i = 0; good && i < 2; ++i) {
      const Node &element = node->elements[i];
      good = element.kind == Node::Kind::Number && isDecay(element.number);
      betas[i] = element.number;
    }
    if (!good)
      error(*node, "optimizer.params.betas",
            fmt::format("found {}, expected two numbers from 0 to below 1",
                        toJson(*node).substr(0, 60)));
  } else if (node) {
    pair.line = node->at.line;
    pair.origin = fmt::format("trainer's default, for \"auto\" in line {}",
                              node->at.line);
  }
  const std::optional<double> given[2] = {over.beta1, over.beta2};
  const char *options[2] = {"--beta1", "--beta2"};
  for (int i = 0; i < 2; ++i) {
    if (!given[i])
      continue;
    if (!isDecay(*given[i]))
      error(nullptr, "optimizer.params.betas",
            fmt::format("found {} {}, expected a number from 0 to below 1",
                        options[i], *given[i]));
    if (pair.fromFile() && betas[i] != *given[i])
      error(*node, "optimizer.params.betas",
            fmt::format("the file says {}, the command line says {} {}",
                        betas[i], options[i], *given[i]));
    if (!pair.fromFile())
      pair = {true, Source::CommandLine, 0, "--beta1, --beta2"};
    betas[i] = *given[i];
  }
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
  addRow("optimizer.params.betas", fmt::format("[{}, {}]", betas[0], betas[1]),
         pair.source, pair.line, pair.origin);

  Rule<double> epsRule{1e-8, notNegative, "a number, 0 or above"};
  epsRule.given = over.eps;
  epsRule.option = "--eps";
  epsRule.automatic = 1e-8;
  optimizer.eps = read(params, {"eps"}, epsRule);

  // DeepSpeed's "Adam" decouples the decay unless told otherwise.
  Settled<bool> decoupled = settle(params, {"adam_w_mode"}, Rule<bool>{true});
  Settled<bool> torchAdam = settle(params, {"torch_adam"}, Rule<bool>{false});
  const bool adamW = type == "adamw" || decoupled.value;
  optimizer.kind = adamW ? OptimizerKind::AdamW : OptimizerKind::Adam;

  // PyTorch's AdamW decays by default, DeepSpeed's does not.
  Rule<double> decayRule{torchAdam.value && adamW ? 0.01 : 0.0, notNegative,
                         "a number, 0 or above"};
  decayRule.given = over.weightDecay;
  decayRule.option = "--weight-decay";
  decayRule.automatic = 0.0;
  optimizer.weightDecay = read(params, {"weight_decay"}, decayRule);

  Rule<bool> biasRule{true};
  optimizer.biasCorrection = read(params, {"bias_correction"}, biasRule);
  addRow("optimizer.params.adam_w_mode", decoupled);
  if (torchAdam.fromFile())
    addRow("optimizer.params.torch_adam", torchAdam);
  if (type == "adam" && adamW)
    note("optimizer.type", "\"Adam\" decays weights as AdamW does, unless "
                           "adam_w_mode is false");
  if (type == "adamw" && !decoupled.value)
    note("optimizer.params.adam_w_mode",
         "false does not change AdamW, only Adam");
  refuseWhenTrue(params, "amsgrad");
  refuseWhenTrue(params, "maximize");
  for (const char *other : {"momentum", "dampening", "nesterov"})
    if (const Node *found = params.node ? params.node->find(other) : nullptr)
      error(*found, params.pathOf(other), "a parameter of SGD, not of Adam");
}

void Resolver::resolveSgd(const Section &params) {
  OptimizerSettings &optimizer = out.job.optimizer;
  optimizer.kind = OptimizerKind::Sgd;
  Rule<double> rule{0.0, notNegative, "a number, 0 or above"};
  optimizer.momentum = read(params, {"momentum"}, rule);
  Rule<double> dampening{0.0, [](double value) { return value == 0; },
                         "0, the only dampening supported yet"};
  settle(params, {"dampening"}, dampening);
  refuseWhenTrue(params, "nesterov");
  refuseWhenTrue(params, "maximize");
  rule.given = over.weightDecay;
  rule.option = "--weight-decay";
  rule.automatic = 0.0;
  optimizer.weightDecay = read(params, {"weight_decay"}, rule);
  for (const char *other : {"betas", "eps", "bias_correction", "adam_w_mode",
                            "torch_adam", "amsgrad"})
    if (const Node *found = params.node ? params.node->find(other) : nullptr)
      error(*found, params.pathOf(other), "a parameter of Adam, not of SGD");
}

//===----------------------------------------------------------------------===//
// Scheduler
//===----------------------------------------------------------------------===//

void Resolver::resolveScheduler() {
  rt::LearningRateParams &rate = out.job.scheduler.rate;
  Section section = open(top, "scheduler");
  if (!section.node) {
    addRow("scheduler.type", "none", Source::Default, 0, "default");
    return;
  }

  Rule<std::string> typeRule{""};
  typeRule.expected = "the name of a schedule";
  Settled<std::string> type = settle(section, {"type"}, typeRule);
  const Node *typeNode = section.node->find("type");
  if (type.value == "WarmupLR") {
    rate.kind = rt::LearningRateKind::WarmupLR;
  } else if (type.value == "WarmupDecayLR") {
    rate.kind = rt::LearningRateKind::WarmupDecayLR;
  } else if (type.value == "WarmupCosineLR") {
    rate.kind = rt::LearningRateKind::WarmupCosineLR;
  } else {
    bool known = type.value == "OneCycle" || type.value == "LRRangeTest";
    error(typeNode ? &typeNode->at : &section.node->at, "scheduler.type",
          fmt::format("found {}{}, expected WarmupLR, WarmupDecayLR or "
                      "WarmupCosineLR",
                      typeNode ? describe(*typeNode) : "none",
                      known ? ", which is not supported yet" : ""));
    return;
  }
  addRow("scheduler.type", type);
  Section params = open(section, "params");

  const bool cosine = rate.kind == rt::LearningRateKind::WarmupCosineLR;
  if (cosine) {
    Rule<double> ratio{0.0, notNegative, "a number, 0 or above"};
    rate.warmupMinRatio = read(params, {"warmup_min_ratio"}, ratio);
    ratio.fallback = 1e-4;
    rate.cosMinRatio = read(params, {"cos_min_ratio"}, ratio);
  } else {
    Rule<double> minRule{0.0, notNegative, "a number, 0 or above"};
    minRule.automatic = 0.0;
    rate.warmupMinLr = read(params, {"warmup_min_lr"}, minRule);

    // WarmupLR climbs to the optimizer's rate, WarmupDecayLR to 0.001; the
    // trainer fills in its own rate, which is the optimizer's.
    Rule<double> maxRule{1e-3, notNegative, "a number, 0 or above"};
    maxRule.automatic = out.job.optimizer.lr;
    maxRule.automaticOrigin = "optimizer.params.lr";
    maxRule.automaticSource = Source::Inferred;
    maxRule.nullIsAbsent = true;
    Settled<double> max = settle(params, {"warmup_max_lr"}, maxRule);
    if (rate.kind == rt::LearningRateKind::WarmupLR &&
        max.source == Source::Default)
      max = {out.job.optimizer.lr, Source::Inferred, 0, "optimizer.params.lr"};
    rate.warmupMaxLr = max.value;
    addRow("scheduler.params.warmup_max_lr", max);
  }
  resolveScheduleLength(params);

  Rule<std::string> curveRule{"log"};
  curveRule.expected = "log or linear";
  Settled<std::string> curve = settle(params, {"warmup_type"}, curveRule);
  if (curve.value == "linear") {
    rate.curve = rt::WarmupCurve::Linear;
  } else if (curve.value != "log") {
    const Node *node = params.node->find("warmup_type");
    warn(&node->at, "scheduler.params.warmup_type",
         fmt::format("found {}, DeepSpeed takes log for it; expected log or "
                     "linear",
                     describe(*node)));
    curve.value = "log";
  }
  addRow("scheduler.params.warmup_type", curve);

  // A key of another schedule would reach a constructor that refuses it.
  auto foreign = [&](std::initializer_list<const char *> keys) {
    for (const char *key : keys)
      if (const Node *node = params.node ? params.node->find(key) : nullptr)
        error(*node, params.pathOf(key),
              fmt::format("not a parameter of {}", type.value));
  };
  if (cosine)
    foreign({"warmup_min_lr", "warmup_max_lr"});
  else
    foreign({"warmup_min_ratio", "cos_min_ratio"});
  if (rate.kind == rt::LearningRateKind::WarmupLR)
    foreign({"total_num_steps"});
  Rule<int64_t> start{-1, [](int64_t value) { return value == -1; },
                      "-1, the beginning; a resumed run knows its step"};
  settle(params, {"last_batch_iteration"}, start);
}

/// Steps of warm-up and of the whole schedule.
void Resolver::resolveScheduleLength(const Section &params) {
  rt::LearningRateParams &rate = out.job.scheduler.rate;
  Rule<int64_t> warmupRule;
  warmupRule.fallback = 1000;
  warmupRule.expected = "a positive whole number";
  warmupRule.given = over.warmupSteps;
  warmupRule.option = "--warmup-steps";
  warmupRule.automatic = 0;
  Settled<int64_t> warmup = settle(params, {"warmup_num_steps"}, warmupRule);
  const Node *node =
      params.node ? params.node->find("warmup_num_steps") : nullptr;
  if (warmup.value < 0 || (warmup.value == 0 && warmup.fromFile())) {
    error(node ? &node->at : nullptr, "scheduler.params.warmup_num_steps",
          fmt::format("found {}, expected a positive whole number",
                      warmup.value));
    warmup.value = 2;
  } else if (warmup.value == 0) {
    // Only the trainer's "no warm-up" arrives here: DeepSpeed refuses 0, and
    // its curve begins with two steps at the minimum in any case.
    note("scheduler.params.warmup_num_steps",
         "no warm-up was asked for; 2 steps, the least that DeepSpeed's "
         "schedules have");
    warmup.value = 2;
  }
  rate.warmupSteps = warmup.value;
  addRow("scheduler.params.warmup_num_steps", warmup);
  if (rate.kind == rt::LearningRateKind::WarmupLR)
    return;

  Settled<int64_t> job; // How many steps the job takes, if that is known.
  if (over.totalSteps) {
    job = {*over.totalSteps, Source::CommandLine, 0, "--steps"};
  } else if (over.epochs && over.sequencesPerEpoch &&
             out.job.batch.trainBatchSize > 0) {
    int64_t batch = out.job.batch.trainBatchSize;
    double perEpoch = std::ceil(static_cast<double>(*over.sequencesPerEpoch) /
                                static_cast<double>(batch));
    double steps = std::ceil(perEpoch * *over.epochs);
    if (steps >= 1 && steps < 9e18)
      job = {static_cast<int64_t>(steps), Source::Job, 0,
             fmt::format("{} epochs of {} sequences", *over.epochs,
                         *over.sequencesPerEpoch)};
  }

  Rule<int64_t> totalRule;
  totalRule.valid = [](int64_t value) { return value > 0; };
  totalRule.expected = "a positive whole number";
  totalRule.automatic = 0;
  const char *key = "scheduler.params.total_num_steps";
  const Node *totalNode =
      lookup(params, {"total_num_steps"}, /*nullIsAbsent=*/false);
  Settled<int64_t> total;
  if (totalNode && !totalNode->isAuto()) {
    total = settle(params, {"total_num_steps"}, totalRule);
    if (job.value && total.value && job.value != total.value)
      note(key, fmt::format("the schedule has {} steps, the job takes {}",
                            total.value, job.value));
  } else if (job.value > 0) {
    total = job;
  } else if (totalNode) {
    out.job.scheduler.totalStepsFromJob = true;
    total.source = Source::Job;
    total.line = totalNode->at.line;
    total.origin = "the job's steps, known when it starts";
  } else {
    const Node *scheduler = top.node->find("scheduler");
    error(&scheduler->at, key,
          "missing, expected a positive whole number, \"auto\", or --steps");
  }
  rate.totalSteps = total.value;
  addRow(key, total);
  if (total.value && total.value < rate.warmupSteps)
    warn(totalNode ? &totalNode->at : nullptr, key,
         fmt::format("the schedule's {} steps end within its {} steps of "
                     "warm-up",
                     total.value, rate.warmupSteps));
}
