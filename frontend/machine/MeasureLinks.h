//===- MeasureLinks.h - Disk and network of the machine at hand -*- C++ -*-===//
#ifndef CIUIC_FRONTEND_MACHINE_MEASURELINKS_H
#define CIUIC_FRONTEND_MACHINE_MEASURELINKS_H

#include <cstdint>
#include <optional>
#include <string>

namespace ciuic::machine {

/// Bytes a second at which a file in `folder` is written and read, in equal
/// parts, past the system's cache; none where that cannot be done, since the
/// cache would be measured. Takes a part of a second and leaves nothing.
std::optional<double> measureDisk(const std::string &folder);

/// `folder`, or the lowest one above it that exists, in which it would be made.
std::string existingFolder(const std::string &folder);

/// Bytes that a user may still put into `folder`.
std::optional<int64_t> freeSpace(const std::string &folder);

/// Bytes a second of the fastest network device that is connected, as Linux
/// says below `root`: devices that are made up have no speed there.
std::optional<double> networkRate(const std::string &root);

} // namespace ciuic::machine

#endif // CIUIC_FRONTEND_MACHINE_MEASURELINKS_H
