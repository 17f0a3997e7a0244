//===- MemoryTable.cpp - Who holds how much, when and where ---------------===//
#include "runtime/base/Quote.h"
#include "tools/ciuicc/plan/PlanText.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <iterator>
#include <map>

using namespace ciuic;
using namespace ciuic::tool;

using Out = std::back_insert_iterator<std::string>;

std::string tool::inMega(int64_t bytes) {
  return fmt::format("{:.3f} MB", static_cast<double>(bytes) / 1e6);
}

/// The number that all of `text` is.
static std::optional<uint32_t> numberOf(const std::string &text) {
  uint32_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

rt::Result<PlanPlace> tool::findPlace(const Plan &plan,
                                      const std::string &text) {
  std::string wanted = text, only;
  for (const PlanProgram &program : plan.programs)
    if (text.size() > program.name.size() && text.starts_with(program.name) &&
        text[program.name.size()] == ':') {
      only = program.name;
      wanted = text.substr(only.size() + 1);
    }
  auto number = numberOf(wanted);
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    const PlanProgram &program = plan.programs[p];
    if (!only.empty() && program.name != only)
      continue;
    if (number && *number < program.tasks.size())
      return PlanPlace{p, *number};
    for (uint32_t t = 0; t < program.tasks.size() && !number; ++t)
      if (program.tasks[t].name == wanted)
        return PlanPlace{p, t};
  }
  std::string names;
  for (const PlanProgram &program : plan.programs)
    names += fmt::format("{}{} ({} tasks)", names.empty() ? "" : ", ",
                         program.name, program.tasks.size());
  return rt::Status::invalid(
      fmt::format("no task {}; give PROGRAM:TASK, a task by its number or "
                  "name; the programs are {}",
                  rt::quote(text), names));
}

/// The size of an arena and how much of it no packing could do without.
static void printArena(Out out, const Plan &plan, PlanArena arena) {
  auto a = static_cast<size_t>(arena);
  int64_t size = plan.arenaBytes[a], live = plan.liveBound[a];
  fmt::format_to(out, "{} arena of each rank: {} bytes ({})", planArenaNames[a],
                 size, inMega(size));
  if (size > 0)
    fmt::format_to(
        out, ", {}{} live at once, {}{} lost to fragmentation ({:.2f} %)",
        plan.boundExact[a] ? "" : "at least ", live,
        plan.boundExact[a] ? "" : "at most ", size - live,
        100.0 * static_cast<double>(size - live) / static_cast<double>(size));
  fmt::format_to(out, "\n");
}

/// Files are shown where there are any.
static std::vector<PlanArena> arenasOf(const Plan &plan) {
  std::vector<PlanArena> arenas = {PlanArena::Device, PlanArena::Host};
  if (plan.arenaBytes[static_cast<size_t>(PlanArena::Nvme)] > 0)
    arenas.push_back(PlanArena::Nvme);
  return arenas;
}

/// What a process of a run holds besides.
static void printPhases(Out out, const Plan &plan) {
  if (plan.phases.empty())
    return;
  fmt::format_to(out, "host memory of {} beside the arenas, {} threads\n",
                 plan.processes == 1
                     ? "the process"
                     : fmt::format("each of {} processes", plan.processes),
                 plan.threads);
  for (const PlanPhase &phase : plan.phases) {
    fmt::format_to(out, "  {:<12} {:>14} bytes  at most:\n", phase.name,
                   phase.bytes);
    for (const PlanPart &part : phase.parts)
      fmt::format_to(out, "    {:>14} bytes  {}: {}\n", part.bytes, part.name,
                     part.source);
  }
}

std::string tool::memoryTable(const Plan &plan) {
  constexpr size_t shown = 20;
  std::string text;
  Out out(text);
  for (PlanArena arena : arenasOf(plan)) {
    printArena(out, plan, arena);
    std::map<std::string, int64_t> sums;
    for (const PlanBuffer &buffer : plan.buffers)
      if (buffer.arena == arena && !buffer.program)
        sums[buffer.holds] += buffer.bytes;
    for (const auto &[what, bytes] : sums)
      fmt::format_to(out, "  {:<12} {:>14} bytes  all the time\n", what, bytes);
    for (uint32_t p = 0; p < plan.programs.size(); ++p) {
      const PlanProgram &program = plan.programs[p];
      PlanPeak peak = findPlanPeak(plan, p, arena);
      int64_t bytes = peak.bytes - lastingBytes(plan, arena);
      if (bytes == 0)
        continue;
      fmt::format_to(out, "  {:<12} {:>14} bytes  live at task {}, {}:\n",
                     program.name, bytes, peak.task,
                     program.tasks[peak.task].name);
      auto live = liveAt(plan, p, peak.task, arena, /*lasting=*/false);
      for (size_t i = 0; i < std::min(shown, live.size()); ++i)
        fmt::format_to(out, "    {:>14} bytes  {}\n", live[i]->bytes,
                       live[i]->name);
      if (live.size() > shown)
        fmt::format_to(out, "    and {} more\n", live.size() - shown);
    }
  }
  printPhases(out, plan);
  return text;
}

std::string tool::memoryTableAt(const Plan &plan, PlanPlace place) {
  std::string text;
  Out out(text);
  const PlanProgram &program = plan.programs[place.program];
  const PlanTask &task = program.tasks[place.task];
  fmt::format_to(out, "{} task {}: {} \"{}\" on {}\n", program.name, place.task,
                 task.kind, task.name, task.stream);
  for (PlanArena arena : arenasOf(plan)) {
    auto live =
        liveAt(plan, place.program, place.task, arena, /*lasting=*/true);
    int64_t bytes = 0;
    for (const PlanBuffer *buffer : live)
      bytes += buffer->bytes;
    auto a = static_cast<size_t>(arena);
    fmt::format_to(out, "{}: {} bytes live, of {}\n", planArenaNames[a], bytes,
                   plan.arenaBytes[a]);
    if (live.empty())
      continue;
    fmt::format_to(out, "  {:>14} {:>14}  {:<15} {:<16} {}\n", "bytes",
                   "offset", "tasks", "holds", "name");
    for (const PlanBuffer *buffer : live)
      fmt::format_to(out, "  {:>14} {:>14}  {:<15} {:<16} {}\n", buffer->bytes,
                     buffer->offset,
                     buffer->program
                         ? fmt::format("{} to {}", buffer->first, buffer->last)
                         : "all the time",
                     buffer->holds, buffer->name);
  }
  return text;
}

/// A field of a table of commas: in quotes where it needs them.
static std::string csvField(const std::string &text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"')
      quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string tool::memoryCsv(const Plan &plan, std::optional<PlanPlace> place) {
  std::string text =
      "arena,program,name,holds,offset,bytes,first_task,last_task\n";
  Out out(text);
  auto print = [&](const PlanBuffer &buffer) {
    bool lives = buffer.program && buffer.isTouched;
    fmt::format_to(
        out, "{},{},{},{},{},{},{},{}\n",
        planArenaNames[static_cast<size_t>(buffer.arena)],
        buffer.program ? csvField(plan.programs[*buffer.program].name) : "",
        csvField(buffer.name), csvField(buffer.holds), buffer.offset,
        buffer.bytes, lives ? std::to_string(buffer.first) : "",
        lives ? std::to_string(buffer.last) : "");
  };
  if (!place) {
    for (const PlanBuffer &buffer : plan.buffers)
      print(buffer);
    return text;
  }
  for (PlanArena arena : arenasOf(plan))
    for (const PlanBuffer *buffer :
         liveAt(plan, place->program, place->task, arena, /*lasting=*/true))
      print(*buffer);
  return text;
}
