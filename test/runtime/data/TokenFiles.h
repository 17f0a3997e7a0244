//===- TokenFiles.h - Token files made by hand ------------------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_DATA_TOKENFILES_H
#define CIUIC_TEST_RUNTIME_DATA_TOKENFILES_H

#include <cstdint>
#include <string>
#include <vector>

namespace ciuic::rt::test {

/// The bytes of a token file, written down from the format's description.
inline std::string tokenFileText(const std::vector<uint32_t> &tokens,
                                 uint64_t vocabulary, uint32_t width) {
  std::string text = "CIUICTOK";
  auto append = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      text += static_cast<char>(value >> (8 * i));
  };
  append(1, 4);
  append(width, 4);
  append(vocabulary, 8);
  append(tokens.size(), 8);
  text.append(32, '\0');
  for (uint32_t token : tokens)
    append(token, static_cast<int>(width));
  return text;
}

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_DATA_TOKENFILES_H
