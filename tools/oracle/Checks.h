//===- Checks.h - Gradients and passes put to the test ----------*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_CHECKS_H
#define CIUIC_TOOLS_ORACLE_CHECKS_H

#include "tools/oracle/Run.h"
#include "llvm/Support/raw_ostream.h"

namespace ciuic::oracle {

struct CheckOptions {
  uint64_t seed = 0;
  double eps = 1e-3; ///< Step of a difference, relative to the parameter.
  double tolerance = 1e-6;
  int64_t steps = 1;
};

/// Compares the gradient of every trainable parameter along one random
/// direction with central differences of fourth order of the loss. Prints a
/// line a parameter. Fails if one is off by more than the tolerance, relative
/// to its size or to a millionth of the largest.
rt::Status checkGradients(Run &run, const Batches &batches,
                          const BatchGeometry &geometry,
                          const CheckOptions &options, llvm::raw_ostream &os);

/// Takes the same steps on both and compares losses and, by name, the tensors
/// that both have. Where one cannot train, gradients or losses alone are
/// compared. Prints the largest differences; fails above the tolerance, which
/// is a hundred times as wide for what an optimizer has updated.
struct ComparedRun {
  Run &run;
  const Batches &batches;
  const BatchGeometry &geometry;
};
rt::Status compareRuns(const ComparedRun &a, const ComparedRun &b,
                       const CheckOptions &options, llvm::raw_ostream &os);

/// The largest |a - b|, relative to the largest element of either or to
/// `floor`; infinite if one has NaNs where the other has none.
double relativeDifference(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b,
                          double floor = 0.0);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_CHECKS_H
