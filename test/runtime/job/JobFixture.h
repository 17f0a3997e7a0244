//===- JobFixture.h - A temporary folder with a text ------------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_JOB_JOBFIXTURE_H
#define CIUIC_TEST_RUNTIME_JOB_JOBFIXTURE_H

#include "runtime/base/File.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ciuic::rt::test {

/// A folder of its own for each test, removed at its end.
class JobFixture : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "ciuic-job-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += "the same words come again and again, " + std::to_string(i % 7);
    ASSERT_TRUE(writeTextFile(path("text.txt"), text).ok());
  }
  void TearDown() override { EXPECT_TRUE(removeFolder(folder).ok()); }

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

  std::string folder;
};

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_JOB_JOBFIXTURE_H
