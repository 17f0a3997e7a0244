//===- Quote.h - Untrusted names in messages --------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_QUOTE_H
#define CIUIC_RUNTIME_BASE_QUOTE_H

#include <string>
#include <string_view>

namespace ciuic::rt {

/// `text` in double quotes for a message: control characters and quotes
/// escaped, everything past 120 bytes left out with "...".
inline std::string quote(std::string_view text) {
  constexpr size_t limit = 120;
  std::string quoted = "\"";
  for (char c : text.substr(0, limit)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      constexpr char digits[] = "0123456789abcdef";
      quoted += "\\x";
      quoted += digits[byte >> 4];
      quoted += digits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += c;
  }
  if (text.size() > limit)
    quoted += "...";
  return quoted + "\"";
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_QUOTE_H
