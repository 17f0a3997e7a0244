//===- ProgramPrinter.h - Prints programs as constant tables ----*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H
#define CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H

#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace ciuic::codegen {

/// What the program's tables say of the job besides its tasks.
struct JobFacts {
  std::string model;
  int64_t accumulation = 1;
  int64_t vocabulary = 0;
  std::string isa;
};

/// Prints `src/program.cpp`: runtime/abi/Program.h's records for an allocated
/// module, a line a task with its comment. Emits an error at what has no form.
llvm::LogicalResult printProgram(mlir::ModuleOp module, const JobFacts &facts,
                                 llvm::raw_ostream &os);

/// `text` as the inside of a C++ string literal.
std::string escaped(llvm::StringRef text);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H
