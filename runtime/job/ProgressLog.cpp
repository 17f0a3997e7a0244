//===- ProgressLog.cpp - What a run says about itself ---------------------===//
#include "runtime/job/ProgressLog.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

/// A JSON number, or null for what JSON cannot say.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

std::string printMemory(const MemoryRecord &r) {
  std::string used = r.deviceUsed == 0
                         ? ""
                         : fmt::format(",\"device_planned\":{},"
                                       "\"device_used\":{}",
                                       r.deviceArena, r.deviceUsed);
  return fmt::format("\"ranks\":{},\"device_arena_bytes\":{},"
                     "\"host_arena_bytes\":{},\"scratch_bytes\":{},"
                     "\"tensor_bytes\":{},\"tensor_peak_bytes\":{},"
                     "\"tensor_allocations\":{}{}",
                     r.ranks, r.deviceArena, r.hostArena, r.scratch,
                     r.tensors.bytes, r.tensors.peakBytes,
                     r.tensors.allocations, used);
}

} // namespace

std::string printDuration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9)
    return "?";
  auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60)
    return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string printNorm(double norm) {
  return std::isfinite(norm) ? fmt::format("{:.3g}", norm) : "-";
}

std::string printRecord(const StepRecord &r) {
  return fmt::format(
      "{{\"step\":{},\"epoch\":{},\"loss\":{},\"lr\":{},\"loss_scale\":{},"
      "\"grad_norm\":{},\"skipped\":{},\"tokens_per_s\":{},\"step_ms\":{},"
      "\"peak_share\":{},\"seconds_left\":{}}}",
      r.step, number(r.epoch), number(r.loss), number(r.lr),
      number(r.lossScale), number(r.gradNorm), r.skipped ? "true" : "false",
      number(r.tokensPerSecond), number(r.stepMs), number(r.peakShare),
      number(r.secondsLeft));
}

Result<std::unique_ptr<ProgressLog>>
ProgressLog::open(const std::string &path, bool append, bool quiet) {
  std::unique_ptr<ProgressLog> log(new ProgressLog());
  log->path = path;
  log->quiet = quiet;
  log->terminal = isatty(STDOUT_FILENO) == 1;
  if (!path.empty()) {
    log->file = std::fopen(path.c_str(), append ? "ae" : "we");
    if (!log->file)
      return Status::machine(path + ": cannot write: " + std::strerror(errno));
  }
  return log;
}

ProgressLog::~ProgressLog() {
  if (pending)
    std::fputs("\n", stdout);
  if (file)
    std::fclose(file);
}

Status ProgressLog::write(const std::string &line) {
  if (!file)
    return {};
  if (std::fputs((line + "\n").c_str(), file) < 0 || std::fflush(file) != 0)
    return Status::machine(path + ": cannot write: " + std::strerror(errno));
  return {};
}

void ProgressLog::clear() {
  if (pending)
    std::fputs("\r\033[K", stdout);
  pending = false;
}

Status ProgressLog::step(const StepRecord &r, bool keep) {
  CIUIC_TRY(write(printRecord(r)));
  if (quiet || (!keep && !terminal))
    return {};
  std::string line = fmt::format(
      "step {}/{}  epoch {:.2f}  loss {:.4f}  lr {:.3g}  norm {}", r.step,
      r.steps, r.epoch, r.loss, r.lr, printNorm(r.gradNorm));
  if (r.lossScale != 1)
    line += fmt::format("  scale {:g}", r.lossScale);
  if (r.skipped)
    line += "  skipped";
  line += fmt::format("  {:.0f} tokens/s", r.tokensPerSecond);
  if (r.peakShare > 0)
    line += fmt::format("  {:.0f} % of peak", 100 * r.peakShare);
  line += "  " + printDuration(r.secondsLeft) + " left";
  clear();
  std::fputs(line.c_str(), stdout);
  if (keep)
    std::fputs("\n", stdout);
  pending = !keep;
  std::fflush(stdout);
  return {};
}

Status ProgressLog::validation(uint64_t step, double loss, double tokens) {
  note(fmt::format("validation after step {}: loss {:.4f} over {:.0f} tokens",
                   step, loss, tokens));
  return write(fmt::format(
      "{{\"step\":{},\"validation_loss\":{},\"validation_tokens\":{}}}", step,
      number(loss), number(tokens)));
}

Status ProgressLog::memory(const MemoryRecord &record) {
  return write("{" + printMemory(record) + "}");
}

Status ProgressLog::totals(const MemoryRecord &record, const Machine &machine,
                           const PhasePeaks &peaks) {
  static constexpr std::pair<const char *, abi::TaskKind> kinds[] = {
      {"all_gather", abi::TaskKind::AllGather},
      {"reduce_scatter", abi::TaskKind::ReduceScatter},
      {"all_reduce", abi::TaskKind::AllReduce},
      {"copy", abi::TaskKind::Copy},
      {"adam", abi::TaskKind::Adam},
      {"sgd", abi::TaskKind::Sgd}};
  std::string counts;
  for (const auto &[name, kind] : kinds)
    counts += fmt::format("{}\"{}\":{}", counts.empty() ? "" : ",", name,
                          machine.executed(kind));
  std::string phases;
  for (size_t i = 0; i < peaks.size(); ++i)
    // Of a part that there was not there is nothing.
    if (peaks[i].staged || peaks[i].resident)
      phases +=
          fmt::format("{}\"{}\":{{\"staged_bytes\":{},\"resident_bytes\":{}}}",
                      phases.empty() ? "" : ",", name(static_cast<RunPhase>(i)),
                      peaks[i].staged, peaks[i].resident);
  return write("{" + printMemory(record) + ",\"executed\":{" + counts +
               "},\"phases\":{" + phases + "}}");
}

void ProgressLog::breakdown(const TimeTable &seconds, uint64_t steps) {
  if (quiet || steps == 0)
    return;
  clear();
  double total = 0;
  for (double value : seconds)
    total += value;
  std::string head = "time (ms)", row = "         ", share = "share (%)";
  for (size_t i = 0; i < seconds.size(); ++i) {
    head += fmt::format("{:>10}", name(static_cast<TimeKind>(i)));
    row +=
        fmt::format("{:>10.2f}", 1e3 * seconds[i] / static_cast<double>(steps));
    share +=
        fmt::format("{:>10.1f}", total > 0 ? 100 * seconds[i] / total : 0.0);
  }
  std::fputs((head + "\n" + row + "\n" + share + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void ProgressLog::note(const std::string &text) {
  if (quiet)
    return;
  clear();
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

} // namespace ciuic::rt
