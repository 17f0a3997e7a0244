//===- Profile.cpp - A table of how long each task took -------------------===//
#include "runtime/job/Profile.h"

#include "runtime/abi/Sizes.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <tuple>

namespace ciuic::rt {
namespace {

/// As in the dialect that tasks come from.
constexpr const char *kindNames[] = {"launch",
                                     "gemm",
                                     "attention_forward",
                                     "attention_backward",
                                     "embedding",
                                     "embedding_grad",
                                     "cross_entropy",
                                     "cross_entropy_grad",
                                     "column_sum",
                                     "norm_weight_grad",
                                     "copy",
                                     "zero",
                                     "accumulate",
                                     "all_gather",
                                     "reduce_scatter",
                                     "all_reduce",
                                     "square_sum",
                                     "sum_slots",
                                     "grad_scale",
                                     "learning_rate",
                                     "advance",
                                     "update_loss_scale",
                                     "adam",
                                     "sgd",
                                     "cross_entropy_with_grad"};
static_assert(std::size(kindNames) == abi::kTaskKinds);
constexpr const char *streamNames[] = {"compute", "gather", "reduce", "h2d",
                                       "d2h",     "host",   "disk"};
static_assert(std::size(streamNames) == abi::kStreams);

/// A field in quotes, which are doubled inside of it.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    result += c;
    if (c == '"')
      result += c;
  }
  return result + "\"";
}

std::string symbolOf(const abi::Task &task) {
  void *address = task.launch ? reinterpret_cast<void *>(task.launch)
                              : reinterpret_cast<void *>(task.kernel);
  Dl_info info{};
  if (!address || dladdr(address, &info) == 0 || !info.dli_sname)
    return "";
  return info.dli_sname;
}

double elementsOf(const abi::View &view) {
  return static_cast<double>(view.shape[0]) *
         static_cast<double>(view.shape[1]);
}

/// Multiplications and additions of C = op(A) op(B).
double flopsOf(const abi::Program &program, const abi::Task &task) {
  if (task.kind != abi::TaskKind::Gemm || task.views.end < task.views.begin + 3)
    return 0;
  const abi::View &a = program.views[task.views.begin];
  bool transposed =
      task.ints.end > task.ints.begin && program.ints[task.ints.begin] != 0;
  double depth = static_cast<double>(a.shape[transposed ? 0 : 1]);
  return 2 * depth * elementsOf(program.views[task.views.begin + 2]);
}

} // namespace

std::string printProfile(const abi::Bundle &bundle,
                         std::vector<TaskTime> profile) {
  std::sort(profile.begin(), profile.end(),
            [](const TaskTime &a, const TaskTime &b) {
              return std::tie(a.program, a.task) < std::tie(b.program, b.task);
            });
  std::string text =
      "program,task,kind,name,kernel,stream,runs,mean_us,bytes,flops\n";
  for (const TaskTime &entry : profile)
    for (uint32_t i = 0; i < bundle.programCount; ++i) {
      const abi::Program &program = bundle.programs[i];
      if (entry.program != program.name || entry.task >= program.taskCount ||
          entry.runs == 0)
        continue;
      const abi::Task &task = program.tasks[entry.task];
      double bytes = 0;
      for (uint32_t v = task.views.begin; v < task.views.end; ++v)
        bytes += elementsOf(program.views[v]) *
                 static_cast<double>(byteSize(program.views[v].dtype));
      text += fmt::format(
          "{},{},{},{},{},{},{},{:.9g},{:.0f},{:.0f}\n", program.name,
          entry.task, kindNames[static_cast<size_t>(task.kind)],
          quoted(task.name), symbolOf(task),
          streamNames[static_cast<size_t>(task.stream)], entry.runs,
          1e6 * entry.seconds / static_cast<double>(entry.runs), bytes,
          flopsOf(program, task));
    }
  return text;
}

} // namespace ciuic::rt
