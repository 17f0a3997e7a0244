//===- CheckBundle.h - Is a compiled program safe to run? -------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CHECKBUNDLE_H
#define CIUIC_RUNTIME_TASK_CHECKBUNDLE_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"

namespace ciuic::rt {

/// Code::Invalid, naming the entry at fault, unless every index and range of
/// the bundle's tables is valid, every view lies inside its buffer on every
/// rank and every buffer inside its arena, and tasks wait for earlier tasks
/// only. What a task makes of its views is checked when it is prepared.
Status checkBundle(const abi::Bundle &bundle);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CHECKBUNDLE_H
