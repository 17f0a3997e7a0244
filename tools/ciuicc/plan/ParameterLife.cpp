//===- ParameterLife.cpp - Where and when a parameter lives ---------------===//
#include "frontend/config/Keys.h"
#include "runtime/base/Quote.h"
#include "tools/ciuicc/plan/PlanText.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <set>

using namespace ciuic;
using namespace ciuic::tool;

using Out = std::back_insert_iterator<std::string>;

namespace {

/// Follows the bytes of one parameter. Its bucket's states are known by name;
/// what is gathered of them, and what gradients are reduced into them, by the
/// tasks that move whole buckets or chunks from one to the other.
class Follower {
public:
  Follower(const Plan &plan, const PlanParameter &parameter,
           const PlanBucket &bucket)
      : plan(plan), parameter(parameter), bucket(bucket),
        layouts(plan.buffers.size(), Layout::Other),
        elementBytes(plan.buffers.size(), 0) {}

  std::string run();

private:
  /// What of the bucket a buffer holds.
  enum class Layout { Other, Whole, Chunk };
  struct Bytes {
    int64_t begin, end;
  };

  void findStates();
  bool findMoved(const PlanTask &task);
  Layout layoutOf(const PlanView &view) const;
  std::vector<std::pair<int64_t, Bytes>> partsOf(uint32_t buffer) const;
  bool touches(const PlanView &view) const;
  void printBuffer(Out out, uint32_t number) const;
  void printTasks(Out out, uint32_t number, uint32_t program,
                  bool withProgram) const;

  const Plan &plan;
  const PlanParameter &parameter;
  const PlanBucket &bucket;
  std::vector<Layout> layouts;       ///< By buffer.
  std::vector<int64_t> elementBytes; ///< By buffer, where it is known.
};

} // namespace

void Follower::findStates() {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan.buffers[i];
    if (buffer.bucket != bucket.name || buffer.program)
      continue;
    layouts[i] = buffer.sharded ? Layout::Chunk : Layout::Whole;
    elementBytes[i] = buffer.elementBytes;
  }
}

Follower::Layout Follower::layoutOf(const PlanView &view) const {
  int64_t elements = view.bytes / view.elementBytes;
  if (elements == bucket.elements)
    return Layout::Whole;
  return elements == bucket.chunk ? Layout::Chunk : Layout::Other;
}

/// Whether the task moves the bucket between a known buffer and a new one.
bool Follower::findMoved(const PlanTask &task) {
  static const std::set<std::string> movers = {
      "all_gather", "reduce_scatter", "all_reduce", "copy",
      "accumulate", "adam",           "sgd"};
  if (!movers.contains(task.kind))
    return false;
  bool known = std::any_of(task.views.begin(), task.views.end(),
                           [&](const PlanView &view) {
                             return layouts[view.buffer] != Layout::Other &&
                                    layoutOf(view) != Layout::Other;
                           });
  bool found = false;
  for (const PlanView &view : task.views) {
    // A program's own buffer, and all of it: other buckets' are of their own.
    const PlanBuffer &buffer = plan.buffers[view.buffer];
    if (!known || layouts[view.buffer] != Layout::Other || !buffer.program)
      continue;
    Layout layout = layoutOf(view);
    if (layout == Layout::Other)
      continue;
    // Of a view of one chunk a rank the buffer holds the whole.
    if (view.rankStride != 0)
      layout = Layout::Whole;
    layouts[view.buffer] = layout;
    elementBytes[view.buffer] = view.elementBytes;
    found = true;
  }
  return found;
}

/// By rank (-1: all ranks alike), the parameter's bytes in a buffer.
std::vector<std::pair<int64_t, Follower::Bytes>>
Follower::partsOf(uint32_t number) const {
  int64_t size = elementBytes[number];
  int64_t begin = parameter.at, end = begin + parameter.elements;
  if (layouts[number] == Layout::Whole)
    return {{-1, {begin * size, end * size}}};
  std::vector<std::pair<int64_t, Bytes>> parts;
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    int64_t first = std::max(begin, rank * bucket.chunk);
    int64_t last = std::min(end, (rank + 1) * bucket.chunk);
    if (first < last)
      parts.push_back({rank,
                       {(first - rank * bucket.chunk) * size,
                        (last - rank * bucket.chunk) * size}});
  }
  return parts;
}

/// Whether a task touches the parameter's bytes on any rank.
bool Follower::touches(const PlanView &view) const {
  int64_t end = view.offset + view.bytes;
  if (view.rankStride > 0)
    end += std::min(view.rankStride, (int64_t(1) << 60) / plan.ranks) *
           (plan.ranks - 1);
  for (const auto &[rank, bytes] : partsOf(view.buffer))
    if (view.offset < bytes.end && bytes.begin < end)
      return true;
  return false;
}

void Follower::printBuffer(Out out, uint32_t number) const {
  const PlanBuffer &buffer = plan.buffers[number];
  fmt::format_to(out, "  {}", buffer.name);
  if (!buffer.program)
    fmt::format_to(out, " ({}{}{}, {} bytes an element)", buffer.holds,
                   buffer.slot.empty() ? "" : " ", buffer.slot,
                   elementBytes[number]);
  else if (buffer.isTouched)
    fmt::format_to(out, ", live from task {} to {}", buffer.first, buffer.last);
  const char *arena = planArenaNames[static_cast<size_t>(buffer.arena)];
  size_t shown = 0;
  auto parts = partsOf(number);
  for (const auto &[rank, bytes] : parts) {
    constexpr size_t most = 16;
    if (shown++ == most) {
      fmt::format_to(out, "\n    and on {} more ranks", parts.size() - most);
      break;
    }
    fmt::format_to(out, "\n    {}: bytes [{}, {}) of the {} arena",
                   rank < 0 ? "each rank" : fmt::format("rank {}", rank),
                   buffer.offset + bytes.begin, buffer.offset + bytes.end,
                   arena);
  }
  fmt::format_to(out, "\n");
}

void Follower::printTasks(Out out, uint32_t number, uint32_t program,
                          bool withProgram) const {
  const PlanProgram &of = plan.programs[program];
  for (size_t t = 0; t < of.tasks.size(); ++t) {
    const PlanTask &task = of.tasks[t];
    bool reads = false, writes = false;
    for (const PlanView &view : task.views) {
      if (view.buffer != number || !touches(view))
        continue;
      reads |= view.access != "write";
      writes |= view.access == "write" || view.access == "update";
    }
    if (!reads && !writes)
      continue;
    fmt::format_to(out, "      {}task {:>5}  {:<8} {:<7} {} {}\n",
                   withProgram ? fmt::format("{:<12} ", of.name) : "", t,
                   task.stream,
                   reads && writes ? "updates"
                   : writes        ? "writes"
                                   : "reads",
                   task.kind, task.name);
  }
}

std::string Follower::run() {
  findStates();
  for (bool found = true; found;) {
    found = false;
    for (const PlanProgram &program : plan.programs)
      for (const PlanTask &task : program.tasks)
        found |= findMoved(task);
  }

  std::string text;
  Out out(text);
  fmt::format_to(out,
                 "{}: {}{}, elements [{}, {}) of bucket {}, which has {} in "
                 "chunks of {} on {} ranks\n",
                 parameter.name, parameter.type,
                 parameter.trainable ? "" : ", not trained", parameter.at,
                 parameter.at + parameter.elements, bucket.name,
                 bucket.elements, bucket.chunk, plan.ranks);
  fmt::format_to(out, "all the time\n");
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    if (layouts[i] == Layout::Other || plan.buffers[i].program)
      continue;
    printBuffer(out, i);
    for (uint32_t p = 0; p < plan.programs.size(); ++p)
      printTasks(out, i, p, /*withProgram=*/true);
  }
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    std::vector<uint32_t> here;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i)
      if (layouts[i] != Layout::Other && plan.buffers[i].program == p)
        here.push_back(i);
    std::stable_sort(here.begin(), here.end(), [&](uint32_t a, uint32_t b) {
      return plan.buffers[a].first < plan.buffers[b].first;
    });
    if (!here.empty())
      fmt::format_to(out, "{}\n", plan.programs[p].name);
    for (uint32_t i : here) {
      printBuffer(out, i);
      printTasks(out, i, p, /*withProgram=*/false);
    }
  }
  return text;
}

/// For one who mistook a name: the parameters that it is a part of, else the
/// one that is spelt most alike; empty if none is.
static std::string similarNames(const Plan &plan, const std::string &name) {
  constexpr size_t most = 3;
  std::vector<std::string> found;
  std::vector<std::string_view> names;
  size_t others = 0;
  for (const PlanParameter &parameter : plan.parameters) {
    names.push_back(parameter.name);
    if (parameter.name.find(name) == std::string::npos)
      continue;
    if (found.size() < most)
      found.push_back(rt::quote(parameter.name));
    else
      ++others;
  }
  if (found.empty())
    if (auto near = config::nearestName(name, names); !near.empty())
      found.push_back(rt::quote(std::string(near)));
  if (found.empty())
    return "";
  return fmt::format("; similar: {}{}", fmt::join(found, ", "),
                     others ? fmt::format(" and {} more", others) : "");
}

rt::Result<std::string> tool::parameterLife(const Plan &plan,
                                            const std::string &name) {
  for (const PlanParameter &parameter : plan.parameters) {
    if (parameter.name != name)
      continue;
    for (const PlanBucket &bucket : plan.buckets)
      if (bucket.name == parameter.bucket)
        return Follower(plan, parameter, bucket).run();
  }
  return rt::Status::invalid(fmt::format("the bundle has no parameter {}{}",
                                         rt::quote(name),
                                         similarNames(plan, name)));
}
