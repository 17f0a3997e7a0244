//===- Fingerprint.h - Is it the same compiled program? ---------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_FINGERPRINT_H
#define CIUIC_RUNTIME_JOB_FINGERPRINT_H

#include "runtime/abi/Program.h"

#include <string>

namespace ciuic::rt {

/// 16 hexadecimal digits.
std::string printHash(uint64_t hash);

/// Of all tables that processes of one job must have in common; equal for
/// equal programs, whatever machine compiled them. The bundle is checked.
std::string programFingerprint(const abi::Bundle &bundle);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_FINGERPRINT_H
