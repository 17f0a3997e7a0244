//===- ciuic-run.cpp - The oracle: what a module means --------------------===//
//
// Interprets train and comm IR on all ranks in one process, slowly and
// exactly. Before and after every pass a module must compute the same here.
//
//===----------------------------------------------------------------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/File.h"
#include "tools/oracle/Checks.h"
#include "tools/oracle/Watch.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

#include <new>

using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;
namespace cl = llvm::cl;

static cl::OptionCategory category("Options of ciuic-run");

template <typename T> using Option = cl::opt<T>;

static cl::list<std::string> modules(cl::Positional, cl::OneOrMore,
                                     cl::desc("MODULE.mlir"),
                                     cl::cat(category));
static Option<bool> exact("f64", cl::cat(category),
                          cl::desc("compute in f64, round nothing"));
static Option<int64_t> ranks("ranks", cl::init(0), cl::cat(category),
                             cl::desc("ranks; the default is the module's"));
static Option<std::string>
    stateFile("state", cl::cat(category),
              cl::desc("safetensors with the state, by Hugging Face name"));
static Option<std::string>
    inputFile("input", cl::cat(category),
              cl::desc("safetensors with tokens and labels"));
static Option<std::string> labelsName("labels", cl::init("labels"),
                                      cl::cat(category),
                                      cl::desc("the labels' name there"));
static Option<bool> randomInputs("random-inputs", cl::cat(category),
                                 cl::desc("tokens and labels from the seed"));
static Option<uint64_t> seed("seed", cl::init(0), cl::cat(category),
                             cl::desc("of initial values and random inputs"));
static Option<int64_t> steps("steps", cl::init(1), cl::cat(category),
                             cl::desc("training steps"));
static Option<int64_t>
    microSteps("micro-steps", cl::init(0), cl::cat(category),
               cl::desc("micro-steps a step; the default is the module's"));
static Option<std::string>
    functionName("function", cl::cat(category),
                 cl::desc("run this function instead of training steps"));
static cl::list<std::string>
    watchNames("watch", cl::CommaSeparated, cl::cat(category),
               cl::desc("values to store, by the name of their op"));
static Option<std::string> outputFile("output", cl::cat(category),
                                      cl::desc("safetensors to write"));
static Option<std::string>
    gradientFile("gradients", cl::cat(category),
                 cl::desc("safetensors to write: the gradient of the last "
                          "step's mean loss by each parameter, by its name"));
static Option<std::string>
    lossFile("losses", cl::cat(category),
             cl::desc("log to write, a JSON object a step; - prints it"));
static Option<bool> printResults("print", cl::cat(category),
                                 cl::desc("print the function's results"));
static cl::list<std::string>
    printStates("print-state", cl::CommaSeparated, cl::cat(category),
                cl::desc("tensors of the state to print afterwards"));
static Option<bool>
    gradientCheck("check-gradients", cl::cat(category),
                  cl::desc("compare gradients with differences of the loss"));
static Option<double> eps("eps", cl::init(1e-3), cl::cat(category),
                          cl::desc("relative step of these differences"));
static Option<bool> compare("compare", cl::cat(category),
                            cl::desc("take the same steps on two modules"));
static Option<double>
    tolerance("tolerance", cl::init(0.0), cl::cat(category),
              cl::desc("largest relative difference; the default is 1e-6 for "
                       "gradients, 1e-9 for modules in f64, else 1e-5"));

//===----------------------------------------------------------------------===//
// Modules and batches
//===----------------------------------------------------------------------===//

/// A module with its run; errors in the text are shown with their line.
struct Loaded {
  llvm::SourceMgr sources;
  std::unique_ptr<mlir::SourceMgrDiagnosticHandler> diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Run> run;
};

static Status load(mlir::MLIRContext &context, const std::string &path,
                   Loaded &loaded) {
  loaded.diagnostics = std::make_unique<mlir::SourceMgrDiagnosticHandler>(
      loaded.sources, &context);
  loaded.module = mlir::parseSourceFile<mlir::ModuleOp>(
      path, loaded.sources, mlir::ParserConfig(&context));
  if (!loaded.module)
    return Status::invalid(path + " is not read");
  InterpreterOptions options;
  options.exact = exact || gradientCheck;
  options.ranks = ranks;
  mlir::FailureOr<Run> run = Run::create(*loaded.module, options, seed);
  if (mlir::failed(run))
    return Status::invalid(path + " cannot run");
  loaded.run.emplace(std::move(*run));
  if (stateFile.empty())
    return {};
  return loadState(stateFile, loaded.run->interpreter(), loaded.run->layout(),
                   /*allowMissing=*/seed.getNumOccurrences() > 0);
}

static Result<Batches> makeBatches(const Run &run,
                                   const BatchGeometry &geometry) {
  if (!inputFile.empty())
    return Batches::read(inputFile, labelsName, geometry);
  if (!randomInputs)
    return Status::invalid(
        "nothing to run on: expected --input FILE or --random-inputs");
  int64_t vocabulary = run.vocabulary();
  if (vocabulary < 1)
    return Status::invalid("--random-inputs needs a module with an embedding "
                           "or a cross-entropy, which bound the tokens");
  return Batches::random(seed, vocabulary, geometry);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static void printValue(const std::string &name, const RankValues &values,
                       bool isExact) {
  bool same = llvm::all_of(values, [&](const TensorRef &value) {
    return identical(*value, *values.front());
  });
  for (auto [rank, value] : llvm::enumerate(values)) {
    llvm::outs() << name;
    if (!same)
      llvm::outs() << " on rank " << rank;
    llvm::outs() << ": " << print(*value, isExact) << "\n";
    if (same)
      return;
  }
}

/// Training steps, a record of each in `log`.
static Status trainSteps(Run &run, std::string &log) {
  CIUIC_TRY_ASSIGN(BatchGeometry geometry, run.geometry(microSteps));
  CIUIC_TRY_ASSIGN(Batches batches, makeBatches(run, geometry));
  for (int64_t step = 0; step < steps; ++step) {
    CIUIC_TRY_ASSIGN(rt::OrderedJson record,
                     run.trainStep(batches, step, geometry.microSteps, true));
    log += record.dump() + "\n"; // A NaN is written as null.
  }
  return {};
}

/// The function once for every micro-step of every step if it takes a batch,
/// else once a step. Adds the last results to `values`.
static Status callFunction(Run &run, const std::string &name,
                           NamedValues &values) {
  Interpreter &interpreter = run.interpreter();
  mlir::func::FuncOp function = interpreter.find(name);
  if (!function)
    return Status::invalid("the module has no function @" + name);
  std::vector<RankValues> results;
  run.clearSums();
  if (function.getNumArguments() == 0) {
    for (int64_t step = 0; step < steps; ++step) {
      CIUIC_TRY_ASSIGN(results, run.call(name, {}));
    }
  } else {
    if (!takesBatch(function))
      return Status::invalid("@" + name +
                             " takes other arguments than tokens "
                             "and labels of BxT i32");
    CIUIC_TRY_ASSIGN(BatchGeometry geometry,
                     run.geometryOf(function, microSteps));
    CIUIC_TRY_ASSIGN(Batches batches, makeBatches(run, geometry));
    for (int64_t step = 0; step < steps; ++step) {
      run.clearSums();
      for (int64_t micro = 0; micro < geometry.microSteps; ++micro) {
        CIUIC_TRY_ASSIGN(results,
                         run.call(name, {batches.tokens(step, micro),
                                         batches.labels(step, micro)}));
      }
    }
  }
  for (auto [index, result] : llvm::enumerate(results)) {
    std::string label = "result " + std::to_string(index);
    if (printResults)
      printValue(label, result, interpreter.isExact());
    values["result." + std::to_string(index)] = joinRanks(result);
  }
  return {};
}

/// Gradients as PyTorch has them: of the mean over labelled tokens.
static Status saveGradients(Run &run) {
  CIUIC_TRY_ASSIGN(BatchGeometry geometry, run.geometry(microSteps));
  double factor = run.meanFactor(geometry);
  NamedValues gradients;
  for (const NamedTensor &tensor : run.layout().tensors()) {
    if (tensor.role != train::Role::Gradient)
      continue;
    auto value = std::make_shared<Tensor>();
    value->element = tensor.element();
    value->shape = tensor.shape;
    value->data = Layout::get(run.interpreter(), tensor);
    for (double &element : value->data)
      element *= factor;
    train::StateOp parameter = tensor.parameter;
    gradients[parameter.getSymName().str()] = value;
  }
  return saveTensors(gradientFile, gradients, run.interpreter().isExact());
}

static Status runModule(Run &run) {
  Interpreter &interpreter = run.interpreter();
  Watch watch(watchNames);
  watch.attach(interpreter);
  NamedValues values;
  std::string log;
  if (functionName.empty() && run.canTrain())
    CIUIC_TRY(trainSteps(run, log));
  else if (!functionName.empty())
    CIUIC_TRY(callFunction(run, functionName, values));
  else
    return Status::invalid("the module has no @micro_step and @apply_step; "
                           "expected --function NAME");

  for (const std::string &name : printStates) {
    const NamedTensor *tensor = run.layout().find(name);
    if (!tensor)
      return Status::invalid("the module has no state \"" + name + "\"");
    auto value = std::make_shared<Tensor>();
    value->element = tensor->element();
    value->shape = tensor->shape;
    value->data = Layout::get(interpreter, *tensor);
    printValue(name, {value}, interpreter.isExact());
  }
  if (lossFile == "-")
    llvm::outs() << log;
  else if (!lossFile.empty())
    CIUIC_TRY(rt::writeOutputFile(lossFile, log));
  if (!gradientFile.empty())
    CIUIC_TRY(saveGradients(run));
  if (outputFile.empty() && watchNames.empty())
    return {};
  addState(values, interpreter, run.layout());
  Result<BatchGeometry> geometry = run.geometry(microSteps);
  CIUIC_TRY(watch.addTo(values, geometry.ok() ? geometry->sequence : 0));
  if (outputFile.empty())
    return Status::invalid("--watch needs --output FILE");
  return saveTensors(outputFile, values, interpreter.isExact());
}

static Status runGradientCheck(Run &run) {
  CIUIC_TRY_ASSIGN(BatchGeometry geometry, run.geometry(microSteps));
  CIUIC_TRY_ASSIGN(Batches batches, makeBatches(run, geometry));
  CheckOptions options;
  options.seed = seed;
  options.eps = eps;
  if (tolerance > 0.0)
    options.tolerance = tolerance;
  return checkGradients(run, batches, geometry, options, llvm::outs());
}

static Status runComparison(Run &first, Run &second) {
  CIUIC_TRY_ASSIGN(BatchGeometry left, first.geometry(microSteps));
  CIUIC_TRY_ASSIGN(BatchGeometry right, second.geometry(microSteps));
  CIUIC_TRY_ASSIGN(Batches leftBatches, makeBatches(first, left));
  CIUIC_TRY_ASSIGN(Batches rightBatches, makeBatches(second, right));
  CheckOptions options;
  options.steps = steps;
  options.tolerance = tolerance > 0.0 ? tolerance : exact ? 1e-9 : 1e-5;
  return compareRuns({first, leftBatches, left}, {second, rightBatches, right},
                     options, llvm::outs());
}

static Status run() {
  if (steps < 1 || steps > 1000000000 || microSteps < 0 ||
      microSteps > 1000000 || ranks < 0 || !(eps > 0.0) || !(eps < 1.0))
    return Status::invalid(
        "found --steps " + std::to_string(steps) + ", --micro-steps " +
        std::to_string(microSteps) + ", --ranks " + std::to_string(ranks) +
        " and --eps " + std::to_string(eps) +
        "; expected steps in [1, 1e9], micro-steps in [0, 1e6], ranks of at "
        "least 0 and eps in (0, 1)");
  size_t expected = compare ? 2 : 1;
  if (modules.size() != expected)
    return Status::invalid("takes " + std::to_string(expected) +
                           " modules here, found " +
                           std::to_string(modules.size()));
  mlir::DialectRegistry registry;
  registry
      .insert<comm::CommDialect, train::TrainDialect, mlir::arith::ArithDialect,
              mlir::func::FuncDialect, mlir::math::MathDialect>();
  mlir::MLIRContext context(registry);
  Loaded first, second;
  CIUIC_TRY(load(context, modules[0], first));
  if (compare) {
    CIUIC_TRY(load(context, modules[1], second));
    return runComparison(*first.run, *second.run);
  }
  return gradientCheck ? runGradientCheck(*first.run) : runModule(*first.run);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "runs train and comm IR, slowly and exactly\n\n"
      "  ciuic-run step.mlir --random-inputs --steps 3 --losses -\n"
      "  ciuic-run --check-gradients step.mlir --random-inputs\n"
      "  ciuic-run --compare before.mlir after.mlir --f64 --random-inputs\n");
  Status status;
  try {
    status = run();
  } catch (const std::bad_alloc &) {
    status = Status::machine("out of memory");
  }
  llvm::outs().flush(); // What led to an error comes before it.
  if (status.ok())
    return 0;
  llvm::errs() << "ciuic-run: error: " << status.str() << "\n";
  return status.exitCode();
}
