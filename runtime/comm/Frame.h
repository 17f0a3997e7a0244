//===- Frame.h - What precedes the bytes between processes ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_COMM_FRAME_H
#define CIUIC_RUNTIME_COMM_FRAME_H

#include "runtime/base/Status.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace ciuic::rt {

enum class FrameKind : uint32_t { Data = 1, Abort = 2 };

/// Goes before each part of an exchange. Processes of one job run on machines
/// of one byte order.
struct FrameHeader {
  static constexpr uint64_t expectedMagic = 0x31454d4152464943; // "CIFRAME1"
  uint64_t magic = expectedMagic;
  FrameKind kind = FrameKind::Data;
  uint32_t code = 0; ///< Of an abort: its Code.
  /// Number of the exchange, from 0. Of an abort: whether its text names the
  /// process at fault, which is not the sender.
  uint64_t sequence = 0;
  uint64_t bytes = 0; ///< That follow.
};
static_assert(sizeof(FrameHeader) == 32);

/// The longest message that an abort carries.
inline constexpr uint64_t mostAbortBytes = 16384;

/// What is wrong with a frame of data from `peer`, if it is not what this
/// process expects.
inline Status checkData(const FrameHeader &header, const std::string &peer,
                        uint64_t sequence, uint64_t bytes) {
  if (header.magic != FrameHeader::expectedMagic ||
      header.kind != FrameKind::Data)
    return Status::machine(peer + " sent something else than this program's "
                                  "messages");
  if (header.sequence != sequence)
    return Status::machine(peer + " is at exchange " +
                           std::to_string(header.sequence) +
                           ", this process at " + std::to_string(sequence));
  if (header.bytes != bytes)
    return Status::machine(peer + " sent " + std::to_string(header.bytes) +
                           " bytes in exchange " + std::to_string(sequence) +
                           ", expected " + std::to_string(bytes));
  return {};
}

inline bool isAbort(const FrameHeader &header) {
  return header.magic == FrameHeader::expectedMagic &&
         header.kind == FrameKind::Abort && header.bytes <= mostAbortBytes;
}

/// The error that another process ends with, as told here.
inline Status abortOf(const FrameHeader &header, const std::string &peer,
                      std::string text) {
  bool known = header.code >= static_cast<uint32_t>(Code::Invalid) &&
               header.code <= static_cast<uint32_t>(Code::Stopped);
  return Status(known ? static_cast<Code>(header.code) : Code::Machine,
                header.sequence != 0 ? std::move(text)
                                     : peer + " failed: " + std::move(text));
}

/// The head of an abort and its text.
inline std::pair<FrameHeader, std::string> makeAbort(const Status &status,
                                                     bool ofAnother) {
  FrameHeader header;
  std::string text = status.str().substr(0, mostAbortBytes);
  header.kind = FrameKind::Abort;
  header.code = static_cast<uint32_t>(status.code());
  header.sequence = ofAnother ? 1 : 0;
  header.bytes = text.size();
  return {header, std::move(text)};
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_FRAME_H
