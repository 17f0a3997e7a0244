//===- BundleWriter.cpp - Writes and builds a bundle ----------------------===//
#include "passes/Codegen/BundleWriter.h"
#include "passes/Codegen/EmbeddedHeaders.h"
#include "passes/Codegen/KernelPrinter.h"
#include "passes/Codegen/PlanPrinter.h"
#include "passes/Sched/Passes.h"
#include "runtime/base/File.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

/// Flags for emitted code. Never -ffast-math: it deletes the checks for inf
/// and NaN. openmp-simd only reads the pragmas that name a sum.
static const char *const kFlags[] = {"-std=c++17",
                                     "-O3",
                                     "-fPIC",
                                     "-fno-math-errno",
                                     "-fno-trapping-math",
                                     "-fopenmp-simd",
                                     "-fvisibility=hidden",
                                     "-Wall"};

std::string codegen::hostIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3"))
    return "x86-64-v3";
#endif
  return "";
}

namespace {
class Writer {
public:
  Writer(ModuleOp module, BundleOptions options)
      : module(module), options(std::move(options)) {}
  LogicalResult run();

private:
  LogicalResult printAll();
  LogicalResult checkTarget();
  LogicalResult write(const BundleFile &file);
  LogicalResult compile();
  LogicalResult execute(ArrayRef<std::string> command);
  LogicalResult fail(const Twine &message) {
    return module.emitError() << message.str();
  }
  std::string at(StringRef path) const { return (stage + "/" + path).str(); }
  void add(StringRef path, std::string text) {
    files.push_back({path.str(), std::move(text)});
  }
  std::string cmakeLists() const;

  ModuleOp module;
  BundleOptions options;
  std::vector<BundleFile> files;
  std::string stage; ///< The folder that becomes the bundle.
};
} // namespace

std::string Writer::cmakeLists() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "# Builds lib/libjob.so of this bundle: a C++ compiler is enough.\n"
        "cmake_minimum_required(VERSION 3.16)\n"
        "project(job LANGUAGES CXX)\n"
        "add_library(job MODULE kernels.cpp program.cpp)\n"
        "target_include_directories(job PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})\n"
        "target_compile_options(job PRIVATE";
  for (const char *flag : kFlags)
    os << " " << flag;
  if (!options.facts.isa.empty())
    os << " -march=" << options.facts.isa;
  os << ")\n"
        "set_target_properties(job PROPERTIES LIBRARY_OUTPUT_DIRECTORY\n"
        "  ${CMAKE_CURRENT_SOURCE_DIR}/../lib)\n";
  return text;
}

LogicalResult Writer::printAll() {
  std::string kernels = "// The kernels of " + escaped(options.facts.model) +
                        ": each does rows [begin, end) of its work.\n"
                        "#include \"runtime/kernels/host/Kernel.h\"\n\n"
                        "using namespace ciuic::kernel;\n";
  std::string cuda = "// The kernels of " + escaped(options.facts.model) +
                     ", each with the function that launches it.\n"
                     "#include \"runtime/kernels/cuda/Kernel.cuh\"\n"
                     "#include \"runtime/kernels/cuda/Launch.h\"\n\n"
                     "using namespace ciuic::cuda;\n";
  for (auto kernel : module.getOps<sched::KernelOp>()) {
    llvm::raw_string_ostream cpp(kernels), cu(cuda);
    cpp << "\n";
    cu << "\n";
    if (failed(printKernel(kernel, Language::Cpp, cpp)) ||
        failed(printKernel(kernel, Language::Cuda, cu)))
      return failure();
  }
  add("src/kernels.cpp", std::move(kernels));
  add("src/kernels.cu", std::move(cuda));

  std::string program;
  llvm::raw_string_ostream os(program);
  if (failed(printProgram(module, options.facts, os)))
    return failure();
  add("src/program.cpp", std::move(program));
  add("src/CMakeLists.txt", cmakeLists());
  for (const EmbeddedHeader *header = embeddedHeaders; !header->path.empty();
       ++header)
    add(("src/" + StringRef(header->path)).str(), std::string(header->text));

  auto pretty = [](json::Value value) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::formatv("{0:2}\n", value);
    return text;
  };
  add("plan/memory.json", pretty(memoryPlan(module)));
  add("plan/schedule.json", pretty(schedulePlan(module)));
  json::Object manifest = std::move(options.manifest);
  manifest["format"] = 1;
  manifest["model"] = options.facts.model;
  manifest["isa"] = options.facts.isa;
  manifest["ranks"] = sched::getRanks(module);
  manifest["target"] = sched::isForCuda(module) ? "cuda" : "cpu";
  if (auto list = module->getAttrOfType<StringAttr>(sched::kArchitecturesAttr))
    manifest["architectures"] = list.getValue();
  add("manifest.json", pretty(std::move(manifest)));
  return success();
}

/// An existing target must be a bundle: nothing else is ever overwritten. Many
/// a project has a manifest.json, so the sources are looked for too.
LogicalResult Writer::checkTarget() {
  if (!fs::exists(options.folder))
    return success();
  std::error_code error;
  bool empty =
      fs::is_directory(options.folder) &&
      fs::directory_iterator(options.folder, error) == fs::directory_iterator();
  bool bundle = fs::exists(options.folder + "/manifest.json") &&
                fs::exists(options.folder + "/src/program.cpp");
  if (!empty && !bundle)
    return fail("\"" + options.folder +
                "\" is there and is no bundle; give another -o");
  return success();
}

/// Makes a folder and those above it, for all whom the umask admits: LLVM's
/// default keeps others out.
static std::error_code makeFolders(const llvm::Twine &path) {
  return fs::create_directories(path, /*IgnoreExisting=*/true, fs::all_all);
}

LogicalResult Writer::write(const BundleFile &file) {
  std::string path = at(file.path);
  if (std::error_code error = makeFolders(llvm::sys::path::parent_path(path)))
    return fail("cannot make the folder of " + path + ": " + error.message());
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return fail("cannot write " + path + ": " + error.message());
  os << file.text;
  os.close();
  if (os.has_error()) {
    std::string message = os.error().message();
    os.clear_error();
    return fail("cannot write " + path + ": " + message);
  }
  return success();
}

LogicalResult Writer::execute(ArrayRef<std::string> command) {
  SmallVector<StringRef> arguments(command.begin(), command.end());
  std::string log = at("build.log"), message;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  int code = llvm::sys::ExecuteAndWait(command.front(), arguments, std::nullopt,
                                       redirects, 0, 0, &message);
  if (code == 0) {
    fs::remove(log);
    return success();
  }
  std::string output = message;
  if (auto text = llvm::MemoryBuffer::getFile(log))
    output += (*text)->getBuffer().take_front(4000).str();
  return fail("the C++ compiler failed with code " + Twine(code) + ": " +
              llvm::join(command, " ") + "\n" + output);
}

LogicalResult Writer::compile() {
  std::string compiler;
  if (auto wanted = llvm::sys::Process::GetEnv("CIUIC_CXX")) {
    auto found = llvm::sys::findProgramByName(*wanted);
    if (!found)
      return fail("CIUIC_CXX names \"" + *wanted + "\", which is not found");
    compiler = *found;
  }
  for (StringRef name : {"clang++-22", "clang++", "g++", "c++"})
    if (compiler.empty())
      if (auto found = llvm::sys::findProgramByName(name))
        compiler = *found;
  if (compiler.empty())
    return fail("found no C++ compiler to build the kernels with; install "
                "clang++ or g++, or name one in CIUIC_CXX");
  std::vector<std::string> flags(std::begin(kFlags), std::end(kFlags));
  if (!options.facts.isa.empty())
    flags.push_back("-march=" + options.facts.isa);
  flags.push_back("-I" + at("src"));
  if (std::error_code error = makeFolders(at("lib")))
    return fail("cannot make " + at("lib") + ": " + error.message());
  std::vector<std::string> command = {compiler};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"-shared", "-o", at("lib/libjob.so"),
                                 at("src/kernels.cpp"), at("src/program.cpp")});
  return execute(command);
}

LogicalResult Writer::run() {
  while (options.folder.size() > 1 && options.folder.back() == '/')
    options.folder.pop_back();
  if (options.facts.isa.empty())
    options.facts.isa = hostIsa();
  if (failed(checkTarget()) || failed(printAll()))
    return failure();
  SmallString<256> unique;
  fs::createUniquePath(options.folder + ".%%%%%%.partial", unique,
                       /*MakeAbsolute=*/false);
  stage = unique.str().str();
  LogicalResult result = success();
  for (const std::vector<BundleFile> *list : {&files, &options.extra})
    for (const BundleFile &file : *list)
      if (succeeded(result))
        result = write(file);
  if (succeeded(result) && options.build)
    result = compile();
  // The old bundle goes once the new one is in its place, not before.
  if (succeeded(result))
    if (rt::Status status = rt::replaceFolder(stage, options.folder);
        !status.ok())
      result = fail(status.str());
  if (failed(result))
    fs::remove_directories(stage);
  return result;
}

LogicalResult codegen::writeBundle(ModuleOp module, BundleOptions options) {
  return Writer(module, std::move(options)).run();
}
