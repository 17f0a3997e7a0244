//===- corpus_test.cpp - Files as people wrote them -----------------------===//
//
// Resolves every configuration of the corpus and compares with what DeepSpeed
// 0.19.6 would do according to the corpus's index. Where we differ on
// purpose, a table says why.
//
//===----------------------------------------------------------------------===//

#include "test/frontend/config/Resolve.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace ciuic;
using namespace ciuic::config;

namespace {

const std::string folder = std::string(CIUIC_CORPUS_DIR) + "/ds_config/";

/// What the index says of one file.
struct Verdict {
  bool accepted = false;
  int64_t world = 1;
};

std::map<std::string, Verdict> readIndex() {
  std::map<std::string, Verdict> verdicts;
  std::ifstream index(folder + "INDEX.tsv");
  std::string line;
  std::getline(index, line); // The names of the columns.
  while (std::getline(index, line)) {
    std::string name = line.substr(0, line.find('\t'));
    std::string text = line.substr(line.rfind('\t') + 1);
    Verdict verdict;
    verdict.accepted =
        text.rfind("accept", 0) == 0 || text.rfind("needs auto fill", 0) == 0;
    const std::string world = "world must be ";
    if (size_t at = text.find(world); at != std::string::npos)
      verdict.world = std::stoll(text.substr(at + world.size()));
    verdicts[name] = verdict;
  }
  return verdicts;
}

/// Files that DeepSpeed takes and we refuse, by a part of the name. Each asks
/// for an update rule that this compiler does not have.
struct Difference {
  const char *file;
  const char *reason;
};

const Difference differences[] = {
    {"1-bit_adam", "one-bit compressed communication"},
    {"onebitadam", "one-bit compressed communication"},
    {"onebitlamb", "one-bit compressed communication"},
    {"01adam", "one-bit compressed communication"},
    {"_lamb_config", "layer-wise trust ratios"},
};

/// The difference that covers `name`, or null.
const Difference *findDifference(const std::string &name) {
  for (const Difference &difference : differences)
    if (name.find(difference.file) != std::string::npos)
      return &difference;
  return nullptr;
}

/// What a trainer would know beside the file.
Overrides job(int64_t world) {
  Overrides overrides = devices(world);
  overrides.hiddenSize = 4096;
  return overrides;
}

// Each file is accepted or refused as the index says, or as the table says.
TEST(Corpus, EveryFileResolvesAsItsVerdictSays) {
  if (!std::filesystem::exists(folder + "INDEX.tsv"))
    GTEST_SKIP() << "no corpus at " << folder;
  size_t seen = 0;
  for (const auto &[name, verdict] : readIndex()) {
    if (name.rfind("not_json/", 0) == 0)
      continue;
    SCOPED_TRACE(name);
    ++seen;
    auto result = resolve(folder + name, job(verdict.world));
    const Difference *difference = findDifference(name);
    if (verdict.accepted && !difference) {
      EXPECT_TRUE(result.ok()) << result.takeStatus().str();
      continue;
    }
    EXPECT_FALSE(result.ok()) << "accepted, the index says refused";
    if (result.ok())
      continue;
    std::string message = result.takeStatus().str();
    if (difference)
      EXPECT_TRUE(has(message, "which is not supported yet"))
          << difference->reason;
    // Wherever it fails, the message begins with file, line and column.
    EXPECT_TRUE(has(message, name + ":"));
  }
  EXPECT_GE(seen, 180u);
}

// Templates with placeholders are refused, with the place of one.
TEST(Corpus, TemplatesAreRefusedWithAPosition) {
  if (!std::filesystem::exists(folder + "not_json"))
    GTEST_SKIP() << "no corpus at " << folder;
  size_t seen = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(folder + "not_json")) {
    SCOPED_TRACE(entry.path().filename());
    ++seen;
    auto result = resolve(entry.path(), job(1));
    ASSERT_FALSE(result.ok());
    std::string message = result.takeStatus().str();
    std::string rest = message.substr(entry.path().string().size());
    unsigned line = 0, column = 0;
    EXPECT_EQ(std::sscanf(rest.c_str(), ":%u:%u: ", &line, &column), 2)
        << message;
  }
  EXPECT_GE(seen, 7u);
}

} // namespace
