//===- ProgramPrinter.cpp - Prints programs as constant tables ------------===//
#include "passes/Codegen/ProgramPrinter.h"
#include "dialect/Comm/Comm.h"
#include "passes/Codegen/Launchers.h"
#include "passes/Sched/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;
using namespace ciuic::sched;

namespace {
class Printer {
public:
  Printer(ModuleOp module, const JobFacts &facts, const Launchers &launchers,
          raw_ostream &os)
      : module(module), facts(facts), launchers(launchers), os(os),
        symbols(module) {}

  LogicalResult print();

private:
  FailureOr<StringRef> dtype(Type type, Operation *op);
  LogicalResult printView(ViewAttr view, Operation *op);
  void printBuffers();
  LogicalResult printProgram(ProgramOp program);
  StringRef kernelOf(TaskOp task) const;
  void printDeclarations();
  void printInit(Attribute init);
  LogicalResult printStates();
  void printBuckets();
  void printMembers();
  void printBundle();
  double gemmFlops();

  ModuleOp module;
  const JobFacts &facts;
  const Launchers &launchers;
  raw_ostream &os;
  SymbolTable symbols;
  llvm::MapVector<StringAttr, unsigned> buffers, buckets;
  llvm::DenseMap<StringAttr, StringAttr> bufferOfState;
  SmallVector<std::string> programs;
  unsigned members = 0, states = 0;
};
} // namespace

std::string codegen::escaped(StringRef text) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  for (char c : text)
    if (c == '"' || c == '\\')
      stream << '\\' << c;
    else if (static_cast<unsigned char>(c) < 0x20)
      stream << llvm::format("\\%03o", static_cast<unsigned char>(c));
    else
      stream << c;
  return result;
}

InputFacts codegen::readInputs(ModuleOp module) {
  InputFacts inputs;
  module.walk([&](TaskOp task) {
    for (Attribute attr : task.getViews()) {
      auto view = cast<ViewAttr>(attr);
      if (view.getBuffer().getValue() != "buf.tokens" ||
          view.getType().getRank() != 2)
        continue;
      inputs.microBatch = view.getType().getDimSize(0);
      inputs.sequence = view.getType().getDimSize(1);
    }
    if (task.getKind() == Kind::Embedding &&
        cast<ViewAttr>(task.getViews()[1]).getType().getRank() == 2)
      inputs.vocabulary =
          cast<ViewAttr>(task.getViews()[1]).getType().getDimSize(0);
  });
  return inputs;
}

bool codegen::isIdentifier(StringRef text) {
  return !text.empty() && !llvm::isDigit(text.front()) &&
         llvm::all_of(text,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// A double that reads back as the same bits.
static std::string exact(double value) {
  if (value != value)
    return "__builtin_nan(\"\")";
  if (value - value != 0.0)
    return value > 0 ? "__builtin_inf()" : "-__builtin_inf()";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", value);
  return text;
}

FailureOr<StringRef> Printer::dtype(Type type, Operation *op) {
  if (type.isF32())
    return StringRef("DType::F32");
  if (type.isF16())
    return StringRef("DType::F16");
  if (type.isBF16())
    return StringRef("DType::BF16");
  if (type.isF64())
    return StringRef("DType::F64");
  if (type.isInteger(32))
    return StringRef("DType::I32");
  return op->emitOpError() << "has elements of " << type
                           << ", which the runtime does not know";
}

LogicalResult Printer::printView(ViewAttr view, Operation *op) {
  RankedTensorType type = view.getType();
  FailureOr<StringRef> element = dtype(type.getElementType(), op);
  if (failed(element))
    return failure();
  ArrayRef<int64_t> shape = type.getShape();
  int64_t columns = shape.empty() ? 1 : shape.back();
  int64_t rows = shape.size() == 2 ? shape[0] : 1;
  os << "{" << buffers.lookup(view.getBuffer().getAttr()) << ", " << *element
     << ", " << shape.size() << ", " << view.getOffset() << ", "
     << view.getRankStride() << ", {" << rows << ", " << columns << "}, {"
     << columns << ", 1}}";
  return success();
}

static StringRef arenaName(Arena arena) {
  static constexpr const char *names[] = {"Device", "Host", "Nvme"};
  static_assert(std::size(names) == getMaxEnumValForArena() + 1);
  return names[static_cast<unsigned>(arena)];
}

void Printer::printBuffers() {
  os << "constexpr Buffer buffers[] = {\n";
  for (auto buffer : module.getOps<BufferOp>()) {
    buffers.insert({buffer.getSymNameAttr(), buffers.size()});
    if (buffer.getState())
      bufferOfState[buffer.getStateAttr().getAttr()] = buffer.getSymNameAttr();
    StringRef name = buffer.getSymName();
    name.consume_front("buf.");
    os << "    {\"" << escaped(name) << "\", " << buffer.getBytes() << ", "
       << *buffer.getAt() << ", Arena::" << arenaName(buffer.getArena())
       << "},\n";
  }
  os << "};\n\n";
}

/// Forward or backward, for the breakdown of time.
static StringRef phaseOf(TaskOp task, ProgramOp program) {
  if (program.getSymName() == "apply")
    return "Other";
  return task->hasAttr(train::kBackwardAttr) ? "Backward" : "Forward";
}

/// The enumerators of abi::TaskKind stand in the order of sched's Kind.
static StringRef kindName(Kind kind) {
  static constexpr const char *names[] = {"Launch",
                                          "Gemm",
                                          "AttentionForward",
                                          "AttentionBackward",
                                          "Embedding",
                                          "EmbeddingGrad",
                                          "CrossEntropy",
                                          "CrossEntropyGrad",
                                          "ColumnSum",
                                          "NormWeightGrad",
                                          "Copy",
                                          "Zero",
                                          "Accumulate",
                                          "AllGather",
                                          "ReduceScatter",
                                          "AllReduce",
                                          "SquareSum",
                                          "SumSlots",
                                          "GradScale",
                                          "LearningRate",
                                          "Advance",
                                          "UpdateLossScale",
                                          "Adam",
                                          "Sgd",
                                          "CrossEntropyWithGrad"};
  static_assert(std::size(names) == getMaxEnumValForKind() + 1);
  return names[static_cast<unsigned>(kind)];
}

static StringRef streamName(Stream stream) {
  static constexpr const char *names[] = {"Compute", "Gather", "Reduce", "H2D",
                                          "D2H",     "Host",   "Disk"};
  static_assert(std::size(names) == getMaxEnumValForStream() + 1);
  return names[static_cast<unsigned>(stream)];
}

/// What the CPU runs of a task. On CUDA only tasks of the host have that.
StringRef Printer::kernelOf(TaskOp task) const {
  bool onHost = !isForCuda(module) || task.getStream() == Stream::Host;
  return task.getKernel() && onHost ? *task.getKernel() : "nullptr";
}

LogicalResult Printer::printProgram(ProgramOp program) {
  std::string name = program.getSymName().str();
  if (!isIdentifier(name))
    return program.emitOpError()
           << "has the name \"" << name << "\", which is no C++ identifier";
  os << "//===-- " << name << " --===//\n\n";
  llvm::DenseMap<Value, unsigned> numbers;
  std::string taskText, waitText, intText, realText;
  llvm::raw_string_ostream tasks(taskText), waits(waitText), ints(intText),
      reals(realText);
  unsigned views = 0, waitCount = 0, intCount = 0, realCount = 0, count = 0;
  os << "constexpr View " << name << "_views[] = {\n";
  for (auto task : program.getBody().getOps<TaskOp>()) {
    numbers[task.getDone()] = count++;
    unsigned firstView = views, firstWait = waitCount, firstInt = intCount,
             firstReal = realCount;
    for (Attribute view : task.getViews()) {
      os << "    ";
      if (failed(printView(cast<ViewAttr>(view), task)))
        return failure();
      os << ",\n";
      ++views;
    }
    unsigned lastView = views;
    int64_t skip = -1;
    if (task.getSkip()) {
      os << "    ";
      if (failed(printView(*task.getSkip(), task)))
        return failure();
      os << ",\n";
      skip = views++;
    }
    int64_t scratch = -1;
    if (task.getScratch()) {
      os << "    ";
      if (failed(printView(*task.getScratch(), task)))
        return failure();
      os << ",\n";
      scratch = views++;
    }
    for (Value event : task.getAfter()) {
      waits << numbers.lookup(event) << ", ";
      ++waitCount;
    }
    for (int64_t value : task.getInts()) {
      ints << value << ", ";
      ++intCount;
    }
    for (double value : task.getReals()) {
      reals << exact(value) << ", ";
      ++realCount;
    }
    tasks << "    {TaskKind::" << kindName(task.getKind())
          << ", Stream::" << streamName(task.getStream()) << ", " << skip
          << ", {" << firstView << ", " << lastView << "}, {" << firstWait
          << ", " << waitCount << "}, {" << firstInt << ", " << intCount
          << "}, {" << firstReal << ", " << realCount << "}, " << kernelOf(task)
          << ", "
          << (launchers.nameOf(task).empty() ? "nullptr"
                                             : launchers.nameOf(task))
          << ", " << scratch << ", \"" << escaped(task.getName())
          << "\", Phase::" << phaseOf(task, program) << "}, // " << count - 1
          << "\n";
  }
  // A table of no entries is no array: each has a last entry that none uses.
  os << "    {}};\n";
  os << "constexpr uint32_t " << name << "_waits[] = {" << waitText << "0};\n";
  os << "constexpr int64_t " << name << "_ints[] = {" << intText << "0};\n";
  os << "constexpr double " << name << "_reals[] = {" << realText << "0};\n";
  os << "constexpr Task " << name << "_tasks[] = {\n"
     << taskText << "    {}};\n\n";
  std::string entry;
  llvm::raw_string_ostream(entry)
      << "    {\"" << name << "\", " << name << "_tasks, " << count << ", "
      << name << "_views, " << name << "_waits, " << name << "_ints, " << name
      << "_reals, " << views << ", " << waitCount << ", " << intCount << ", "
      << realCount << "},\n";
  programs.push_back(entry);
  return success();
}

void Printer::printInit(Attribute init) {
  llvm::TypeSwitch<Attribute>(init)
      .Case([&](train::ConstantInitAttr constant) {
        os << "{InitKind::Constant, {" << exact(constant.getValue())
           << "}, {}}";
      })
      .Case([&](train::NormalInitAttr normal) {
        os << "{InitKind::Normal, {" << exact(normal.getStd()) << "}, {}}";
      })
      .Case([&](train::RopeInitAttr rope) {
        os << "{InitKind::Rope, {" << exact(rope.getTheta()) << ", "
           << exact(rope.getFactor()) << ", " << exact(rope.getLow()) << ", "
           << exact(rope.getHigh()) << ", "
           << exact(static_cast<double>(rope.getOriginal())) << "}, {"
           << static_cast<int>(rope.getPart()) << ", " << rope.getDim() << ", "
           << static_cast<int>(rope.getScaling()) << "}}";
      });
}

LogicalResult Printer::printStates() {
  static constexpr const char *roles[] = {
      "Parameter", "Gradient", "Master", "Moment", "Table", "Metric", "Scalar"};
  static_assert(std::size(roles) == train::getMaxEnumValForRole() + 1);
  os << "constexpr State states[] = {\n";
  auto print = [&](StringRef name, StringRef role, StringRef slot,
                   FlatSymbolRefAttr buffer, RankedTensorType type,
                   int64_t bucket, bool sharded, Attribute init,
                   Operation *op) {
    os << "    {\"" << escaped(name) << "\", Role::" << role << ", \""
       << escaped(slot) << "\", ";
    if (failed(printView(ViewAttr::get(module.getContext(), Access::Read,
                                       buffer, 0, 0, type),
                         op)))
      return failure();
    os << ", " << bucket << ", " << (sharded ? "true" : "false") << ", ";
    printInit(init);
    os << "},\n";
    ++states;
    return success();
  };
  for (auto state : module.getOps<train::StateOp>()) {
    StringAttr buffer = bufferOfState.lookup(state.getSymNameAttr());
    if (!buffer)
      continue; // A member of a bucket.
    int64_t bucket = -1;
    if (auto of = state.getOfAttr())
      if (auto it = buckets.find(of.getAttr()); it != buckets.end())
        bucket = it->second;
    if (failed(print(state.getSymName(),
                     roles[static_cast<unsigned>(state.getRole())],
                     state.getSlot().value_or(""),
                     FlatSymbolRefAttr::get(buffer), state.getTensorType(),
                     bucket, state.getSharded(), state.getInit(), state)))
      return failure();
  }
  // Constants are states that nothing writes.
  for (auto buffer : module.getOps<BufferOp>()) {
    if (!buffer.getConstant())
      continue;
    auto type =
        RankedTensorType::get({}, Float32Type::get(module.getContext()));
    auto init = train::ConstantInitAttr::get(
        module.getContext(), buffer.getConstant()->convertToDouble());
    if (failed(print(buffer.getSymName(), "Table", "",
                     FlatSymbolRefAttr::get(buffer.getSymNameAttr()), type, -1,
                     false, init, buffer)))
      return failure();
  }
  os << "    {}};\n\n";
  return success();
}

void Printer::printBuckets() {
  os << "constexpr Bucket buckets[] = {\n";
  for (auto bucket : module.getOps<comm::BucketOp>()) {
    buckets.insert({bucket.getSymNameAttr(), buckets.size()});
    os << "    {\"" << escaped(bucket.getSymName()) << "\", "
       << bucket.getElements() << ", " << bucket.getChunk() << ", "
       << (bucket.getTrainable() ? "true" : "false") << "},\n";
  }
  os << "    {}};\n\n";
}

void Printer::printMembers() {
  os << "constexpr Member members[] = {\n";
  for (auto state : module.getOps<train::StateOp>()) {
    if (!state.getBucket())
      continue;
    ArrayRef<int64_t> shape = state.getTensorType().getShape();
    os << "    {\"" << escaped(state.getSymName()) << "\", "
       << buckets.lookup(state.getBucketAttr().getAttr()) << ", "
       << *state.getOffset() << ", " << shape.size() << ", {"
       << (shape.empty() ? 1 : shape[0]) << ", "
       << (shape.size() == 2 ? shape[1] : 1) << "}, ";
    printInit(state.getInit());
    os << "},\n";
    ++members;
  }
  os << "    {}};\n\n";
}

/// Matrix products of one micro-step of one rank.
double Printer::gemmFlops() {
  double flops = 0.0;
  auto program = symbols.lookup<ProgramOp>("micro_first");
  if (!program)
    return flops;
  for (auto task : program.getBody().getOps<TaskOp>()) {
    auto shapeOf = [&](unsigned i) {
      return cast<ViewAttr>(task.getViews()[i]).getType().getShape();
    };
    if (task.getKind() != Kind::Gemm)
      continue;
    double k = shapeOf(0)[task.getInts()[0] ? 0 : 1];
    flops += 2.0 * k * shapeOf(2)[0] * shapeOf(2)[1];
  }
  return flops;
}

void Printer::printBundle() {
  auto arena = [&](StringRef name) {
    auto bytes = module->getAttrOfType<IntegerAttr>(name);
    return bytes ? bytes.getInt() : 0;
  };
  auto numberOf = [&](StringRef name) {
    auto it = buffers.find(StringAttr::get(module.getContext(), name));
    return it == buffers.end() ? -1 : static_cast<int64_t>(it->second);
  };
  InputFacts inputs = readInputs(module);
  auto architectures = module->getAttrOfType<StringAttr>(kArchitecturesAttr);
  os << "constexpr Program programs[] = {\n";
  for (const std::string &program : programs)
    os << program;
  os << "};\n\n";
  os << "constexpr Bundle bundle = {\n"
     << "    kVersion, " << getRanks(module) << ", \"" << escaped(facts.model)
     << "\",\n    " << inputs.microBatch << ", " << inputs.sequence << ", "
     << facts.accumulation << ", " << inputs.vocabulary << ", "
     << exact(gemmFlops()) << ",\n    {" << arena(kDeviceArena) << "ull, "
     << arena(kHostArena) << "ull, " << arena(kNvmeArena) << "ull}, "
     << numberOf("buf.tokens") << ", " << numberOf("buf.labels")
     << ",\n    buffers, " << buffers.size() << ", programs, "
     << programs.size() << ", states, " << states << ",\n    buckets, "
     << buckets.size() << ", members, " << members << ", \""
     << escaped(facts.isa)
     << "\", Target::" << (isForCuda(module) ? "Cuda" : "Cpu") << ", \""
     << (architectures ? architectures.getValue() : "") << "\", "
     << (launchers.reducesRanks() ? "reduce_ranks" : "nullptr") << ",\n    {\""
     << escaped(facts.nvmePath) << "\", " << facts.diskBlock << "ull, "
     << facts.diskDepth << "}};\n\n"
     << "} // namespace\n\n"
     << "extern \"C\" __attribute__((visibility(\"default\"))) const Bundle *\n"
     << "ciuic_bundle() {\n  return &bundle;\n}\n";
}

/// Of what other files define.
void Printer::printDeclarations() {
  for (auto kernel : module.getOps<KernelOp>())
    if (launchers.isOnHost(kernel))
      os << "extern \"C\" void " << kernel.getSymName()
         << "(int64_t, int64_t, void *const *);\n";
  for (StringRef name : launchers.names())
    os << "extern \"C\" int " << name << "(const CudaLaunch &);\n";
  if (launchers.reducesRanks())
    os << "extern \"C\" int reduce_ranks(DType, const void *const *, uint32_t, "
          "void *,\n                            uint64_t, int, void *);\n";
}

LogicalResult Printer::print() {
  if (!module->getAttrOfType<IntegerAttr>(kDeviceArena) ||
      !module->getAttrOfType<IntegerAttr>(kHostArena))
    return module.emitError() << "has no arenas; expected allocated IR";
  if (module.getOps<BufferOp>().empty() || module.getOps<ProgramOp>().empty())
    return module.emitError() << "has no programs; there is nothing to run";
  for (auto buffer : module.getOps<BufferOp>())
    if (!buffer.getAt())
      return buffer.emitOpError() << "has no offset; expected allocated IR";
  os << "// The task program of " << escaped(facts.model)
     << ": constant tables, a line a task.\n"
     << "// Records and their meaning: runtime/abi/Program.h.\n"
     << "#include \"runtime/abi/Program.h\"\n\n"
     << "using namespace ciuic::abi;\n\n";
  printDeclarations();
  os << "\nnamespace {\n\n";
  printBuffers();
  for (auto program : module.getOps<ProgramOp>())
    if (failed(printProgram(program)))
      return failure();
  printBuckets();
  if (failed(printStates()))
    return failure();
  printMembers();
  printBundle();
  return success();
}

LogicalResult codegen::printProgram(ModuleOp module, const JobFacts &facts,
                                    raw_ostream &os) {
  FailureOr<Launchers> launchers = Launchers::of(module);
  if (failed(launchers))
    return failure();
  return Printer(module, facts, *launchers, os).print();
}
