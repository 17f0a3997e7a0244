//===- Resolve.h - Short ways to resolve a text in a test -------*- C++ -*-===//
#ifndef CIUIC_TEST_FRONTEND_CONFIG_RESOLVE_H
#define CIUIC_TEST_FRONTEND_CONFIG_RESOLVE_H

#include "frontend/config/Config.h"

#include <gtest/gtest.h>

#include <string>

namespace ciuic::config {

inline Overrides devices(int64_t count) {
  Overrides overrides;
  overrides.devices = count;
  return overrides;
}

/// The settings that `text` resolves to; a failed expectation if it does not.
inline ResolvedConfig accepted(const std::string &text,
                               const Overrides &overrides = {}) {
  rt::Result<ResolvedConfig> result = resolveText(text, "ds.json", overrides);
  if (result.ok())
    return std::move(*result);
  ADD_FAILURE() << text << "\nis refused: " << result.takeStatus().str();
  return {};
}

/// Why `text` is refused; a failed expectation if it is not.
inline std::string refused(const std::string &text,
                           const Overrides &overrides = {},
                           bool strict = false) {
  rt::Result<ResolvedConfig> result =
      resolveText(text, "ds.json", overrides, strict);
  if (!result.ok()) {
    rt::Status status = result.takeStatus();
    EXPECT_EQ(status.exitCode(), 1);
    return status.str();
  }
  ADD_FAILURE() << text << "\nis accepted";
  return "";
}

/// A file with a batch of one and `members` besides.
inline std::string job(const std::string &members) {
  return "{\"train_batch_size\": 8, " + members + "}";
}

/// True if `text` occurs in `message`; prints the message if not.
inline testing::AssertionResult has(const std::string &message,
                                    const std::string &text) {
  if (message.find(text) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" is not in:\n"
                                     << message;
}

/// The row called `key`; an empty one and a failed expectation if none.
inline ResolvedKey row(const ResolvedConfig &config, const std::string &key) {
  for (const ResolvedKey &row : config.keys)
    if (row.key == key)
      return row;
  ADD_FAILURE() << "no row for " << key;
  return {};
}

/// All messages of a list, one a line.
inline std::string lines(const std::vector<std::string> &messages) {
  std::string out;
  for (const std::string &message : messages)
    out += message + "\n";
  return out;
}

} // namespace ciuic::config

#endif // CIUIC_TEST_FRONTEND_CONFIG_RESOLVE_H
