//===- Batches.cpp - Tokens and labels, from a file or at random ----------===//
#include "tools/oracle/Batches.h"
#include "dialect/Train/Train.h"
#include "runtime/base/Philox.h"
#include "runtime/base/Quote.h"
#include "tools/oracle/TensorFile.h"

#include <cmath>

using namespace ciuic;
using namespace ciuic::oracle;
using rt::Result;
using rt::Status;

/// The steps that a tensor of `shape` holds, 0 if it does not fit.
static int64_t stepsOf(llvm::ArrayRef<int64_t> shape,
                       const BatchGeometry &geometry) {
  int64_t microRows = geometry.ranks * geometry.batch;
  if (shape.size() < 2 || shape.size() > 4 || shape.back() != geometry.sequence)
    return 0;
  llvm::ArrayRef<int64_t> rows = shape.drop_back();
  if (rows.back() == geometry.rows() && rows.size() <= 2) // [steps,] rows
    return rows.size() == 2 ? rows[0] : 1;
  if (rows.size() < 2 || rows.back() != microRows ||
      rows[rows.size() - 2] != geometry.microSteps)
    return 0;
  return rows.size() == 3 ? rows[0] : 1;
}

static Result<std::vector<double>> readIds(const rt::SafeTensorsReader &file,
                                           const std::string &name,
                                           const BatchGeometry &geometry) {
  const rt::StoredTensor *tensor = file.find(name);
  if (!tensor)
    return Status::invalid(file.path() + ": has no tensor " + rt::quote(name));
  if (tensor->dtype != rt::DType::I32 && tensor->dtype != rt::DType::I64)
    return Status::invalid(file.path() + ": tensor " + rt::quote(name) +
                           " has type " + std::string(rt::name(tensor->dtype)) +
                           ", expected i32 or i64");
  if (stepsOf(tensor->shape, geometry) == 0)
    return Status::invalid(
        file.path() + ": tensor " + rt::quote(name) + " has shape " +
        rt::shapeString(tensor->shape) + ", expected [steps, " +
        std::to_string(geometry.microSteps) + " micro-steps, " +
        std::to_string(geometry.ranks) + " ranks * " +
        std::to_string(geometry.batch) + " sequences, " +
        std::to_string(geometry.sequence) + " tokens]");
  return readElements(file, *tensor);
}

Result<Batches> Batches::read(const std::string &path,
                              const std::string &labelsName,
                              const BatchGeometry &geometry) {
  CIUIC_TRY_ASSIGN(auto file, rt::SafeTensorsReader::open(path));
  Batches batches;
  batches.geometry = geometry;
  CIUIC_TRY_ASSIGN(batches.tokenData, readIds(file, "tokens", geometry));
  CIUIC_TRY_ASSIGN(batches.labelData, readIds(file, labelsName, geometry));
  if (batches.tokenData.size() != batches.labelData.size())
    return Status::invalid(
        path + ": has " + std::to_string(batches.tokenData.size()) +
        " tokens and " + std::to_string(batches.labelData.size()) +
        " labels, expected as many");
  batches.stepCount = stepsOf(file.find("tokens")->shape, geometry);
  return batches;
}

Batches Batches::random(uint64_t seed, int64_t vocabulary,
                        const BatchGeometry &geometry) {
  Batches batches;
  batches.geometry = geometry;
  batches.seed = seed;
  batches.vocabulary = vocabulary;
  return batches;
}

std::vector<double> Batches::row(int64_t index, bool labels) const {
  int64_t sequence = geometry.sequence;
  if (stepCount > 0) {
    auto begin = (labels ? labelData : tokenData).begin() + index * sequence;
    return {begin, begin + sequence};
  }
  // A row is a window of sequence + 1 random tokens.
  static constexpr uint64_t tokenStream = rt::hashName("tokens");
  static constexpr uint64_t maskStream = rt::hashName("labels");
  std::vector<double> ids;
  for (int64_t t = 0; t < sequence; ++t) {
    auto place = static_cast<uint64_t>(index * (sequence + 1) + t);
    bool masked = labels && rt::uniform01(seed, maskStream, place) < 0.125;
    double share = rt::uniform01(seed, tokenStream, place + (labels ? 1 : 0));
    ids.push_back(masked ? train::kIgnoredLabel
                         : std::floor(share * static_cast<double>(vocabulary)));
  }
  return ids;
}

RankValues Batches::deal(int64_t step, int64_t microStep, bool labels) const {
  RankValues values;
  for (int64_t rank = 0; rank < geometry.ranks; ++rank) {
    auto tensor = std::make_shared<Tensor>();
    tensor->element = Element::I32;
    tensor->shape = {geometry.batch, geometry.sequence};
    int64_t first =
        (stepCount > 0 ? step % stepCount : step) * geometry.rows() +
        (microStep * geometry.ranks + rank) * geometry.batch;
    for (int64_t i = 0; i < geometry.batch; ++i) {
      std::vector<double> ids = row(first + i, labels);
      tensor->data.insert(tensor->data.end(), ids.begin(), ids.end());
    }
    values.push_back(tensor);
  }
  return values;
}
