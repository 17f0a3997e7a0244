//===- ReportPage.cpp - A plan as one HTML page ---------------------------===//
#include "tools/ciuicc/plan/ReportPage.h"

#include "frontend/model/JsonFields.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "tools/ciuicc/plan/ReportSources.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

using namespace ciuic;
using namespace ciuic::tool;
using rt::Json;

rt::Result<ReportFacts> tool::readFacts(const std::string &bundle) {
  constexpr uint64_t mostFileBytes = 1 << 20;
  constexpr int64_t most = int64_t(1) << 60;
  std::string path = bundle + "/manifest.json";
  auto text = rt::readTextFile(path, mostFileBytes);
  if (!text.ok())
    return text.takeStatus();
  auto json = rt::parseJson(*text, path);
  if (!json.ok())
    return json.takeStatus();
  if (!json->is_object())
    return rt::Status::invalid(fmt::format("{}: found {}, expected an object",
                                           path, model::brief(*json)));
  model::JsonErrors errors{path, {}};
  model::JsonFields fields(*json, "", errors);
  ReportFacts facts;
  facts.model = fields.string("model", "model");
  facts.precision = fields.string("precision", "");
  facts.parameters = fields.integer("parameters", 0, most, 0);
  facts.stage = fields.integer("zero_stage", 0, 3, 0);
  facts.microBatch = fields.integer("micro_batch", 0, most, 0);
  facts.sequence = fields.integer("sequence", 0, most, 0);
  facts.accumulation = fields.integer("accumulation", 1, most, 1);
  facts.deviceMemory = fields.integer("device_memory", 0, most, 0);
  facts.hostMemory = fields.integer("host_memory", 0, most, 0);
  facts.nvmeSpace = fields.integer("nvme_space", 0, most, 0);
  if (!errors.status.ok())
    return std::move(errors.status);
  return facts;
}

namespace {

/// Gives each different text a number, in the order in which they come.
class Numbers {
public:
  size_t of(const std::string &text) {
    auto [it, isNew] = numbers.try_emplace(text, texts.size());
    if (isNew)
      texts.push_back(text);
    return it->second;
  }
  const std::vector<std::string> &all() const { return texts; }

private:
  std::unordered_map<std::string, size_t> numbers;
  std::vector<std::string> texts;
};

} // namespace

/// "1.35 B"
static std::string inWords(int64_t count) {
  auto value = static_cast<double>(count);
  if (count >= 1000000000)
    return fmt::format("{:.2f} B", value / 1e9);
  if (count >= 1000000)
    return fmt::format("{:.1f} M", value / 1e6);
  return fmt::format("{}", count);
}

static std::string factsLine(const Plan &plan, const ReportFacts &facts) {
  return fmt::format(
      "{} parameters · ZeRO-{} · {} · {} device{} · {} × {} tokens a "
      "micro-step · {} micro-step{}",
      inWords(facts.parameters), facts.stage, facts.precision, plan.ranks,
      plan.ranks == 1 ? "" : "s", facts.microBatch, facts.sequence,
      facts.accumulation, facts.accumulation == 1 ? "" : "s");
}

/// Whether a step runs the program; evaluation comes between steps.
static bool runsInStep(const PlanProgram &program, const ReportFacts &facts) {
  if (program.name == "micro_next")
    return facts.accumulation > 1;
  return !program.name.starts_with("eval");
}

namespace {
/// When a buffer of a program is live, in microseconds of it.
struct Span {
  double from = 0, to = -1; ///< Never, if it ends before it starts.
};
} // namespace

/// From the first start of a task that touches a buffer to the last end: not
/// those of its first and last task, for streams run beside one another.
static std::vector<Span> findSpans(const Plan &plan) {
  std::vector<Span> spans(plan.buffers.size());
  for (const PlanProgram &program : plan.programs)
    for (const PlanTask &task : program.tasks)
      for (const PlanView &view : task.views) {
        Span &span = spans[view.buffer];
        bool isFirst = span.to < span.from;
        span.from = isFirst ? task.start : std::min(span.from, task.start);
        span.to = isFirst ? task.end : std::max(span.to, task.end);
      }
  return spans;
}

/// Microseconds of a step: its programs one after the other, each micro-step
/// after the first as long as the next.
static double stepTime(const Plan &plan, const ReportFacts &facts) {
  double total = 0;
  for (const PlanProgram &program : plan.programs) {
    if (!runsInStep(program, facts))
      continue;
    double end = 0;
    for (const PlanTask &task : program.tasks)
      end = std::max(end, task.end);
    total += program.name == "micro_next"
                 ? end * static_cast<double>(facts.accumulation - 1)
                 : end;
  }
  return total;
}

/// Streams as the schedule shows them, from the top.
static Numbers numberStreams(const Plan &plan) {
  Numbers used, numbers;
  for (const PlanProgram &program : plan.programs)
    for (const PlanTask &task : program.tasks)
      used.of(task.stream);
  for (const char *known :
       {"compute", "gather", "reduce", "h2d", "d2h", "host", "disk"})
    for (const std::string &stream : used.all())
      if (stream == known)
        numbers.of(stream);
  for (const std::string &stream : used.all())
    numbers.of(stream);
  return numbers;
}

static Json planData(const Plan &plan, const ReportFacts &facts) {
  Json data;
  data["model"] = facts.model;
  data["facts"] = factsLine(plan, facts);
  data["ranks"] = plan.ranks;
  data["step_us"] = stepTime(plan, facts);
  data["micro_steps"] = facts.accumulation;
  int64_t limits[] = {facts.deviceMemory, facts.hostMemory / plan.ranks,
                      facts.nvmeSpace / plan.ranks};
  bool hasFiles = plan.arenaBytes[static_cast<size_t>(PlanArena::Nvme)] > 0;
  for (size_t arena = 0; arena < planArenas - (hasFiles ? 0 : 1); ++arena)
    data["arenas"].push_back({{"name", planArenaNames[arena]},
                              {"bytes", plan.arenaBytes[arena]},
                              {"live_bound", plan.liveBound[arena]},
                              {"live_bound_exact", plan.boundExact[arena]},
                              {"limit", limits[arena]}});
  Numbers streams = numberStreams(plan), kinds;
  data["programs"] = Json::array();
  for (const PlanProgram &program : plan.programs) {
    Json tasks = Json::array();
    for (const PlanTask &task : program.tasks)
      tasks.push_back({task.name, kinds.of(task.kind), streams.of(task.stream),
                       task.waits, task.start, task.end});
    data["programs"].push_back({{"name", program.name},
                                {"step", runsInStep(program, facts)},
                                {"tasks", std::move(tasks)}});
  }
  data["streams"] = streams.all();
  data["kinds"] = kinds.all();
  data["buffers"] = Json::array();
  std::vector<Span> spans = findSpans(plan);
  for (const PlanBuffer &buffer : plan.buffers) {
    const Span &span = spans[&buffer - plan.buffers.data()];
    auto task = [&](uint32_t number) {
      return buffer.isTouched ? static_cast<int64_t>(number) : -1;
    };
    data["buffers"].push_back(
        {buffer.name, buffer.holds, static_cast<int>(buffer.arena),
         buffer.offset, buffer.bytes,
         buffer.program ? static_cast<int64_t>(*buffer.program) : -1,
         task(buffer.first), task(buffer.last), span.from, span.to});
  }
  return data;
}

/// JSON inside a script element: nothing in it may end the element or open a
/// comment, so '<', '>' and '&' are written as escapes, which mean the same.
static std::string insideScript(const std::string &json) {
  std::string text;
  text.reserve(json.size());
  for (char c : json) {
    if (c == '<' || c == '>' || c == '&')
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      text += c;
  }
  return text;
}

rt::Result<std::string> tool::reportPage(const Plan &plan,
                                         const ReportFacts &facts) {
  std::string data;
  try {
    data = planData(plan, facts).dump();
  } catch (const nlohmann::json::exception &) {
    return rt::Status::invalid("a name in the plan is not UTF-8");
  }
  const ReportSources &sources = reportSources;
  std::string script =
      fmt::format("\"use strict\";\n(() => {{\n{}{}{}}})();\n", sources.data,
                  sources.pictures, sources.page);
  std::string page;
  std::string_view rest = sources.html;
  // Each mark once, in this order; what is put in is not searched again.
  for (const auto &[mark, part] :
       {std::pair<std::string_view, std::string>{"@STYLE@", sources.style},
        {"@PLAN@", insideScript(data)},
        {"@SCRIPT@", script}}) {
    size_t at = rest.find(mark);
    page += rest.substr(0, at);
    page += part;
    rest.remove_prefix(at + mark.size());
  }
  page += rest;
  return page;
}
