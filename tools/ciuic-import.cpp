//===- ciuic-import.cpp - The import phase by itself ----------------------===//
//
// Prints the train IR of a model. For compiler engineers and tests: ciuicc
// imports by itself.
//
//===----------------------------------------------------------------------===//
#include "frontend/model/ImportModel.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace ciuic;
namespace cl = llvm::cl;

static cl::opt<std::string>
    input(cl::Positional, cl::Required,
          cl::desc("<config.json, a folder with one, or train IR (.mlir)>"));
static cl::opt<int64_t> microBatch("micro-batch", cl::init(1),
                                   cl::desc("sequences a micro-batch"));
static cl::opt<int64_t>
    sequence("seq-len", cl::init(0),
             cl::desc("tokens a sequence; the default is the model's maximum "
                      "or 512, whichever is less"));
static cl::opt<std::string> output("o", cl::init("-"),
                                   cl::desc("file to write"));
static cl::opt<bool> locations("locations", cl::init(false),
                               cl::desc("print locations too"));

static mlir::OwningOpRef<mlir::ModuleOp> import(mlir::MLIRContext &context) {
  if (llvm::StringRef(input).ends_with(".mlir"))
    return model::loadModel(context, input);
  rt::Result<model::ModelConfig> config = model::readModelConfig(input);
  if (!config.ok()) {
    llvm::errs() << "error: " << config.takeStatus().str() << "\n";
    return nullptr;
  }
  for (const std::string &warning : config->warnings)
    llvm::errs() << "warning: " << warning << "\n";
  int64_t tokens = sequence;
  if (tokens == 0)
    tokens = std::min<int64_t>(config->maxPositions, 512);
  return model::importModel(context, *config, microBatch, tokens);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(
      argc, argv,
      "prints a model as train IR\n\n"
      "  ciuic-import DIR --micro-batch 2 --seq-len 32 -o model.mlir\n");
  mlir::DialectRegistry registry;
  model::registerImportDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false); // Not the whole of @forward.
  mlir::OwningOpRef<mlir::ModuleOp> module = import(context);
  if (!module || mlir::failed(model::verifyImported(*module)))
    return 1;

  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file =
      mlir::openOutputFile(output, &message);
  if (!file) {
    llvm::errs() << "error: " << message << "\n";
    return 3;
  }
  mlir::OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module->print(file->os(), flags);
  file->keep();
  return 0;
}
