//===- TestFiles.h - Temporary folders and expected errors ------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_TESTFILES_H
#define CIUIC_TEST_RUNTIME_TESTFILES_H

#include "runtime/base/Status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <stdlib.h>

namespace ciuic::rt::test {

/// A fresh folder, removed with all that is in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "ciuic-test-XXXXXX").string();
    if (!mkdtemp(name.data()))
      ADD_FAILURE() << "cannot make a temporary folder at " << name;
    root = name;
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }

  std::string path(std::string_view name = "") const {
    return name.empty() ? root.string() : (root / name).string();
  }

  /// Writes a file, with the folders above it; returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    std::filesystem::path file = root / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

  /// The names in a folder of this one.
  std::set<std::string> names(std::string_view folder = "") const {
    std::set<std::string> result;
    for (const auto &entry : std::filesystem::directory_iterator(root / folder))
      result.insert(entry.path().filename().string());
    return result;
  }

private:
  std::filesystem::path root;
};

inline std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline Status statusOf(Status status) { return status; }
template <typename T> Status statusOf(Result<T> &&result) {
  return result.ok() ? Status() : result.takeStatus();
}
template <typename T> Status statusOf(Result<T> &result) {
  return statusOf(std::move(result));
}

} // namespace ciuic::rt::test

/// The Status or Result is a success.
#define EXPECT_OK(expr)                                                        \
  do {                                                                         \
    ::ciuic::rt::Status status_ = ::ciuic::rt::test::statusOf(expr);           \
    EXPECT_TRUE(status_.ok()) << status_.str();                                \
  } while (false)
#define ASSERT_OK(expr)                                                        \
  do {                                                                         \
    ::ciuic::rt::Status status_ = ::ciuic::rt::test::statusOf(expr);           \
    ASSERT_TRUE(status_.ok()) << status_.str();                                \
  } while (false)

/// Declares `var` from a Result that must be a success.
#define ASSERT_ASSIGN(var, expr)                                               \
  auto CIUIC_CONCAT(result_, __LINE__) = (expr);                               \
  ASSERT_TRUE(CIUIC_CONCAT(result_, __LINE__).ok())                            \
      << CIUIC_CONCAT(result_, __LINE__).takeStatus().str();                   \
  var = std::move(*CIUIC_CONCAT(result_, __LINE__))

/// The Status or Result is a failure by the user's fault whose message
/// contains `text`.
#define EXPECT_INVALID(expr, text)                                             \
  do {                                                                         \
    ::ciuic::rt::Status status_ = ::ciuic::rt::test::statusOf(expr);           \
    EXPECT_EQ(status_.code(), ::ciuic::rt::Code::Invalid) << status_.str();    \
    EXPECT_NE(status_.str().find(text), std::string::npos)                     \
        << "message: " << status_.str();                                       \
  } while (false)

#endif // CIUIC_TEST_RUNTIME_TESTFILES_H
