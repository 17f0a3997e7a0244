//===- Print.cpp - The table of `ciuicc config` ---------------------------===//

#include "frontend/config/Config.h"

#include <fmt/format.h>

#include <algorithm>

using namespace ciuic::config;

/// Cut to `width` columns; a long value must not push the table apart.
static std::string fit(const std::string &text, size_t width) {
  if (text.size() <= width)
    return text;
  size_t end = width - 3; // Never cut a UTF-8 sequence in two.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

std::string ciuic::config::printResolved(const ResolvedConfig &config) {
  constexpr size_t widest = 44;
  size_t key = 3, value = 5, origin = 4;
  for (const ResolvedKey &row : config.keys) {
    key = std::max(key, std::min(row.key.size(), size_t(60)));
    value = std::max(value, std::min(row.value.size(), widest));
    origin = std::max(origin, std::min(row.origin.size(), widest));
  }
  std::string out;
  auto line = [&](const std::string &a, const std::string &b,
                  const std::string &c, const std::string &d) {
    out += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", fit(a, 60), key,
                       fit(b, widest), value, fit(c, widest), origin, d);
  };
  line("key", "value", "from", "what it does");
  for (const ResolvedKey &row : config.keys)
    line(row.key, row.value, row.origin,
         row.acted ? row.what : "[not acted on] " + row.what);
  for (const std::string &warning : config.warnings)
    out += fmt::format("warning: {}\n", warning);
  for (const std::string &note : config.notes)
    out += fmt::format("note: {}\n", note);
  return out;
}
