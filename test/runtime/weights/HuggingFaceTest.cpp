//===- HuggingFaceTest.cpp ------------------------------------------------===//
#include "runtime/weights/HuggingFace.h"
#include "runtime/base/Json.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <vector>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace fs = std::filesystem;

namespace {

/// A tensor whose element i is `first` + i.
TensorSource rampSource(std::string name, std::vector<int64_t> shape,
                        DType dtype, float first) {
  TensorSource source;
  source.name = std::move(name);
  source.shape = std::move(shape);
  source.dtype = dtype;
  source.fill = [first](uint64_t begin, uint64_t end, void *out) -> Status {
    for (uint64_t i = begin; i < end; ++i)
      static_cast<float *>(out)[i - begin] = first + static_cast<float>(i);
    return {};
  };
  return source;
}

std::vector<TensorSource> model(DType dtype = DType::F32) {
  return {rampSource("model.embed_tokens.weight", {4, 2}, dtype, 0),
          rampSource("model.norm.weight", {2}, dtype, 10),
          rampSource("lm_head.weight", {4, 2}, dtype, 20)};
}

constexpr const char *config =
    R"({"model_type": "llama", "torch_dtype": "float32", "hidden_size": 2})";

/// Reads a whole tensor as f32.
std::vector<float> read(const HuggingFaceFolder &folder,
                        const std::string &name) {
  const StoredTensor *tensor = folder.find(name);
  std::vector<float> out(tensor ? tensor->elements : 0);
  EXPECT_OK(folder.read(name, 0, out.size(), DType::F32, out.data()));
  return out;
}

} // namespace

// One file, no index; the configuration keeps its keys and their order, and
// tells the dtype.
TEST(HuggingFace, ExportsSingleFile) {
  TemporaryFolder folder;
  std::string out = folder.path("deep/out/");
  ASSERT_OK(exportHuggingFace(out, config, model(DType::BF16)));
  EXPECT_EQ(folder.names("deep"), std::set<std::string>{"out"});
  EXPECT_EQ(folder.names("deep/out"),
            (std::set<std::string>{"config.json", "model.safetensors"}));
  ASSERT_ASSIGN(OrderedJson json,
                parseOrderedJson(readFile(out + "config.json"), "config"));
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_EQ(json["hidden_size"], 2);
  EXPECT_EQ(json.begin().key(), "model_type");
  EXPECT_FALSE(json.contains("dtype"));

  ASSERT_ASSIGN(HuggingFaceFolder model, HuggingFaceFolder::open(out));
  EXPECT_EQ(model.names(), (std::vector<std::string>{
                               "lm_head.weight", "model.embed_tokens.weight",
                               "model.norm.weight"}));
  EXPECT_EQ(read(model, "model.norm.weight"), (std::vector<float>{10, 11}));
  // transformers refuses files without this entry.
  ASSERT_ASSIGN(SafeTensorsReader file,
                SafeTensorsReader::open(out + "model.safetensors"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

// Over the limit: shards, and an index that says where each tensor is.
TEST(HuggingFace, ExportsShards) {
  TemporaryFolder folder;
  std::string out = folder.path("out");
  ASSERT_OK(exportHuggingFace(out, config, model(), /*maxShardBytes=*/40));
  EXPECT_EQ(
      folder.names("out"),
      (std::set<std::string>{"config.json", "model-00001-of-00002.safetensors",
                             "model-00002-of-00002.safetensors",
                             "model.safetensors.index.json"}));
  ASSERT_ASSIGN(
      Json index,
      parseJson(readFile(out + "/model.safetensors.index.json"), "index"));
  EXPECT_EQ(index["metadata"]["total_size"], 72);
  EXPECT_EQ(index["weight_map"]["lm_head.weight"],
            "model-00002-of-00002.safetensors");
  ASSERT_ASSIGN(HuggingFaceFolder model, HuggingFaceFolder::open(out));
  EXPECT_EQ(read(model, "lm_head.weight").front(), 20);
  EXPECT_EQ(read(model, "model.embed_tokens.weight").back(), 7);
  std::vector<float> slice(2);
  ASSERT_OK(model.read("lm_head.weight", 3, 5, DType::F32, slice.data()));
  EXPECT_EQ(slice, (std::vector<float>{23, 24}));
}

// A second export replaces the weights of the first, in either form, and
// keeps what else is in the folder.
TEST(HuggingFace, ExportReplacesWeights) {
  TemporaryFolder folder;
  std::string out = folder.path("out");
  folder.write("out/tokenizer.json", "{}");
  ASSERT_OK(exportHuggingFace(out, config, model(), /*maxShardBytes=*/40));
  ASSERT_OK(exportHuggingFace(out, config, model()));
  EXPECT_EQ(folder.names("out"),
            (std::set<std::string>{"config.json", "model.safetensors",
                                   "tokenizer.json"}));
  ASSERT_OK(exportHuggingFace(out, config, model(), /*maxShardBytes=*/40));
  EXPECT_EQ(folder.names("out").size(), 5u);
  EXPECT_FALSE(folder.names("out").contains("model.safetensors"));
  EXPECT_EQ(folder.names(), std::set<std::string>{"out"});
}

// A failure in the middle leaves the earlier export and nothing else.
TEST(HuggingFace, FailedExportLeavesTheOldOne) {
  TemporaryFolder folder;
  std::string out = folder.path("out");
  ASSERT_OK(exportHuggingFace(out, config, model()));
  std::string before = readFile(out + "/model.safetensors");
  std::vector<TensorSource> broken = model();
  broken[2].fill = [](uint64_t, uint64_t, void *) {
    return Status::machine("device 3 is lost");
  };
  Status status = exportHuggingFace(out, config, broken, 40);
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("device 3 is lost"), std::string::npos);
  EXPECT_NE(status.str().find("\"lm_head.weight\""), std::string::npos);
  EXPECT_EQ(readFile(out + "/model.safetensors"), before);
  EXPECT_EQ(folder.names(), std::set<std::string>{"out"});
}

// What cannot be exported is refused before anything is written.
TEST(HuggingFace, ExportRefuses) {
  TemporaryFolder folder;
  std::string out = folder.path("out");
  EXPECT_INVALID(exportHuggingFace(out, "{", model()), "config.json");
  EXPECT_INVALID(exportHuggingFace(out, "[]", model()), "not a JSON object");
  EXPECT_INVALID(exportHuggingFace(out, config, {}), "no tensors");
  EXPECT_INVALID(exportHuggingFace(out, config, model(DType::I32)),
                 "exported as i32");
  std::string file = folder.write("file", "x");
  EXPECT_INVALID(exportHuggingFace(file, config, model()), "not a folder");
  EXPECT_EQ(folder.names(), std::set<std::string>{"file"});
}

// Newer files name the dtype "dtype": both are kept in step.
TEST(HuggingFace, ExportSetsBothDtypeKeys) {
  TemporaryFolder folder;
  ASSERT_OK(exportHuggingFace(folder.path("out"), R"({"dtype": "bfloat16"})",
                              model(DType::F16)));
  ASSERT_ASSIGN(Json json,
                parseJson(readFile(folder.path("out/config.json")), "config"));
  EXPECT_EQ(json["dtype"], "float16");
  EXPECT_EQ(json["torch_dtype"], "float16");
}

// The hub's cache holds links to files elsewhere: those are followed.
TEST(HuggingFace, OpensLinkedShards) {
  TemporaryFolder folder;
  ASSERT_OK(exportHuggingFace(folder.path("blobs"), config, model(), 40));
  fs::create_directory(folder.path("snapshot"));
  for (const std::string &name : folder.names("blobs"))
    fs::create_symlink(folder.path("blobs/" + name),
                       folder.path("snapshot/" + name));
  ASSERT_ASSIGN(HuggingFaceFolder model,
                HuggingFaceFolder::open(folder.path("snapshot")));
  EXPECT_EQ(model.names().size(), 3u);
}

// An index may not name files outside its folder.
TEST(HuggingFace, IndexCannotEscape) {
  TemporaryFolder folder;
  ASSERT_OK(exportHuggingFace(folder.path("other"), config, model()));
  std::string outside = folder.path("other/model.safetensors");
  fs::create_directory(folder.path("model"));
  for (std::string name :
       {std::string("../other/model.safetensors"), outside, std::string(".."),
        std::string(""), std::string("sub/x.safetensors")}) {
    folder.write("model/model.safetensors.index.json",
                 "{\"weight_map\":{\"lm_head.weight\":\"" + name + "\"}}");
    EXPECT_INVALID(HuggingFaceFolder::open(folder.path("model")),
                   "is not mapped to the name of a file in this folder");
  }
}

// Indices that are broken in other ways.
TEST(HuggingFace, BrokenIndex) {
  TemporaryFolder folder;
  ASSERT_OK(exportHuggingFace(folder.path("model"), config, model(), 40));
  auto open = [&](std::string_view index) {
    folder.write("model/model.safetensors.index.json", index);
    return HuggingFaceFolder::open(folder.path("model"));
  };
  EXPECT_INVALID(open("[]"), "no object \"weight_map\"");
  EXPECT_INVALID(open(R"({"weight_map": 1})"), "no object \"weight_map\"");
  EXPECT_INVALID(open(R"({"weight_map": {"a": 1}})"), "is not mapped");
  EXPECT_INVALID(open(R"({"weight_map": {"a": "none.safetensors"}})"),
                 "none.safetensors: cannot open");
  EXPECT_INVALID(
      open(R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})"),
      "tensor \"a\" is not in");
}

// Folders without weights and tensors that are not as the model says.
TEST(HuggingFace, WhatIsMissing) {
  TemporaryFolder folder;
  EXPECT_INVALID(HuggingFaceFolder::open(folder.path()), "holds neither");
  EXPECT_INVALID(HuggingFaceFolder::open(folder.path("none")), "cannot open");
  ASSERT_OK(exportHuggingFace(folder.path("out"), config, model()));
  ASSERT_ASSIGN(HuggingFaceFolder model,
                HuggingFaceFolder::open(folder.path("out/model.safetensors")));
  std::vector<int64_t> shape = {4, 2}, other = {2, 4};
  EXPECT_OK(model.expect("lm_head.weight", shape));
  EXPECT_INVALID(model.expect("lm_head.weight", other),
                 "has shape [4, 2], expected [2, 4]");
  EXPECT_INVALID(model.expect("lm_head.bias", shape), "has no tensor");
  float value;
  EXPECT_INVALID(model.read("none", 0, 1, DType::F32, &value),
                 "has no tensor \"none\"");
}
