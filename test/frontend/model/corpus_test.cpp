//===- corpus_test.cpp - Real configurations ------------------------------===//
//
// Files of the corpus are read where they are present and skipped where not.
//
//===----------------------------------------------------------------------===//
#include "TinyConfig.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace ciuic;
using namespace ciuic::model;
namespace fs = std::filesystem;

namespace {

const fs::path kCorpus = CIUIC_CORPUS_DIR;

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string &line) {
  std::vector<std::string> cells;
  std::string cell;
  for (char c : line + "\t") {
    if (c != '\t') {
      cell += c;
      continue;
    }
    cells.push_back(cell);
    cell.clear();
  }
  return cells;
}

/// Rows of a tab-separated file, by the names of its first line.
std::vector<Row> readTable(const fs::path &path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  std::vector<std::string> names = split(line);
  std::vector<Row> rows;
  while (std::getline(stream, line)) {
    std::vector<std::string> cells = split(line);
    Row row;
    for (size_t i = 0; i < names.size(); ++i)
      row[names[i]] = i < cells.size() ? cells[i] : "";
    rows.push_back(std::move(row));
  }
  return rows;
}

bool isSupported(const std::string &type) {
  return type == "llama" || type == "mistral" || type == "qwen2";
}

// Parameter counts are exact for each well-known dense model.
TEST(Corpus, CountsOfWellKnownModels) {
  if (!fs::exists(kCorpus / "models.tsv"))
    GTEST_SKIP() << "no models.tsv in " << kCorpus;
  int checked = 0;
  for (Row &row : readTable(kCorpus / "models.tsv")) {
    if (!isSupported(row["model_type"]))
      continue;
    nlohmann::json json = {{"model_type", row["model_type"]}};
    for (const char *key : {"hidden_size", "intermediate_size",
                            "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "head_dim", "vocab_size"})
      if (!row[key].empty())
        json[key] = std::stoll(row[key]);
    json["tie_word_embeddings"] = row["tie_word_embeddings"] == "True";
    rt::Result<ModelConfig> config = parse(json);
    ASSERT_TRUE(config.ok()) << row["model"] << config.takeStatus().str();
    EXPECT_EQ(parameterCount(*config), std::stoll(row["exact_params_computed"]))
        << row["model"];
    ++checked;
  }
  EXPECT_GE(checked, 11);
}

// Files found in repositories are read, with the count that their index
// gives, or refused with a message that names the field.
TEST(Corpus, FoundConfigurations) {
  fs::path folder = kCorpus / "hf_config";
  if (!fs::exists(folder / "INDEX.tsv"))
    GTEST_SKIP() << "no hf_config in " << kCorpus;
  std::map<std::string, Row> index;
  for (Row &row : readTable(folder / "INDEX.tsv"))
    index[row["file"]] = row;

  // Why a supported type is refused all the same.
  const std::map<std::string, std::string> refused = {
      {"nnscaler__llama3_8b_longrope2_config.json", "rope_scaling.type: found "
                                                    "\"longrope\""},
  };
  int read = 0, files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json")
      continue;
    ++files;
    std::string name = entry.path().filename();
    Row &row = index[name];
    rt::Result<ModelConfig> config = readModelConfig(entry.path());
    if (config.ok()) {
      ++read;
      EXPECT_TRUE(isSupported(row["model_type"])) << name;
      if (!row["parameters_by_formula"].empty())
        EXPECT_EQ(parameterCount(*config),
                  std::stoll(row["parameters_by_formula"]))
            << name;
      continue;
    }
    std::string message = config.takeStatus().str();
    EXPECT_NE(message.find(name), std::string::npos) << message;
    if (!isSupported(row["model_type"]))
      continue;
    // Abridged files name their sizes otherwise: nothing is guessed.
    std::string reason = row["note"].find("abridged") != std::string::npos
                             ? "hidden_size: found nothing"
                         : refused.count(name) ? refused.at(name)
                                               : "no reason to refuse it";
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }
  EXPECT_GE(files, 76);
  EXPECT_GE(read, 17);
}

} // namespace
