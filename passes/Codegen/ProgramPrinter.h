//===- ProgramPrinter.h - Prints programs as constant tables ----*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H
#define CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H

#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Analysis/HostPhases.h"
#include "llvm/Support/raw_ostream.h"

namespace ciuic::codegen {

/// What the program's tables say of the job besides its tasks.
struct JobFacts {
  std::string model;
  int64_t accumulation = 1;
  std::string isa;
  std::string nvmePath;        ///< Folder for states in files; may be empty.
  int64_t diskBlock = 1 << 20; ///< Bytes of one request.
  int64_t diskDepth = 8;       ///< Requests under way at once.
  sched::ProcessFacts process; ///< How its plan says that it is run.
};

/// What the tasks of an allocated module say of its inputs.
struct InputFacts {
  int64_t microBatch = 1; ///< Sequences.
  int64_t sequence = 1;   ///< Tokens.
  int64_t vocabulary = 0; ///< Rows of the table that tokens look up; 0: none.
};
InputFacts readInputs(mlir::ModuleOp module);

/// Prints `src/program.cpp`: runtime/abi/Program.h's records for an allocated
/// module, a line a task with its comment. Emits an error at what has no form.
llvm::LogicalResult printProgram(mlir::ModuleOp module, const JobFacts &facts,
                                 llvm::raw_ostream &os);

/// `text` as the inside of a C++ string literal, or in a comment of one line.
std::string escaped(llvm::StringRef text);

/// Letters, digits and underscores, no digit first.
bool isIdentifier(llvm::StringRef text);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_PROGRAMPRINTER_H
