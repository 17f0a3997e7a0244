//===- Plan.cpp - The plan of a bundle, read back -------------------------===//
#include "tools/ciuicc/plan/Plan.h"

#include "frontend/model/JsonFields.h"
#include "runtime/base/File.h"
#include "runtime/base/Quote.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

using namespace ciuic;
using namespace ciuic::tool;
using model::JsonErrors;
using model::JsonFields;

namespace {

constexpr int64_t mostBytes = int64_t(1) << 60;
constexpr uint64_t mostFileBytes = uint64_t(1) << 30;
constexpr size_t mostRows = 4000000;
constexpr double mostMicroseconds = 1e15;

/// Reads both files; the first thing that is wrong is kept in `errors`.
class PlanReader {
public:
  explicit PlanReader(const std::string &bundle) : bundle(bundle) {}

  rt::Result<Plan> read();

private:
  rt::Result<rt::Json> parse(const char *name);
  bool isGood() const { return errors.status.ok(); }
  void fail(const std::string &where, const std::string &what) {
    if (isGood())
      errors.status = rt::Status::invalid(
          fmt::format("{}: {}: {}", errors.file, where, what));
  }

  /// Calls `row` with each object of the list `key` of `root`, and its path.
  template <typename Fn>
  void forEachRow(const rt::Json &root, const std::string &prefix,
                  const char *key, Fn row);
  std::string text(const JsonFields &fields, const char *key);
  std::optional<uint32_t> findBuffer(const std::string &name) const;

  void readPrograms(const rt::Json &root);
  void readTask(const rt::Json &value, const std::string &path,
                PlanProgram &program);
  void readViews(const rt::Json &root);
  void readBuffer(const rt::Json &value, const std::string &path);
  void readLife(const JsonFields &fields, const std::string &path,
                const rt::Json &value, PlanBuffer &buffer);
  void readArenas(const rt::Json &root);
  void readLayout(const rt::Json &root);
  void readPhases(const rt::Json &root);

  std::string bundle;
  int64_t totalBytes = 0;
  JsonErrors errors;
  Plan plan;
  std::unordered_map<std::string, uint32_t> bufferNumbers, programNumbers;
  std::unordered_map<std::string, int64_t> bucketElements;
};

template <typename Fn>
void PlanReader::forEachRow(const rt::Json &root, const std::string &prefix,
                            const char *key, Fn row) {
  auto found = root.find(key);
  if (found == root.end() || !found->is_array())
    return fail(prefix + key, found == root.end()
                                  ? "missing, expected a list"
                                  : fmt::format("found {}, expected a list",
                                                model::brief(*found)));
  if (found->size() > mostRows)
    return fail(prefix + key, fmt::format("found {} rows, expected at most {}",
                                          found->size(), mostRows));
  for (size_t i = 0; i < found->size() && isGood(); ++i) {
    const rt::Json &value = (*found)[i];
    std::string path = fmt::format("{}{}[{}]", prefix, key, i);
    if (!value.is_object())
      return fail(path, fmt::format("found {}, expected an object",
                                    model::brief(value)));
    row(value, path);
  }
}

/// Whether `text` can be shown on a terminal: a control character (also those
/// of U+0080 to U+009F, C2 80 to C2 9F) could move it or write over it.
bool isPrintable(const std::string &text) {
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    auto next =
        static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7f ||
        (byte == 0xc2 && next >= 0x80 && next <= 0x9f))
      return false;
  }
  return true;
}

/// A name: there, and as names are.
std::string PlanReader::text(const JsonFields &fields, const char *key) {
  constexpr size_t longest = 4096;
  std::string value = fields.string(key, "");
  if (!isGood())
    return value;
  if (!fields.has(key))
    fields.fail(key, "a string");
  else if (value.size() > longest)
    fields.failWith(key, fmt::format("found {} bytes, expected at most {}",
                                     value.size(), longest));
  else if (!isPrintable(value))
    fields.failWith(key, "a control character is in the name");
  return value;
}

std::optional<uint32_t> PlanReader::findBuffer(const std::string &name) const {
  auto it = bufferNumbers.find(name);
  return it == bufferNumbers.end() ? std::nullopt : std::optional(it->second);
}

rt::Result<rt::Json> PlanReader::parse(const char *name) {
  errors.file = bundle + "/plan/" + name;
  auto file = rt::readTextFile(errors.file, mostFileBytes);
  if (!file.ok())
    return file.takeStatus();
  auto json = rt::parseJson(*file, errors.file);
  if (json.ok() && !json->is_object())
    return rt::Status::invalid(fmt::format("{}: found {}, expected an object",
                                           errors.file, model::brief(*json)));
  return json;
}

/// A step runs these, in this order; what else there is comes after.
int stepOrder(const std::string &name) {
  constexpr const char *order[] = {"micro_first", "micro_next", "apply"};
  return std::find(std::begin(order), std::end(order), name) -
         std::begin(order);
}

void PlanReader::readPrograms(const rt::Json &root) {
  constexpr size_t longest = 256;
  for (const auto &[name, value] : root.items()) {
    if (name.size() > longest || !isPrintable(name))
      return fail(rt::quote(name), "no name of a program");
    plan.programs.push_back({name, {}});
  }
  std::stable_sort(plan.programs.begin(), plan.programs.end(),
                   [](const PlanProgram &a, const PlanProgram &b) {
                     return stepOrder(a.name) < stepOrder(b.name);
                   });
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    PlanProgram &program = plan.programs[i];
    programNumbers[program.name] = i;
    forEachRow(root, "", program.name.c_str(),
               [&](const rt::Json &value, const std::string &path) {
                 readTask(value, path, program);
               });
  }
}

void PlanReader::readTask(const rt::Json &value, const std::string &path,
                          PlanProgram &program) {
  JsonFields fields(value, path + ".", errors);
  auto number = static_cast<int64_t>(program.tasks.size());
  PlanTask task;
  task.name = text(fields, "name");
  task.kind = text(fields, "kind");
  task.stream = text(fields, "stream");
  task.bytes = fields.integer("bytes", 0, INT64_MAX, 0);
  task.start = fields.number("start_us", 0, mostMicroseconds);
  if (isGood())
    task.end = fields.number("end_us", task.start, mostMicroseconds);
  if (auto waits = value.find("waits"); waits != value.end()) {
    if (!waits->is_array())
      return fields.fail("waits", "a list of earlier tasks");
    for (const rt::Json &wait : *waits) {
      if (!wait.is_number_integer() || wait < 0 || wait >= number)
        return fields.fail("waits",
                           fmt::format("a list of tasks before {}", number));
      task.waits.push_back(wait.get<uint32_t>());
    }
  }
  program.tasks.push_back(std::move(task));
}

/// Views name buffers, which are known only once the memory plan is read.
void PlanReader::readViews(const rt::Json &root) {
  for (PlanProgram &program : plan.programs)
    for (size_t i = 0; i < program.tasks.size() && isGood(); ++i)
      forEachRow(
          root[program.name][i], fmt::format("{}[{}].", program.name, i),
          "views", [&](const rt::Json &value, const std::string &path) {
            JsonFields fields(value, path + ".", errors);
            PlanView view;
            view.access = text(fields, "access");
            view.offset = fields.integer("offset", 0, mostBytes);
            view.bytes = fields.integer("bytes", 0, mostBytes);
            view.elementBytes = fields.integer("element_bytes", 1, 16);
            view.rankStride = fields.integer("rank_stride", 0, mostBytes, 0);
            auto buffer = findBuffer(text(fields, "buffer"));
            if (!buffer)
              return fields.fail("buffer", "a buffer of plan/memory.json");
            view.buffer = *buffer;
            program.tasks[i].views.push_back(std::move(view));
          });
}

/// When a buffer of a program is live.
void PlanReader::readLife(const JsonFields &fields, const std::string &path,
                          const rt::Json &value, PlanBuffer &buffer) {
  auto program = programNumbers.find(text(fields, "program"));
  if (!isGood())
    return;
  if (program == programNumbers.end())
    return fields.fail("program", "a program of plan/schedule.json");
  buffer.program = program->second;
  auto tasks =
      static_cast<int64_t>(plan.programs[program->second].tasks.size());
  buffer.isTouched = value.contains("first_task");
  if (!buffer.isTouched)
    return;
  if (tasks == 0)
    return fail(path + ".first_task", "the program has no tasks");
  int64_t first = fields.integer("first_task", 0, tasks - 1);
  if (!isGood())
    return;
  buffer.first = first;
  buffer.last = fields.integer("last_task", first, tasks - 1);
}

void PlanReader::readBuffer(const rt::Json &value, const std::string &path) {
  JsonFields fields(value, path + ".", errors);
  PlanBuffer buffer;
  buffer.name = text(fields, "name");
  buffer.holds = text(fields, "holds");
  std::string arena = text(fields, "arena");
  if (!isGood())
    return;
  auto known = std::find(planArenaNames.begin(), planArenaNames.end(), arena);
  if (known == planArenaNames.end())
    return fields.fail("arena", "\"device\", \"host\" or \"nvme\"");
  buffer.arena = allPlanArenas[known - planArenaNames.begin()];
  int64_t size = plan.arenaBytes[static_cast<size_t>(buffer.arena)];
  buffer.offset = fields.integer("offset", 0, size);
  if (!isGood())
    return;
  buffer.bytes = fields.integer("bytes", 0, size - buffer.offset);
  totalBytes += buffer.bytes;
  if (totalBytes > mostBytes)
    return fields.failWith("bytes", "all buffers have more than 2^60 together");
  for (auto [key, to] : {std::pair{"state", &buffer.state},
                         {"slot", &buffer.slot},
                         {"bucket", &buffer.bucket}})
    if (fields.has(key))
      *to = text(fields, key);
  buffer.sharded = fields.boolean("sharded", false);
  buffer.elementBytes = fields.integer("element_bytes", 1, 16, 1);
  if (value.contains("program"))
    readLife(fields, path, value, buffer);
  if (!isGood())
    return;
  if (!bufferNumbers.try_emplace(buffer.name, plan.buffers.size()).second)
    return fields.fail("name", "names that differ");
  plan.buffers.push_back(std::move(buffer));
}

void PlanReader::readArenas(const rt::Json &root) {
  JsonFields fields(root, "", errors);
  plan.ranks = fields.integer("ranks", 1, 1 << 20);
  plan.arenaBytes[0] = fields.integer("device_arena_bytes", 0, mostBytes);
  plan.arenaBytes[1] = fields.integer("host_arena_bytes_a_rank", 0, mostBytes);
  plan.arenaBytes[2] =
      fields.integer("nvme_arena_bytes_a_rank", 0, mostBytes, 0);
  auto live = root.find("live_bound");
  if (live == root.end() || !live->is_object())
    return fail("live_bound", "missing, expected an object");
  JsonFields bounds(*live, "live_bound.", errors);
  for (size_t arena : {0, 1})
    plan.liveBound[arena] = bounds.integer(planArenaNames[arena], 0, mostBytes);
  plan.liveBound[2] = bounds.integer(planArenaNames[2], 0, mostBytes, 0);
  plan.boundExact.fill(true); // Said since it is not always.
  auto exact = root.find("live_bound_exact");
  if (exact == root.end())
    return;
  if (!exact->is_object())
    return fail("live_bound_exact", "expected an object");
  JsonFields exacts(*exact, "live_bound_exact.", errors);
  for (size_t arena = 0; arena < planArenas; ++arena)
    plan.boundExact[arena] = exacts.boolean(planArenaNames[arena], true);
}

/// Buckets and the parameters in them.
void PlanReader::readLayout(const rt::Json &root) {
  constexpr int64_t most = int64_t(1) << 48;
  forEachRow(root, "", "buckets",
             [&](const rt::Json &value, const std::string &path) {
               JsonFields fields(value, path + ".", errors);
               PlanBucket bucket;
               bucket.name = text(fields, "name");
               bucket.elements = fields.integer("elements", 1, most);
               bucket.chunk = fields.integer("chunk", 1, most);
               if (isGood() && (bucket.elements % plan.ranks != 0 ||
                                bucket.elements / plan.ranks != bucket.chunk))
                 return fields.fail(
                     "chunk", "the bucket's elements divided by the ranks");
               bucketElements[bucket.name] = bucket.elements;
               plan.buckets.push_back(std::move(bucket));
             });
  forEachRow(root, "", "parameters",
             [&](const rt::Json &value, const std::string &path) {
               JsonFields fields(value, path + ".", errors);
               PlanParameter parameter;
               parameter.name = text(fields, "name");
               parameter.bucket = text(fields, "bucket");
               parameter.type = text(fields, "type");
               parameter.trainable = fields.boolean("trainable", false);
               auto bucket = bucketElements.find(parameter.bucket);
               if (isGood() && bucket == bucketElements.end())
                 return fields.fail("bucket", "a bucket of this file");
               if (!isGood())
                 return;
               parameter.at = fields.integer("at", 0, bucket->second);
               if (!isGood())
                 return;
               parameter.elements =
                   fields.integer("elements", 0, bucket->second - parameter.at);
               plan.parameters.push_back(std::move(parameter));
             });
}

/// What processes hold beside their arenas, in the order of a run.
void PlanReader::readPhases(const rt::Json &root) {
  auto phases = root.find("phases");
  if (phases == root.end())
    return;
  JsonFields fields(root, "", errors);
  plan.processes = fields.integer("processes", 1, 1 << 20, 1);
  plan.threads = fields.integer("threads_a_process", 1, 1 << 20, 1);
  if (!phases->is_object())
    return fields.fail("phases", "an object");
  for (const char *name : {"start", "step", "checkpoint", "resume", "export"}) {
    std::string path = fmt::format("phases.{}", name);
    auto found = phases->find(name);
    if (found == phases->end() || !found->is_object())
      return fail(path, "missing, expected an object");
    PlanPhase phase;
    phase.name = name;
    forEachRow(*found, path + ".", "parts",
               [&](const rt::Json &value, const std::string &where) {
                 JsonFields part(value, where + ".", errors);
                 std::string what = text(part, "name");
                 std::string source = text(part, "source");
                 int64_t bytes = part.integer("bytes", 0, mostBytes);
                 phase.bytes += bytes;
                 if (isGood() && phase.bytes > mostBytes)
                   return part.failWith(
                       "bytes", "all parts have more than 2^60 together");
                 phase.parts.push_back({what, source, bytes});
               });
    if (!isGood())
      return;
    JsonFields whole(*found, path + ".", errors);
    if (whole.integer("bytes", 0, mostBytes) != phase.bytes)
      whole.fail("bytes", fmt::format("the sum of its parts, {}", phase.bytes));
    plan.phases.push_back(std::move(phase));
  }
}

rt::Result<Plan> PlanReader::read() {
  auto schedule = parse("schedule.json");
  if (!schedule.ok())
    return schedule.takeStatus();
  readPrograms(*schedule);
  if (!isGood())
    return std::move(errors.status);

  auto memory = parse("memory.json");
  if (!memory.ok())
    return memory.takeStatus();
  readArenas(*memory);
  if (isGood())
    forEachRow(*memory, "", "buffers",
               [&](const rt::Json &value, const std::string &path) {
                 readBuffer(value, path);
               });
  if (isGood())
    readLayout(*memory);
  if (isGood())
    readPhases(*memory);
  if (!isGood())
    return std::move(errors.status);

  errors.file = bundle + "/plan/schedule.json";
  readViews(*schedule);
  if (!isGood())
    return std::move(errors.status);
  return std::move(plan);
}

} // namespace

rt::Result<Plan> tool::readPlan(const std::string &bundle) {
  return PlanReader(bundle).read();
}

int64_t tool::lastingBytes(const Plan &plan, PlanArena arena) {
  int64_t bytes = 0;
  for (const PlanBuffer &buffer : plan.buffers)
    if (buffer.arena == arena && !buffer.program)
      bytes += buffer.bytes;
  return bytes;
}

PlanPeak tool::findPlanPeak(const Plan &plan, uint32_t program,
                            PlanArena arena) {
  std::vector<int64_t> change(plan.programs[program].tasks.size() + 1, 0);
  for (const PlanBuffer &buffer : plan.buffers) {
    if (buffer.arena != arena || buffer.program != program || !buffer.isTouched)
      continue;
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  int64_t live = lastingBytes(plan, arena);
  PlanPeak peak{live, 0};
  for (uint32_t task = 0; task < change.size(); ++task) {
    live += change[task];
    if (live > peak.bytes)
      peak = {live, task};
  }
  return peak;
}

std::vector<const PlanBuffer *> tool::liveAt(const Plan &plan, uint32_t program,
                                             uint32_t task, PlanArena arena,
                                             bool lasting) {
  std::vector<const PlanBuffer *> live;
  for (const PlanBuffer &buffer : plan.buffers) {
    if (buffer.arena != arena)
      continue;
    if (buffer.program ? buffer.program == program && buffer.isTouched &&
                             buffer.first <= task && task <= buffer.last
                       : lasting)
      live.push_back(&buffer);
  }
  std::sort(
      live.begin(), live.end(), [](const PlanBuffer *a, const PlanBuffer *b) {
        return a->bytes != b->bytes ? a->bytes > b->bytes : a->name < b->name;
      });
  return live;
}
