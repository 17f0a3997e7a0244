//===- BundleBuild.cpp - Compiles the sources of a bundle -----------------===//
#include "passes/Codegen/BundleBuild.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <deque>
#include <thread>

using namespace llvm;
using namespace ciuic::codegen;
namespace fs = llvm::sys::fs;

/// Nothing is contracted to fused operations, which depends on what else is in
/// an expression: a value has the same bits in whichever kernel computes it.
static const char *const kFlags[] = {"-std=c++17",
                                     "-O3",
                                     "-fPIC",
                                     "-fno-math-errno",
                                     "-fno-trapping-math",
                                     "-ffp-contract=off",
                                     "-fvisibility=hidden",
                                     "-Wall"};

ArrayRef<const char *> ciuic::codegen::hostFlags() { return kFlags; }

namespace {
/// One program to run: the path of the program first, then its arguments.
struct Command {
  std::vector<std::string> words;
  std::string log;  ///< File for what it prints.
  std::string what; ///< "the C++ compiler"
};

/// A compiler by the variable that names it, else the first that is there.
struct Compiler {
  std::string path;  ///< Empty: none was found.
  std::string error; ///< The variable names what is not there.
};
} // namespace

static Compiler findCompiler(StringRef variable, ArrayRef<StringRef> names) {
  if (auto wanted = sys::Process::GetEnv(variable)) {
    if (auto found = sys::findProgramByName(*wanted))
      return {*found, ""};
    return {
        "",
        (variable + " names \"" + *wanted + "\", which is not found").str()};
  }
  for (StringRef name : names)
    if (auto found = sys::findProgramByName(name))
      return {*found, ""};
  return {};
}

/// What a command that ended with `code` is told with.
static std::string failureOf(const Command &command, int code,
                             const std::string &message) {
  std::string output = message;
  if (auto text = MemoryBuffer::getFile(command.log))
    output += (*text)->getBuffer().take_front(4000).str();
  return (command.what + " failed with code " + Twine(code) + ": " +
          join(command.words, " ") + "\n" + output)
      .str();
}

/// Runs commands, `atOnce` at a time, in their order; returns the first error.
static std::string runAll(ArrayRef<Command> commands, unsigned atOnce) {
  struct Running {
    const Command *command;
    sys::ProcessInfo process;
  };
  std::deque<Running> running;
  std::string error;
  auto finish = [&]() {
    Running first = running.front();
    running.pop_front();
    std::string message;
    sys::ProcessInfo ended =
        sys::Wait(first.process, /*SecondsToWait=*/std::nullopt, &message);
    if (ended.ReturnCode != 0 && error.empty())
      error = failureOf(*first.command, ended.ReturnCode, message);
    fs::remove(first.command->log);
  };
  for (const Command &command : commands) {
    if (running.size() >= atOnce)
      finish();
    if (!error.empty())
      break;
    SmallVector<StringRef> words(command.words.begin(), command.words.end());
    std::optional<StringRef> redirects[] = {
        StringRef(""), StringRef(command.log), StringRef(command.log)};
    std::string message;
    bool failed = false;
    sys::ProcessInfo process = sys::ExecuteNoWait(
        words.front(), words, std::nullopt, redirects, 0, &message, &failed);
    if (failed) {
      error = failureOf(command, -1, message);
      break;
    }
    running.push_back({&command, process});
  }
  while (!running.empty())
    finish();
  return error;
}

BuildResult ciuic::codegen::buildForCpu(const std::string &folder,
                                        const std::string &isa) {
  Compiler compiler =
      findCompiler("CIUIC_CXX", {"clang++-22", "clang++", "g++", "c++"});
  if (!compiler.error.empty())
    return {compiler.error, false};
  if (compiler.path.empty())
    return {"found no C++ compiler to build the kernels with; install clang++ "
            "or g++, or name one in CIUIC_CXX",
            false};
  Command command{{compiler.path}, folder + "/build.log", "the C++ compiler"};
  command.words.insert(command.words.end(), std::begin(kFlags),
                       std::end(kFlags));
  if (!isa.empty())
    command.words.push_back("-march=" + isa);
  command.words.insert(command.words.end(),
                       {"-I" + folder + "/src", "-shared", "-o",
                        folder + "/lib/libjob.so", folder + "/src/kernels.cpp",
                        folder + "/src/program.cpp"});
  return {runAll(command, 1), true};
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

/// "80" of "sm_80"; without a suffix its code can be made for newer GPUs too,
/// when it is loaded.
static SmallVector<StringRef> numbersOf(StringRef list) {
  SmallVector<StringRef> numbers;
  list.split(numbers, ',', -1, /*KeepEmpty=*/false);
  for (StringRef &number : numbers)
    number.consume_front("sm_");
  return numbers;
}

static bool hasSuffix(StringRef number) { return !isDigit(number.back()); }

std::string ciuic::codegen::cmakeArchitectures(StringRef list) {
  std::string text;
  for (StringRef number : numbersOf(list))
    text += (text.empty() ? "" : ";") + number.str() +
            (hasSuffix(number) ? "-real" : "");
  return text;
}

static std::vector<std::string> gencodeFlags(StringRef list) {
  std::vector<std::string> flags;
  for (StringRef number : numbersOf(list)) {
    std::string arch = "-gencode=arch=compute_" + number.str() + ",code=";
    flags.push_back(arch + "sm_" + number.str());
    if (!hasSuffix(number))
      flags.push_back(arch + "compute_" + number.str());
  }
  return flags;
}

namespace {
/// nvcc gives what it runs to a shell: it is shown plain names alone, from
/// inside of the bundle, whatever the folders above are called.
class InFolder {
public:
  explicit InFolder(const std::string &folder) {
    error = fs::current_path(before);
    if (!error)
      error = fs::set_current_path(folder);
  }
  ~InFolder() {
    if (!error)
      (void)fs::set_current_path(before);
  }
  std::error_code error;

private:
  SmallString<256> before;
};
} // namespace

/// Where the toolkit of `nvcc` has the CUDA runtime, for the loader; "" if that
/// is not known, or is no plain name.
static std::string librariesOf(StringRef nvcc) {
  SmallString<256> path;
  if (fs::real_path(nvcc, path))
    return "";
  StringRef toolkit = sys::path::parent_path(sys::path::parent_path(path));
  std::string folder = (toolkit + "/lib64").str();
  bool plain = all_of(folder, [](char c) {
    return isAlnum(c) || StringRef("/._-+").contains(c);
  });
  return plain && fs::exists(folder + "/libcudart.so") ? folder : "";
}

BuildResult ciuic::codegen::buildForCuda(const std::string &folder,
                                         const std::string &architectures,
                                         const std::string &isa) {
  Compiler nvcc = findCompiler("CIUIC_NVCC", {"nvcc"});
  if (!nvcc.error.empty() || nvcc.path.empty())
    return {nvcc.error, false};
  SmallString<256> path(nvcc.path);
  if (std::error_code error = fs::make_absolute(path))
    return {"cannot find " + nvcc.path + ": " + error.message(), false};
  InFolder inside(folder + "/src");
  if (inside.error)
    return {"cannot enter " + folder + "/src: " + inside.error.message(),
            false};

  std::vector<std::string> common = {path.str().str()};
  if (!sys::Process::GetEnv("NVCC_CCBIN"))
    common.insert(common.end(), {"-ccbin", "g++"});
  std::vector<std::string> objects;
  std::vector<Command> commands;
  auto add = [&](const std::string &file, ArrayRef<std::string> flags) {
    if (!fs::exists(file))
      return;
    std::string object = "../lib/" + file + ".o";
    Command command{common, object + ".log", "nvcc"};
    command.words.insert(command.words.end(), flags.begin(), flags.end());
    command.words.insert(command.words.end(), {"-c", file, "-o", object});
    commands.push_back(std::move(command));
    objects.push_back(object);
  };
  std::vector<std::string> device = {
      "-std=c++20", "-O3", "-I.", "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall"};
  for (std::string &flag : gencodeFlags(architectures))
    device.push_back(std::move(flag));
  // What takes longest first.
  for (const char *file : {"attention.cu", "library.cu", "kernels.cu"})
    add(file, device);
  std::vector<std::string> host = {"-I."};
  std::string passed;
  for (StringRef flag : kFlags)
    passed += (passed.empty() ? "" : ",") + flag.str();
  if (!isa.empty())
    passed += ",-march=" + isa;
  host.push_back("-Xcompiler=" + passed);
  for (const char *file : {"program.cpp", "kernels.cpp"})
    add(file, host);

  unsigned atOnce = std::max(1u, std::thread::hardware_concurrency());
  std::string error = runAll(commands, atOnce);
  if (error.empty()) {
    Command link{common, "../lib/libjob.so.log", "nvcc"};
    link.words.insert(link.words.end(), {"-shared", "-cudart", "shared", "-o",
                                         "../lib/libjob.so"});
    if (std::string folder = librariesOf(path); !folder.empty())
      link.words.push_back("-Xlinker=-rpath=" + folder);
    link.words.insert(link.words.end(), objects.begin(), objects.end());
    error = runAll(link, 1);
  }
  for (const std::string &object : objects)
    fs::remove(object);
  return {error, true};
}
