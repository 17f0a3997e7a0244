//===- Profile.h - A table of how long each task took -----------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_PROFILE_H
#define CIUIC_RUNTIME_JOB_PROFILE_H

#include "runtime/task/Machine.h"

namespace ciuic::rt {

/// Comma-separated values with a heading, a line a task that has run: program,
/// index, kind, name, kernel (the symbol, if it has one), stream, runs, mean
/// microseconds, bytes of its views, floating-point operations of a product.
std::string printProfile(const abi::Bundle &bundle,
                         std::vector<TaskTime> profile);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_PROFILE_H
