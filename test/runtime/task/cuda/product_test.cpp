//===- product_test.cpp - Matrix products with cuBLASLt -------------------===//
#include "runtime/base/HalfFloat.h"
#include "runtime/blas/cublaslt/ProductChoices.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <cstring>

namespace ciuic::rt::test {
namespace {

using abi::DType;
using abi::TaskKind;

/// A product of small whole numbers, exact in every type, with rows that are
/// longer than needed.
struct Product {
  int64_t m = 5, n = 7, k = 9;
  bool transposeA = false, transposeB = false;
  bool accumulate = false, bias = false;
  DType in = DType::F32, out = DType::F32;
  int64_t gap = 3; ///< Elements between rows.
};

std::string describe(const Product &p) {
  return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
         std::to_string(p.k) + (p.transposeA ? " A^T" : "") +
         (p.transposeB ? " B^T" : "") + (p.accumulate ? " +=" : "") +
         (p.bias ? " bias" : "") + " in " +
         std::to_string(static_cast<int>(p.in)) + " out " +
         std::to_string(static_cast<int>(p.out));
}

/// The bytes of whole numbers in a type.
std::vector<uint8_t> encode(const std::vector<float> &values, DType dtype) {
  std::vector<uint8_t> bytes;
  for (float value : values) {
    uint16_t half =
        dtype == DType::F16 ? f16FromFloat(value) : bf16FromFloat(value);
    const void *from =
        dtype == DType::F32 ? static_cast<const void *>(&value) : &half;
    const auto *begin = static_cast<const uint8_t *>(from);
    bytes.insert(bytes.end(), begin, begin + byteSize(dtype));
  }
  return bytes;
}

float decode(const std::vector<uint8_t> &bytes, size_t i, DType dtype) {
  if (dtype == DType::F32) {
    float value;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes.data() + i * 2, 2);
  return dtype == DType::F16 ? floatFromF16(half) : floatFromBf16(half);
}

/// A program "p" of one product and what it should give.
class ProductJob {
public:
  explicit ProductJob(const Product &product) : test(1), product(product) {
    const Product &p = product;
    a = matrix("a", p.transposeA ? p.k : p.m, p.transposeA ? p.m : p.k, p.in);
    b = matrix("b", p.transposeB ? p.n : p.k, p.transposeB ? p.k : p.n, p.in);
    c = matrix("c", p.m, p.n, p.out);
    bias = test.view("bias", 1, p.n, p.out, 1);
    scratch = test.view("scratch", 1, 1 << 16, DType::F32, 1);
    auto &program = test.program("p");
    program.views.push_back(scratch);
    std::vector<abi::View> views = {a, b, c};
    if (p.bias)
      views.push_back(bias);
    add(program, "product", TaskKind::Gemm, views,
        {.ints = {p.transposeA, p.transposeB, p.accumulate}, .scratchView = 0});
  }

  /// Fills, runs once and compares all of C, gaps included.
  void run(Gpus &gpus) {
    fill(gpus, a, 3);
    fill(gpus, b, 5);
    fill(gpus, c, 11);
    fill(gpus, bias, 7);
    ASSERT_TRUE(gpus.machine->run("p").ok());
    abi::View all = whole(c);
    std::vector<uint8_t> bytes(static_cast<size_t>(all.shape[1]) *
                               byteSize(c.dtype));
    Status status = gpus.machine->read(
        all, 0, 0, static_cast<uint64_t>(all.shape[1]), bytes.data());
    ASSERT_TRUE(status.ok()) << status.str();
    for (int64_t i = 0; i < all.shape[1]; ++i) {
      int64_t row = i / c.strides[0], column = i % c.strides[0];
      float expected = value(11, i);
      if (column < product.n)
        expected = at(row, column);
      ASSERT_EQ(decode(bytes, static_cast<size_t>(i), c.dtype), expected)
          << "row " << row << ", column " << column;
    }
  }

  TestBundle test;

private:
  static float value(int64_t salt, int64_t i) {
    return static_cast<float>((i * salt + salt) % 5 - 2);
  }

  abi::View matrix(const char *name, int64_t rows, int64_t columns,
                   DType dtype) {
    abi::View view = test.view(name, rows, columns + product.gap, dtype);
    view.shape[1] = columns;
    return view;
  }

  static abi::View whole(abi::View view) {
    view.rank = 1;
    view.shape[1] = view.shape[0] * view.strides[0];
    view.shape[0] = 1;
    view.strides[0] = view.shape[1];
    return view;
  }

  void fill(Gpus &gpus, const abi::View &view, int64_t salt) {
    abi::View all = whole(view);
    std::vector<float> values;
    for (int64_t i = 0; i < all.shape[1]; ++i)
      values.push_back(value(salt, i));
    std::vector<uint8_t> bytes = encode(values, view.dtype);
    Status status = gpus.machine->write(all, 0, 0, values.size(), bytes.data());
    ASSERT_TRUE(status.ok()) << status.str();
  }

  float at(int64_t row, int64_t column) const {
    float sum = product.accumulate ? value(11, row * c.strides[0] + column) : 0;
    if (product.bias)
      sum += value(7, column);
    for (int64_t k = 0; k < product.k; ++k)
      sum += value(3, product.transposeA ? k * a.strides[0] + row
                                         : row * a.strides[0] + k) *
             value(5, product.transposeB ? column * b.strides[0] + k
                                         : k * b.strides[0] + column);
    return sum;
  }

  const Product product;
  abi::View a, b, c, bias, scratch;
};

void check(const Product &product, MachineOptions options = {}) {
  SCOPED_TRACE(describe(product));
  ProductJob job(product);
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(job.test, options, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  job.run(gpus);
}

// All four transpositions, with and without a bias and what was there before,
// in every pair of types; rows lie apart, and nothing between them is touched.
TEST(ProductTest, RowMajorProducts) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (bool accumulate : {false, true})
        for (bool bias : {false, true})
          for (auto [in, out] : {std::pair(DType::F32, DType::F32),
                                 std::pair(DType::BF16, DType::BF16),
                                 std::pair(DType::F16, DType::F16),
                                 std::pair(DType::BF16, DType::F32)})
            check({5, 7, 9, transposeA, transposeB, accumulate, bias, in, out});
}

// Odd sizes: single rows and columns, a single term, no gaps.
TEST(ProductTest, OddSizes) {
  check({1, 1, 1, false, false, false, false});
  check({1, 33, 31, false, true, true, false});
  check({33, 1, 2, true, false, false, true});
  check({31, 33, 1, false, true, false, false, DType::BF16, DType::BF16, 0});
  check({64, 48, 80, false, true, false, false, DType::F16, DType::F16, 0});
}

// What is no product is refused when the program is prepared.
TEST(ProductTest, RefusesOtherShapes) {
  auto refused = [](auto change) {
    ProductJob job({});
    auto &program = job.test.programTables[0];
    change(program.tasks[0], program.views);
    onhost::Settings settings = devicesOf(1, 1);
    Gpus gpus(job.test, {}, &settings);
    EXPECT_EQ(gpus.status.code(), Code::Invalid) << gpus.status.str();
    EXPECT_NE(gpus.status.str().find("task \"product\""), std::string::npos);
  };
  refused([](abi::Task &, auto &views) { views[1].shape[1] = 8; });
  refused([](abi::Task &, auto &views) { views[2].dtype = DType::BF16; });
  refused([](abi::Task &, auto &views) { views[3].shape[0] = 4; });
  refused([](abi::Task &task, auto &) { task.views.end -= 1; });
  refused([](abi::Task &task, auto &) { task.ints.end -= 1; });
}

//===----------------------------------------------------------------------===//
// How products are done
//===----------------------------------------------------------------------===//

// Tuning writes what it found into the bundle; a later machine reads it and
// neither times products nor changes the file.
TEST(ProductChoicesTest, AreTunedOnce) {
  TemporaryFolder folder;
  MachineOptions options;
  options.folder = folder.path();
  options.cuda.tune = true;
  Product product{5, 7, 9, false, true, false, true, DType::BF16, DType::BF16};
  check(product, options);
  std::string path = folder.path("tuning/gemm.json");
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\"algorithm\""), std::string::npos);
  EXPECT_NE(text.find("\"transpose_b\": true"), std::string::npos);
  uint64_t tuned = onhost::calls("cublasLtMatmul");
  check(product, options);
  EXPECT_LT(onhost::calls("cublasLtMatmul"), tuned);
  std::ifstream again(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), text);
}

// A choice that the library does not offer is not used.
TEST(ProductChoicesTest, OnlyWhatTheLibraryOffersIsUsed) {
  TemporaryFolder folder;
  MachineOptions options;
  options.folder = folder.path();
  options.cuda.tune = true;
  check({}, options);
  std::string path = folder.path("tuning/gemm.json");
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  size_t at = text.find("\"algorithm\": \"") + 14;
  text.replace(at, 128, std::string(128, 'f'));
  folder.write("tuning/gemm.json", text);
  options.cuda.tune = false;
  check({}, options);
}

// The memory in which products were timed is zero again.
TEST(ProductChoicesTest, TuningLeavesMemoryZero) {
  ProductJob job({});
  job.test.states.push_back({"state",
                             abi::Role::Scalar,
                             "",
                             job.test.scalar("state"),
                             -1,
                             false,
                             {}});
  abi::View state = job.test.states[0].view;
  MachineOptions options;
  options.cuda.tune = true;
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(job.test, options, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  EXPECT_EQ(gpus.read(state, 0), std::vector<float>{0});
}

// A file that tuning did not write is refused with its path and what is wrong.
TEST(ProductChoicesTest, RefusesBrokenFiles) {
  TemporaryFolder folder;
  auto refused = [&](const std::string &text, const char *says) {
    std::string path = folder.write("tuning/gemm.json", text);
    ProductJob job({});
    MachineOptions options;
    options.folder = folder.path();
    onhost::Settings settings = devicesOf(1, 1);
    Gpus gpus(job.test, options, &settings);
    EXPECT_EQ(gpus.status.code(), Code::Invalid) << gpus.status.str();
    EXPECT_NE(gpus.status.str().find("gemm.json"), std::string::npos);
    EXPECT_NE(gpus.status.str().find(says), std::string::npos)
        << gpus.status.str();
  };
  refused("", "");
  refused("[]", "no object");
  refused("{\"version\": 2, \"products\": []}", "version 2");
  refused("{\"version\": 1}", "products");
  refused("{\"version\": 1, \"products\": [7]}", "products[0]");
  refused("{\"version\": 1, \"products\": [{\"device\": \"x\"}]}", "cublaslt");
  refused(
      "{\"version\": 1, \"products\": [{\"device\": \"x\", \"cublaslt\": 1, "
      "\"m\": -1}]}",
      "\"m\" is -1");
  refused(
      "{\"version\": 1, \"products\": [{\"device\": \"x\", \"cublaslt\": 1, "
      "\"m\": 18446744073709551615}]}",
      "too large");
}

// Each part of a key tells products apart, and what is written is read again.
TEST(ProductChoicesTest, KeysTellProductsApart) {
  ProductKey key;
  key.m = 3;
  key.n = 4;
  key.k = 5;
  key.lda = key.ldb = key.ldc = 8;
  ProductChoices choices("gpu", 7);
  choices.set(key, {1, 2, 3, ~0ull, 5, 6, 7, 8});
  ProductKey other = key;
  other.bias = true;
  EXPECT_FALSE(choices.find(other).has_value());
  auto text = choices.write();
  ASSERT_TRUE(text.ok());
  ProductChoices same("gpu", 7), newer("gpu", 8), elsewhere("other", 7);
  for (ProductChoices *one : {&same, &newer, &elsewhere}) {
    Status status = one->read(*text, "file");
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_FALSE(one->hasChanged());
  }
  EXPECT_EQ(same.find(key), (ProductChoice{1, 2, 3, ~0ull, 5, 6, 7, 8}));
  EXPECT_FALSE(newer.find(key).has_value());
  EXPECT_FALSE(elsewhere.find(key).has_value());
}

} // namespace
} // namespace ciuic::rt::test
