//===- Precision.cpp - fp16, bf16 and the loss scale ----------------------===//

#include "frontend/config/Resolver.h"

#include <cmath>

using namespace ciuic;
using namespace ciuic::config;

const char *config::name(Precision precision) {
  switch (precision) {
  case Precision::Fp32:
    return "fp32";
  case Precision::Bf16:
    return "bf16";
  case Precision::Fp16:
    return "fp16";
  }
  return "";
}

void Resolver::resolvePrecision() {
  PrecisionSettings &precision = out.job.precision;
  Section fp16 = open(top, "fp16");
  Section bf16 = open(top, "bf16");
  if (const Node *old = top.node->find("bfloat16"); old && !old->isNull()) {
    if (!old->isObject()) {
      error(*old, "bfloat16",
            fmt::format("found {}, expected an object", describe(*old)));
    } else if (bf16.node) {
      warn(&old->at, "bfloat16", "bf16 is given too and wins");
    } else {
      // The old name has the keys of the new one.
      bf16 = {"bf16", old, true};
      checkKeys(bf16);
      note("bfloat16", "read as bf16, its name today");
    }
  }

  auto enabled = [&](const Section &section, Precision which) {
    Rule<bool> rule;
    rule.expected = "true or false";
    rule.automatic = false;
    if (over.precision) {
      rule.given = *over.precision == which;
      rule.option = fmt::format("--precision {}, so", name(*over.precision));
    }
    Settled<bool> settled = settle(section, {"enabled"}, rule);
    if (settled.source == Source::CommandLine)
      settled.origin = fmt::format("--precision {}", name(*over.precision));
    return settled;
  };
  Settled<bool> fp16Enabled = enabled(fp16, Precision::Fp16);
  Settled<bool> bf16Enabled = enabled(bf16, Precision::Bf16);
  addRow("fp16.enabled", fp16Enabled);
  addRow("bf16.enabled", bf16Enabled);
  if (fp16Enabled.value && bf16Enabled.value)
    error(fp16.node ? &fp16.node->at : nullptr, "fp16.enabled",
          "fp16 and bf16 are both enabled, expected at most one");
  precision.compute = fp16Enabled.value   ? Precision::Fp16
                      : bf16Enabled.value ? Precision::Bf16
                                          : Precision::Fp32;

  // Settings of a precision that is off are still checked, but not listed.
  auto list = [&](const std::string &path, const auto &settled, bool on) {
    if (on || settled.fromFile())
      addRow(path, settled);
  };

  Rule<double> scaleRule;
  scaleRule.valid = [](double value) { return value >= 0; };
  scaleRule.expected = "a finite number, 0 (dynamic) or above";
  auto scale = settle(fp16, {"loss_scale"}, scaleRule);
  const bool dynamic = fp16Enabled.value && scale.value == 0;

  // Window and floor matter, and are limited, only while the scale moves.
  Rule<int64_t> windowRule;
  windowRule.fallback = 1000;
  windowRule.expected = "a whole number";
  Rule<double> floorRule;
  floorRule.fallback = 1;
  floorRule.expected = "a finite number";
  Rule<int64_t> hysteresisRule;
  hysteresisRule.fallback = 2;
  hysteresisRule.expected = "a whole number";
  if (dynamic) {
    windowRule.valid = [](int64_t value) { return value > 0; };
    windowRule.expected = "a whole number above 0";
    floorRule.valid = [](double value) { return value > 0; };
    floorRule.expected = "a finite number above 0";
    // With less than 1 the scale would never fall and every step be skipped.
    hysteresisRule.valid = [](int64_t value) { return value >= 1; };
    hysteresisRule.expected = "a whole number, 1 or more";
  }
  Rule<int64_t> powerRule;
  powerRule.fallback = 16;
  powerRule.valid = [](int64_t value) { return value >= 0 && value <= 127; };
  powerRule.expected = "a whole number from 0 to 127";

  auto power = settle(fp16, {"initial_scale_power"}, powerRule);
  auto window = settle(fp16, {"loss_scale_window"}, windowRule);
  auto hysteresis = settle(fp16, {"hysteresis"}, hysteresisRule);
  auto consecutive =
      settle(fp16, {"consecutive_hysteresis"}, Rule<bool>{false});
  auto floor = settle(fp16, {"min_loss_scale"}, floorRule);
  auto fp16Master =
      settle(fp16, {"fp16_master_weights_and_grads"}, Rule<bool>{false});
  list("fp16.loss_scale", scale, fp16Enabled.value);
  list("fp16.initial_scale_power", power, dynamic);
  list("fp16.loss_scale_window", window, dynamic);
  list("fp16.hysteresis", hysteresis, dynamic);
  list("fp16.consecutive_hysteresis", consecutive, dynamic);
  list("fp16.min_loss_scale", floor, dynamic);
  list("fp16.fp16_master_weights_and_grads", fp16Master, false);

  Rule<bool> checkRule;
  checkRule.fallback = true;
  auto check = settle(bf16, {"check_grad_overflow"}, checkRule);
  auto bf16Master =
      settle(bf16, {"bf16_master_weights_and_grads"}, Rule<bool>{false});
  auto bf16States = settle(bf16, {"bf16_optimizer_states"}, Rule<bool>{false});
  list("bf16.check_grad_overflow", check, bf16Enabled.value);
  list("bf16.bf16_master_weights_and_grads", bf16Master, false);
  list("bf16.bf16_optimizer_states", bf16States, false);

  precision.checkOverflow =
      fp16Enabled.value || (bf16Enabled.value && check.value);
  precision.lossScale.dynamic = dynamic;
  if (fp16Enabled.value)
    precision.lossScale.initialScale =
        dynamic ? std::ldexp(1.0, static_cast<int>(power.value)) : scale.value;
  precision.lossScale.window = window.value;
  precision.lossScale.hysteresis = hysteresis.value;
  precision.lossScale.consecutiveHysteresis = consecutive.value;
  precision.lossScale.minScale = floor.value;
  checkMasters(fp16, fp16Master.value, bf16, bf16Master.value,
               bf16States.value);
}

/// 16-bit master weights: DeepSpeed's conditions, and that we keep fp32.
void Resolver::checkMasters(const Section &fp16, bool fp16Master,
                            const Section &bf16, bool bf16Master,
                            bool bf16States) {
  // Stage 0 is checked once ZeRO is resolved; here is what does not need it.
  auto idle = [&](const Section &section, const char *key) {
    const Node *node = section.node->find(key);
    warnIdle(node ? &node->at : nullptr, section.pathOf(key),
             "known to DeepSpeed, not acted on here (master weights and "
             "moments stay fp32)");
  };
  if (fp16Master)
    idle(fp16, "fp16_master_weights_and_grads");
  if (bf16Master)
    idle(bf16, "bf16_master_weights_and_grads");
  if (bf16States && !bf16Master)
    error(*bf16.node->find("bf16_optimizer_states"),
          "bf16.bf16_optimizer_states",
          "found true, expected bf16_master_weights_and_grads to be true too");
  else if (bf16States)
    idle(bf16, "bf16_optimizer_states");
  if (fp16Master || bf16Master) {
    const Section &section = fp16Master ? fp16 : bf16;
    const char *key = fp16Master ? "fp16_master_weights_and_grads"
                                 : "bf16_master_weights_and_grads";
    mastersKey = section.pathOf(key);
    masters = section.node->find(key);
  }
}
