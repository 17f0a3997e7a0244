//===- BundleWriter.cpp - Writes and builds a bundle ----------------------===//
#include "passes/Codegen/BundleWriter.h"
#include "passes/Codegen/BundleBuild.h"
#include "passes/Codegen/EmbeddedFiles.h"
#include "passes/Codegen/KernelPrinter.h"
#include "passes/Codegen/Launchers.h"
#include "passes/Codegen/PlanPrinter.h"
#include "passes/Sched/Passes.h"
#include "runtime/base/File.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

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
      : module(module), options(std::move(options)),
        cuda(sched::isForCuda(module)) {}
  LogicalResult run();

private:
  LogicalResult printAll();
  LogicalResult checkTarget();
  /// Large jobs have files of hundreds of megabytes: they are written as they
  /// are printed.
  LogicalResult write(StringRef path,
                      function_ref<LogicalResult(llvm::raw_ostream &)> print);
  LogicalResult write(StringRef path, StringRef text);
  LogicalResult writeJson(StringRef path,
                          function_ref<void(json::OStream &)> print);
  LogicalResult printKernels();
  LogicalResult compile();
  LogicalResult fail(const Twine &message) {
    return module.emitError() << message.str();
  }
  std::string at(StringRef path) const { return (stage + "/" + path).str(); }
  std::string cmakeLists() const;
  std::string architectures() const;

  ModuleOp module;
  BundleOptions options;
  bool cuda;
  std::string stage; ///< The folder that becomes the bundle.
};
} // namespace

std::string Writer::architectures() const {
  auto list = module->getAttrOfType<StringAttr>(sched::kArchitecturesAttr);
  return list ? list.getValue().str() : "";
}

std::string Writer::cmakeLists() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (cuda) {
    os << "# Builds lib/libjob.so and bin/train of this bundle where the GPUs "
          "are:\n"
          "#   cmake -S BUNDLE/src -B DIR && cmake --build DIR -j\n"
          "cmake_minimum_required(VERSION 3.20)\n"
          "project(job LANGUAGES CXX)\n"
          "set(JOB_ARCHITECTURES \""
       << cmakeArchitectures(architectures()) << "\")\nset(JOB_ISA \""
       << options.facts.isa << "\")\nset(JOB_FLAGS";
    for (const char *flag : hostFlags())
      os << " " << flag;
    os << ")\ninclude(tools/ciuic-train/bundle.cmake)\n";
    return text;
  }
  os << "# Builds lib/libjob.so of this bundle: a C++ compiler is enough.\n"
        "cmake_minimum_required(VERSION 3.16)\n"
        "project(job LANGUAGES CXX)\n"
        "add_library(job MODULE kernels.cpp program.cpp)\n"
        "target_include_directories(job PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})\n"
        "target_compile_options(job PRIVATE";
  for (const char *flag : hostFlags())
    os << " " << flag;
  if (!options.facts.isa.empty())
    os << " -march=" << options.facts.isa;
  os << ")\n"
        "set_target_properties(job PROPERTIES LIBRARY_OUTPUT_DIRECTORY\n"
        "  ${CMAKE_CURRENT_SOURCE_DIR}/../lib)\n";
  return text;
}

/// The kernels of what runs them: host and device may both have some.
LogicalResult Writer::printKernels() {
  FailureOr<Launchers> launchers = Launchers::of(module);
  if (failed(launchers))
    return failure();
  std::string model = escaped(options.facts.model), host, device;
  llvm::raw_string_ostream cpp(host), cu(device);
  for (auto kernel : module.getOps<sched::KernelOp>()) {
    if (launchers->isOnHost(kernel)) {
      cpp << "\n";
      if (failed(printKernel(kernel, Language::Cpp, cpp)))
        return failure();
    }
    if (launchers->isOnDevice(kernel)) {
      cu << "\n";
      if (failed(printKernel(kernel, Language::Cuda, cu)))
        return failure();
    }
  }
  if (!cuda || !host.empty())
    if (failed(write("src/kernels.cpp",
                     "// The kernels of " + model +
                         (cuda ? " that the host runs" : "") +
                         ": each does rows [begin, end) of its work.\n"
                         "#include \"runtime/kernels/host/Kernel.h\"\n\n"
                         "using namespace ciuic::kernel;\n" +
                         host)))
      return failure();
  if (!device.empty())
    if (failed(write("src/kernels.cu",
                     "// The kernels of " + model +
                         ", each with the function that enqueues it.\n"
                         "#include \"runtime/kernels/cuda/Kernel.cuh\"\n"
                         "#include \"runtime/kernels/cuda/Launch.h\"\n\n"
                         "using namespace ciuic::cuda;\n" +
                         device)))
      return failure();
  if (!cuda)
    return success();
  for (bool attention : {false, true})
    if (std::string text = launchers->print(options.facts.model, attention);
        !text.empty())
      if (failed(
              write(attention ? "src/attention.cu" : "src/library.cu", text)))
        return failure();
  return success();
}

LogicalResult Writer::printAll() {
  if (failed(printKernels()))
    return failure();
  if (failed(write("src/program.cpp",
                   [&](llvm::raw_ostream &os) {
                     return printProgram(module, options.facts, os);
                   })) ||
      failed(write("src/CMakeLists.txt", cmakeLists())))
    return failure();
  for (const EmbeddedFile *file = embeddedFiles; !file->path.empty(); ++file)
    if (cuda || file->always)
      if (failed(write(("src/" + StringRef(file->path)).str(), file->text)))
        return failure();

  if (failed(writeJson("plan/memory.json",
                       [&](json::OStream &os) {
                         printMemoryPlan(module, options.facts.process, os);
                       })) ||
      failed(writeJson("plan/schedule.json", [&](json::OStream &os) {
        printSchedulePlan(module, os);
      })))
    return failure();
  json::Object manifest = std::move(options.manifest);
  manifest["format"] = 1;
  manifest["model"] = options.facts.model;
  manifest["isa"] = options.facts.isa;
  manifest["ranks"] = sched::getRanks(module);
  manifest["target"] = cuda ? "cuda" : "cpu";
  if (auto list = module->getAttrOfType<StringAttr>(sched::kArchitecturesAttr))
    manifest["architectures"] = list.getValue();
  return writeJson("manifest.json",
                   [&](json::OStream &os) { os.value(std::move(manifest)); });
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

LogicalResult Writer::writeJson(StringRef path,
                                function_ref<void(json::OStream &)> print) {
  return write(path, [&](llvm::raw_ostream &os) {
    json::OStream out(os, /*IndentSize=*/2);
    print(out);
    os << "\n";
    return success();
  });
}

LogicalResult Writer::write(StringRef path, StringRef text) {
  return write(path, [&](llvm::raw_ostream &os) {
    os << text;
    return success();
  });
}

LogicalResult
Writer::write(StringRef inBundle,
              function_ref<LogicalResult(llvm::raw_ostream &)> print) {
  std::string path = at(inBundle);
  if (std::error_code error = makeFolders(llvm::sys::path::parent_path(path)))
    return fail("cannot make the folder of " + path + ": " + error.message());
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return fail("cannot write " + path + ": " + error.message());
  LogicalResult printed = print(os);
  os.close();
  if (os.has_error()) {
    std::string message = os.error().message();
    os.clear_error();
    return fail("cannot write " + path + ": " + message);
  }
  return printed;
}

LogicalResult Writer::compile() {
  if (std::error_code error = makeFolders(at("lib")))
    return fail("cannot make " + at("lib") + ": " + error.message());
  BuildResult result =
      cuda ? buildForCuda(stage, architectures(), options.facts.isa)
           : buildForCpu(stage, options.facts.isa);
  if (!result.error.empty())
    return fail(result.error);
  if (!result.built) {
    // An empty folder would look like a build that went wrong.
    fs::remove(at("lib"));
    module->getContext()->getDiagEngine().emit(
        UnknownLoc::get(module.getContext()), DiagnosticSeverity::Note)
        << "found no nvcc: build the bundle where the GPUs are, cmake -S \""
        << options.folder << "/src\" -B BUILD && cmake --build BUILD -j";
  }
  return success();
}

LogicalResult Writer::run() {
  while (options.folder.size() > 1 && options.folder.back() == '/')
    options.folder.pop_back();
  // What GPUs are in has AVX2; AVX-512 it may lack.
  if (options.facts.isa.empty())
    options.facts.isa = cuda ? "x86-64-v3" : hostIsa();
  if (failed(checkTarget()))
    return failure();
  SmallString<256> unique;
  fs::createUniquePath(options.folder + ".%%%%%%.partial", unique,
                       /*MakeAbsolute=*/false);
  stage = unique.str().str();
  LogicalResult result = printAll();
  for (const BundleFile &file : options.extra)
    if (succeeded(result))
      result = write(file.path, file.text);
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
