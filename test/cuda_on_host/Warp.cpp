//===- Warp.cpp - What lanes of a warp give each other ----------*- C++ -*-===//
#include "test/cuda_on_host/Grid.h"
#include "test/cuda_on_host/include/cuda_bf16.h"
#include "test/cuda_on_host/include/cuda_fp16.h"

#include <cstring>

namespace ciuic::onhost {

namespace {

/// Operands of one lane in the product of a warp.
struct Product {
  float *d;
  const uint32_t *a;
  uint32_t b[2];
};

/// Where one lane points, and the registers it gets.
struct MatrixRow {
  const char *row;
  uint32_t *registers;
};

using Lanes = std::array<WarpWait *, kLanes>;

std::string shuffle(Lanes &lanes, Exchange kind) {
  std::array<uint64_t, kLanes> results = {};
  for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
    if (!lanes[lane])
      continue;
    const WarpWait &wait = *lanes[lane];
    int width = wait.width;
    if (width < 1 || width > 32 || (width & (width - 1)) != 0)
      return "a shuffle of width " + std::to_string(width);
    int first = lane / width * width;
    int source = lane;
    switch (kind) {
    case Exchange::Indexed:
      source = first + (wait.argument & (width - 1));
      break;
    case Exchange::Xor:
      source = lane ^ wait.argument;
      break;
    case Exchange::Up:
      source = lane - wait.argument;
      break;
    default:
      source = lane + wait.argument;
    }
    // Beyond the segment a lane keeps its own value; an xor may look back.
    if (source >= first + width || source < 0 ||
        (source < first && kind != Exchange::Xor))
      source = lane;
    if (!lanes[source])
      return "a shuffle reads lane " + std::to_string(source) +
             ", which takes no part,";
    results[lane] = lanes[source]->value;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (lanes[lane])
      lanes[lane]->value = results[lane];
  return "";
}

std::string loadMatrices(Lanes &lanes, bool transposed) {
  uint16_t matrices[4][8][8];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!lanes[lane])
      return "a load of matrices without lane " + std::to_string(lane);
    auto *mine = reinterpret_cast<MatrixRow *>(lanes[lane]->value);
    std::memcpy(matrices[lane / 8][lane % 8], mine->row, 16);
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    auto *mine = reinterpret_cast<MatrixRow *>(lanes[lane]->value);
    unsigned row = lane / 4, column = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m) {
      auto at = [&](unsigned r, unsigned c) -> uint32_t {
        return transposed ? matrices[m][c][r] : matrices[m][r][c];
      };
      mine->registers[m] = at(row, column) | at(row, column + 1) << 16;
    }
  }
  return "";
}

float half(uint32_t pair, unsigned which, bool bf16) {
  auto bits = static_cast<uint16_t>(pair >> (16 * which));
  return bf16 ? detail::floatOfBf16(bits) : detail::floatOfF16(bits);
}

std::string multiply(Lanes &lanes, bool bf16) {
  float a[16][16], b[16][8];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!lanes[lane])
      return "a product of a warp without lane " + std::to_string(lane);
    auto *mine = reinterpret_cast<Product *>(lanes[lane]->value);
    unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned e = 0; e < 2; ++e) {
      a[group][pair + e] = half(mine->a[0], e, bf16);
      a[group + 8][pair + e] = half(mine->a[1], e, bf16);
      a[group][pair + 8 + e] = half(mine->a[2], e, bf16);
      a[group + 8][pair + 8 + e] = half(mine->a[3], e, bf16);
      b[pair + e][group] = half(mine->b[0], e, bf16);
      b[pair + 8 + e][group] = half(mine->b[1], e, bf16);
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    auto *mine = reinterpret_cast<Product *>(lanes[lane]->value);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + (i / 2) * 8, column = lane % 4 * 2 + i % 2;
      float sum = 0;
      for (unsigned k = 0; k < 16; ++k)
        sum += a[row][k] * b[k][column];
      mine->d[i] += sum;
    }
  }
  return "";
}

} // namespace

std::string completeExchange(Lanes &lanes, Exchange kind) {
  switch (kind) {
  case Exchange::Indexed:
  case Exchange::Xor:
  case Exchange::Up:
  case Exchange::Down:
    return shuffle(lanes, kind);
  case Exchange::Ballot: {
    uint64_t votes = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (lanes[lane] && lanes[lane]->value)
        votes |= uint64_t(1) << lane;
    for (WarpWait *lane : lanes)
      if (lane)
        lane->value = votes;
    return "";
  }
  case Exchange::Sync:
    return "";
  case Exchange::LoadMatrix:
  case Exchange::LoadMatrixTransposed:
    return loadMatrices(lanes, kind == Exchange::LoadMatrixTransposed);
  case Exchange::ProductF16:
  case Exchange::ProductBf16:
    return multiply(lanes, kind == Exchange::ProductBf16);
  }
  return "an unknown exchange";
}

void ldmatrix4(uint32_t (&r)[4], const void *row, bool transposed) {
  Grid *grid = runningGrid();
  grid->access(reinterpret_cast<uintptr_t>(row), 16, /*isWrite=*/false);
  MatrixRow mine{static_cast<const char *>(row), r};
  grid->exchange(
      {transposed ? Exchange::LoadMatrixTransposed : Exchange::LoadMatrix, ~0u,
       reinterpret_cast<uint64_t>(&mine), 0, 32, "ldmatrix", transposed});
}

void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
              bool bf16) {
  Product mine{d, a, {b0, b1}};
  runningGrid()->exchange({bf16 ? Exchange::ProductBf16 : Exchange::ProductF16,
                           ~0u, reinterpret_cast<uint64_t>(&mine), 0, 32, "mma",
                           bf16});
}

void *dynamicShared() { return runningGrid()->dynamicShared(); }

void cpAsync16(void *shared, const void *global, bool valid) {
  runningGrid()->copyAsync(shared, global, valid);
}
void cpAsyncCommit() { runningGrid()->commitCopies(); }
void cpAsyncWait(int groupsLeft) {
  runningGrid()->waitCopies(static_cast<size_t>(groupsLeft));
}

//===----------------------------------------------------------------------===//
// Asynchronous copies: each lands when it is waited for, as late as it may.
//===----------------------------------------------------------------------===//

void Grid::copyAsync(void *to, const void *from, bool valid) {
  Outside outside(*this);
  auto address = reinterpret_cast<uintptr_t>(to);
  if (address % 16 != 0 || (valid && reinterpret_cast<uintptr_t>(from) % 16))
    fail("an asynchronous copy of 16 bytes that are not aligned to 16");
  switch (shared.probe(address, 16, moment())) {
  case SharedShadow::Verdict::NotShared:
  case SharedShadow::Verdict::Outside:
    fail("an asynchronous copy to what is not shared memory");
  case SharedShadow::Verdict::Race:
    // It may land at once.
    touch(address, 16, /*isWrite=*/true);
    break;
  default:
    break;
  }
  if (valid)
    touch(reinterpret_cast<uintptr_t>(from), 16, /*isWrite=*/false);
  running->copies.push_back(
      {static_cast<char *>(to),
       valid ? static_cast<const char *>(from) : nullptr});
}

void Grid::commitCopies() {
  Outside outside(*this);
  running->groups.push_back(running->copies.size());
}

void Grid::waitCopies(size_t groupsLeft) {
  Outside outside(*this);
  Fiber &fiber = *running;
  if (fiber.groups.size() <= groupsLeft)
    return;
  size_t closed = fiber.groups.size() - groupsLeft;
  size_t count = fiber.groups[closed - 1];
  for (size_t i = 0; i < count; ++i) {
    const AsyncCopy &copy = fiber.copies[i];
    touch(reinterpret_cast<uintptr_t>(copy.shared), 16, /*isWrite=*/true);
    if (copy.global)
      std::memcpy(copy.shared, copy.global, 16);
    else
      std::memset(copy.shared, 0, 16);
  }
  fiber.copies.erase(fiber.copies.begin(),
                     fiber.copies.begin() + static_cast<long>(count));
  fiber.groups.erase(fiber.groups.begin(),
                     fiber.groups.begin() + static_cast<long>(closed));
  for (size_t &end : fiber.groups)
    end -= count;
}

} // namespace ciuic::onhost
