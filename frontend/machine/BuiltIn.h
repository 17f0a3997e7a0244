//===- BuiltIn.h - Machines that need no file -------------------*- C++ -*-===//
#ifndef CIUIC_FRONTEND_MACHINE_BUILTIN_H
#define CIUIC_FRONTEND_MACHINE_BUILTIN_H

#include <string_view>

namespace ciuic::machine {

/// ciuic-monster.json, embedded when this is built.
extern const std::string_view monsterFile;

} // namespace ciuic::machine

#endif // CIUIC_FRONTEND_MACHINE_BUILTIN_H
