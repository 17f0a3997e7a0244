//===- InspectCommand.cpp - ciuicc inspect --------------------------------===//
#include "passes/Pipelines/Phases.h"
#include "tools/ciuicc/Commands.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace llvm;
using namespace ciuic;
using namespace ciuic::tool;

static int fail(const Twine &message) {
  errs() << "ciuicc: error: " << message << "\n";
  return 1;
}

/// The text of a file of the bundle; says what is wrong if there is none.
static std::unique_ptr<MemoryBuffer> readFile(const std::string &path) {
  auto file = MemoryBuffer::getFile(path);
  if (file)
    return std::move(*file);
  fail("cannot read " + path + ": " + file.getError().message());
  return nullptr;
}

static int print(const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return 1;
  outs() << file->getBuffer();
  return 0;
}

static std::optional<json::Value> parse(const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return std::nullopt;
  auto value = json::parse(file->getBuffer());
  if (value && value->getAsObject())
    return std::move(*value);
  fail(path + " is no JSON object: " +
       (value ? "it is another value" : toString(value.takeError())));
  return std::nullopt;
}

static std::string mega(int64_t bytes) {
  return formatv("{0:f3}", bytes / 1e6).str();
}

/// What states hold, then who holds the peak of each program.
static int inspectMemory(const std::string &bundle) {
  auto plan = parse(bundle + "/plan/memory.json");
  if (!plan)
    return 1;
  const json::Object &root = *plan->getAsObject();
  const json::Array *buffers = root.getArray("buffers");
  const json::Object *peaks = root.getObject("peaks");
  if (!buffers || !peaks)
    return fail(bundle + "/plan/memory.json has no buffers or peaks");

  for (StringRef arena : {"device", "host"}) {
    int64_t total =
        root.getInteger(arena == "device" ? "device_arena_bytes"
                                          : "host_arena_bytes_a_rank")
            .value_or(0);
    outs() << arena << " arena of each rank: " << total << " bytes ("
           << mega(total) << " MB)\n";
    std::map<std::string, int64_t> sums;
    for (const json::Value &value : *buffers) {
      const json::Object *row = value.getAsObject();
      if (!row || row->getString("arena") != arena || row->getString("program"))
        continue;
      int64_t bytes = row->getInteger("bytes").value_or(0);
      sums[row->getString("holds").value_or("?").str()] += bytes;
    }
    for (auto &[what, bytes] : sums)
      outs() << formatv("  {0,-12} {1,14} bytes  all the time\n", what, bytes);
    for (const auto &[program, entry] : *peaks) {
      const json::Object *byArena = entry.getAsObject();
      const json::Object *peak = byArena ? byArena->getObject(arena) : nullptr;
      if (!peak || peak->getInteger("bytes").value_or(0) == 0)
        continue;
      outs() << formatv("  {0,-12} {1,14} bytes  live at task {2}, {3}:\n",
                        StringRef(program),
                        peak->getInteger("bytes").value_or(0),
                        peak->getInteger("task").value_or(0),
                        peak->getString("name").value_or(""));
      const json::Array *holders = peak->getArray("holders");
      for (const json::Value &value : holders ? *holders : json::Array())
        if (const json::Object *holder = value.getAsObject())
          outs() << formatv("    {0,14} bytes  {1}\n",
                            holder->getInteger("bytes").value_or(0),
                            holder->getString("name").value_or("?"));
    }
  }
  return 0;
}

/// A line a task; with `onlyComm` those that cross ranks or memories.
static int inspectSchedule(const std::string &bundle, bool onlyComm) {
  auto plan = parse(bundle + "/plan/schedule.json");
  if (!plan)
    return 1;
  for (const auto &[program, value] : *plan->getAsObject()) {
    const json::Array *tasks = value.getAsArray();
    if (!tasks)
      return fail(bundle + "/plan/schedule.json: " + StringRef(program) +
                  " is no list");
    outs() << StringRef(program) << ": " << tasks->size() << " tasks\n";
    for (const json::Value &entry : *tasks) {
      const json::Object *task = entry.getAsObject();
      if (!task)
        continue;
      StringRef stream = task->getString("stream").value_or("");
      if (onlyComm && (stream == "compute" || stream == "host"))
        continue;
      std::string waits;
      if (const json::Array *list = task->getArray("waits"))
        for (const json::Value &wait : *list)
          waits += (waits.empty() ? "  after " : ", ") +
                   std::to_string(wait.getAsInteger().value_or(-1));
      outs() << formatv("  {0,5} {1,-8} {2,-18} {3,12} bytes  {4}{5}\n",
                        task->getInteger("task").value_or(-1), stream,
                        task->getString("kind").value_or("?"),
                        task->getInteger("bytes").value_or(0),
                        task->getString("name").value_or(""), waits);
    }
  }
  return 0;
}

/// The buffers and tasks that carry a parameter's name or its bucket's.
static int inspectParameter(const std::string &bundle,
                            const std::string &name) {
  auto file = readFile(bundle + "/ir/" + dumpName(*findPhase("allocate")));
  if (!file)
    return 1;
  SmallVector<StringRef> lines;
  file->getBuffer().split(lines, '\n');
  std::string bucket;
  bool found = false;
  std::string declared = "@" + name + " ";
  for (StringRef line : lines)
    if (line.contains("train.state") && line.contains(declared)) {
      outs() << line.trim() << "\n";
      found = true;
      auto [head, tail] = line.split(" in @");
      bucket = tail.split(' ').first.str();
    }
  if (!found)
    return fail("the bundle has no parameter \"" + Twine(name) + "\"");
  // Tasks are named for the module, without the model's name in front.
  StringRef stem = StringRef(name);
  stem.consume_front("model.");
  stem.consume_back(".weight");
  stem.consume_back(".bias");
  for (StringRef line : lines) {
    bool isState =
        line.contains("train.state") && line.contains(" of @" + bucket + " ");
    // Another bucket's name may begin with this one's: up to the last dot.
    StringRef buffer = line.split("sched.buffer @buf.").second.split(' ').first;
    bool isBuffer = buffer.rsplit('.').first == bucket && buffer != bucket;
    bool isTask = line.contains("sched.task") &&
                  (line.contains("\"" + stem.str() + "\"") ||
                   line.contains("\"" + stem.str() + ".") ||
                   ((line.contains("task adam") || line.contains("task sgd")) &&
                    line.contains("\"" + bucket + "\"")));
    if (isState || isBuffer || isTask)
      outs() << "  " << line.trim() << "\n";
  }
  return 0;
}

int tool::runInspect(const std::string &bundle, const std::string &what,
                     const std::string &name) {
  if (!sys::fs::exists(bundle + "/manifest.json"))
    return fail(bundle + " is no bundle: it has no manifest.json");
  if (what.empty())
    return print(bundle + "/manifest.json");
  if (what == "config")
    return print(bundle + "/plan/config.txt");
  if (what == "memory")
    return inspectMemory(bundle);
  if (what == "schedule" || what == "comm")
    return inspectSchedule(bundle, what == "comm");
  if (what == "kernels")
    return print(bundle + "/src/kernels.cpp");
  if ((what == "phase" || what == "param") && name.empty()) {
    errs() << "ciuicc: error: inspect BUNDLE " << what << " takes a name"
           << (what == "phase" ? ": " + listPhases() : std::string()) << "\n";
    return 2;
  }
  if (what == "phase") {
    auto phase = findPhase(name);
    if (!phase)
      return fail("no phase \"" + Twine(name) + "\"; the phases are " +
                  listPhases());
    return print(bundle + "/ir/" + dumpName(*phase));
  }
  if (what == "param")
    return inspectParameter(bundle, name);
  errs() << "ciuicc: error: cannot inspect \"" << what
         << "\"; expected config, memory, schedule, comm, kernels, phase NAME "
            "or param NAME\n";
  return 2;
}
