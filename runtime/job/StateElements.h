//===- StateElements.h - How many elements a tensor has ---------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_STATEELEMENTS_H
#define CIUIC_RUNTIME_JOB_STATEELEMENTS_H

#include "runtime/abi/Program.h"

namespace ciuic::rt {

inline uint64_t elementsOf(const abi::Member &member) {
  return static_cast<uint64_t>(member.shape[0]) *
         static_cast<uint64_t>(member.shape[1]);
}

inline uint64_t elementsOf(const abi::State &state) {
  return static_cast<uint64_t>(state.view.shape[0]) *
         static_cast<uint64_t>(state.view.shape[1]);
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_STATEELEMENTS_H
