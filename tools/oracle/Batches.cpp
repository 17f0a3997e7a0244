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

Batches Batches::random(uint64_t seed, int64_t vocabulary, int64_t steps,
                        const BatchGeometry &geometry) {
  Batches batches;
  batches.geometry = geometry;
  batches.stepCount = steps;
  uint64_t tokenStream = rt::hashName("tokens");
  uint64_t maskStream = rt::hashName("labels");
  auto tokenAt = [&](uint64_t position) {
    return std::floor(rt::uniform01(seed, tokenStream, position) *
                      static_cast<double>(vocabulary));
  };
  for (int64_t row = 0; row < steps * geometry.rows(); ++row)
    for (int64_t t = 0; t < geometry.sequence; ++t) {
      // A row is a window of sequence + 1 tokens.
      auto position = static_cast<uint64_t>(row * (geometry.sequence + 1) + t);
      batches.tokenData.push_back(tokenAt(position));
      bool masked = rt::uniform01(seed, maskStream, position) < 0.125;
      batches.labelData.push_back(masked ? train::kIgnoredLabel
                                         : tokenAt(position + 1));
    }
  return batches;
}

RankValues Batches::slice(const std::vector<double> &data, int64_t step,
                          int64_t microStep) const {
  RankValues values;
  for (int64_t rank = 0; rank < geometry.ranks; ++rank) {
    auto tensor = std::make_shared<Tensor>();
    tensor->element = Element::I32;
    tensor->shape = {geometry.batch, geometry.sequence};
    int64_t row = step % stepCount * geometry.rows() +
                  (microStep * geometry.ranks + rank) * geometry.batch;
    auto begin = data.begin() + row * geometry.sequence;
    tensor->data.assign(begin, begin + geometry.batch * geometry.sequence);
    values.push_back(tensor);
  }
  return values;
}
