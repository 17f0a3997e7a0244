//===- Launchers.cpp - What starts a device task on CUDA ------------------===//
#include "passes/Codegen/Launchers.h"
#include "passes/Codegen/ProgramPrinter.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;
using namespace ciuic::sched;

namespace {
/// Chooses the template for one task.
class Chooser {
public:
  explicit Chooser(TaskOp task) : task(task) {}

  /// Name of the launcher without "launch_", and how it is made. An empty name
  /// where the runtime does without.
  FailureOr<std::pair<std::string, Launcher>> choose();

private:
  ViewAttr view(unsigned i) { return cast<ViewAttr>(task.getViews()[i]); }
  /// The C++ type of a view's elements.
  FailureOr<std::string> type(unsigned i, bool onlyFloats);
  FailureOr<std::pair<std::string, Launcher>> make(StringRef header,
                                                   StringRef function,
                                                   ArrayRef<unsigned> views,
                                                   bool onlyFloats = true);
  FailureOr<std::pair<std::string, Launcher>> makeUpdate(StringRef function,
                                                         unsigned half);
  FailureOr<std::pair<std::string, Launcher>>
  makeAttention(StringRef function, unsigned q, unsigned lse);
  LogicalResult expect(unsigned i, Type element) {
    if (view(i).getType().getElementType() == element)
      return success();
    return task.emitOpError()
           << "\"" << task.getName() << "\" has " << view(i).getType()
           << " as view " << i << ", expected elements of " << element
           << " on CUDA";
  }

  TaskOp task;
};
} // namespace

FailureOr<std::string> Chooser::type(unsigned i, bool onlyFloats) {
  Type element = view(i).getType().getElementType();
  if (element.isF32())
    return std::string("float");
  if (element.isF16())
    return std::string("f16");
  if (element.isBF16())
    return std::string("bf16");
  if (!onlyFloats && element.isF64())
    return std::string("double");
  if (!onlyFloats && element.isInteger(32))
    return std::string("int32_t");
  return task.emitOpError() << "\"" << task.getName() << "\" of kind "
                            << stringifyKind(task.getKind()) << " works on "
                            << view(i).getType() << ", for which there is no "
                            << "CUDA kernel";
}

/// "float" as it stands in names.
static StringRef shortName(StringRef type) {
  return llvm::StringSwitch<StringRef>(type)
      .Case("float", "f32")
      .Case("double", "f64")
      .Case("int32_t", "i32")
      .Default(type);
}

FailureOr<std::pair<std::string, Launcher>>
Chooser::make(StringRef header, StringRef function, ArrayRef<unsigned> views,
              bool onlyFloats) {
  std::string name = stringifyKind(task.getKind()).str();
  std::string call = function.str();
  for (auto [n, i] : llvm::enumerate(views)) {
    FailureOr<std::string> element = type(i, onlyFloats);
    if (failed(element))
      return failure();
    call += (n == 0 ? "<" : ", ") + *element;
    name += ("_" + shortName(*element)).str();
  }
  if (!views.empty())
    call += ">";
  return std::pair(name, Launcher{("runtime/kernels/cuda/" + header).str(),
                                  call, task.getName().str()});
}

FailureOr<std::pair<std::string, Launcher>>
Chooser::makeUpdate(StringRef function, unsigned half) {
  for (unsigned i : {0, 1, 2})
    if (failed(expect(i, Float32Type::get(task.getContext()))))
      return failure();
  if (task.getViews().size() > half) {
    if (view(half).getType().getElementType().isF32())
      return expect(half, BFloat16Type::get(task.getContext()));
    return make("Update.cuh", function, {half});
  }
  return std::pair(stringifyKind(task.getKind()).str(),
                   Launcher{"runtime/kernels/cuda/Update.cuh",
                            (function + "<void>").str(), task.getName().str()});
}

/// Attention is compiled for its head size; one whose rows are no whole
/// vectors of 16 bytes has kernels of its own.
FailureOr<std::pair<std::string, Launcher>>
Chooser::makeAttention(StringRef function, unsigned q, unsigned lse) {
  auto made = make("Attention.cuh", function, {q});
  if (failed(made))
    return failure();
  RankedTensorType queries = view(q).getType();
  int64_t heads = task.getInts()[1];
  constexpr int64_t mostDim = 256;
  if (queries.getRank() != 2 || heads < 1 ||
      queries.getDimSize(1) % heads != 0 ||
      queries.getDimSize(1) / heads > mostDim)
    return task.emitOpError()
           << "\"" << task.getName() << "\" has " << heads << " heads in "
           << queries << ", expected heads of at most " << mostDim
           << " columns on CUDA";
  int64_t dim = queries.getDimSize(1) / heads;
  bool aligned = true;
  for (auto [i, attr] : llvm::enumerate(task.getViews())) {
    auto of = cast<ViewAttr>(attr);
    RankedTensorType type = of.getType();
    if (i == lse || type.getRank() != 2)
      continue;
    int64_t row = type.getDimSize(1) * type.getElementTypeBitWidth() / 8;
    aligned = aligned && of.getOffset() % 16 == 0 &&
              of.getRankStride() % 16 == 0 && row % 16 == 0;
  }
  made->second.call.pop_back();
  made->second.call +=
      ", " + std::to_string(dim) + (aligned ? ">" : ", false>");
  made->first += "_" + std::to_string(dim) + (aligned ? "" : "_unaligned");
  return made;
}

FailureOr<std::pair<std::string, Launcher>> Chooser::choose() {
  switch (task.getKind()) {
  case Kind::Launch:
    return std::pair(task.getKernel()->str(), Launcher());
  case Kind::Gemm:
  case Kind::AllGather:
  case Kind::ReduceScatter:
  case Kind::AllReduce:
    return std::pair(std::string(), Launcher());
  case Kind::AttentionForward:
    return makeAttention("launchAttentionForward", 0, 4);
  case Kind::AttentionBackward:
    return makeAttention("launchAttentionBackward", 1, 5);
  case Kind::Embedding:
    return make("Embedding.cuh", "launchEmbedding", {2});
  case Kind::EmbeddingGrad:
    return make("Embedding.cuh", "launchEmbeddingGrad", {2});
  case Kind::CrossEntropy:
    return make("CrossEntropy.cuh", "launchCrossEntropy", {0});
  case Kind::CrossEntropyGrad:
    return make("CrossEntropy.cuh", "launchCrossEntropyGrad", {1});
  case Kind::CrossEntropyWithGrad:
    return make("CrossEntropy.cuh", "launchCrossEntropyWithGrad", {1});
  case Kind::ColumnSum:
    return make("Columns.cuh", "launchColumnSum", {0, 1});
  case Kind::NormWeightGrad:
    return make("Columns.cuh", "launchNormWeightGrad", {0, 3});
  case Kind::Copy: {
    // What is the same on both sides may be anything; else it is converted.
    bool same = view(0).getType().getElementType() ==
                view(1).getType().getElementType();
    return make("Move.cuh", "launchCopy", {0, 1}, /*onlyFloats=*/!same);
  }
  case Kind::Zero:
    return make("Move.cuh", "launchZero", {});
  case Kind::Accumulate:
    return make("Move.cuh", "launchAccumulate", {0});
  case Kind::SquareSum:
    return make("Sums.cuh", "launchSquareSum", {0});
  case Kind::SumSlots:
    return make("Sums.cuh", "launchSumSlots", {});
  case Kind::GradScale:
    return make("Scalars.cuh", "launchGradScale", {});
  case Kind::LearningRate:
    return make("Scalars.cuh", "launchLearningRate", {});
  case Kind::Advance:
    return make("Scalars.cuh", "launchAdvance", {});
  case Kind::UpdateLossScale:
    return make("Scalars.cuh", "launchUpdateLossScale", {});
  case Kind::Adam:
    return makeUpdate("launchAdam", 8);
  case Kind::Sgd:
    return makeUpdate("launchSgd", 6);
  }
  llvm_unreachable("unknown kind");
}

FailureOr<Launchers> Launchers::of(ModuleOp module) {
  Launchers all;
  all.ranks = getRanks(module);
  all.cuda = isForCuda(module);
  WalkResult walk = module.walk([&](TaskOp task) {
    bool onHost = !all.cuda || task.getStream() == Stream::Host;
    if (task.getKind() == Kind::Launch)
      (onHost ? all.hostKernels : all.deviceKernels)
          .insert(task.getKernelAttr().getAttr());
    bool crosses = task.getStream() == Stream::H2D ||
                   task.getStream() == Stream::D2H ||
                   task.getStream() == Stream::Disk;
    if (onHost || crosses)
      return WalkResult::advance();
    auto chosen = Chooser(task).choose();
    if (failed(chosen))
      return WalkResult::interrupt();
    if (chosen->first.empty())
      return WalkResult::advance();
    // A kernel's name is given by people; one of the library's is not free.
    auto [it, isNew] = all.library.try_emplace("launch_" + chosen->first,
                                               std::move(chosen->second));
    bool isKernel = task.getKind() == Kind::Launch;
    if (!isNew && it->second.call.empty() != isKernel) {
      task.emitOpError() << "\"" << task.getName() << "\" needs the name "
                         << it->first << ", which a kernel of the module has";
      return WalkResult::interrupt();
    }
    all.byTask[task] = it->first;
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return all;
}

std::string Launchers::print(StringRef model, bool attention) const {
  llvm::SetVector<StringRef> headers;
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const auto &[name, launcher] : library) {
    bool isAttention = StringRef(launcher.call).starts_with("launchAttention");
    if (launcher.call.empty() || isAttention != attention)
      continue;
    headers.insert(launcher.header);
    os << "\n/// First for " << escaped(launcher.first)
       << ".\nextern \"C\" int " << name
       << "(const ciuic::abi::CudaLaunch &task) {\n  return " << launcher.call
       << "(task);\n}\n";
  }
  if (reducesRanks() && !attention) {
    headers.insert("runtime/kernels/cuda/RankReduce.cuh");
    os << "\n/// For ranks that share a device.\nextern \"C\" int "
          "reduce_ranks(ciuic::abi::DType dtype,\n"
          "                            const void *const *inputs, uint32_t "
          "ranks,\n                            void *out, uint64_t elements, "
          "int mean,\n                            void *stream) {\n"
          "  return reduceRanks(dtype, inputs, ranks, out, elements, mean, "
          "stream);\n}\n";
  }
  if (text.empty())
    return text;
  std::string head;
  llvm::raw_string_ostream top(head);
  top << "// " << (attention ? "Attention" : "What the runtime's kernels do")
      << " for " << escaped(model)
      << ": a launcher for each kind of task and its types.\n";
  for (StringRef header : headers)
    top << "#include \"" << header << "\"\n";
  top << "\nusing namespace ciuic::cuda;\n";
  return head + text;
}
