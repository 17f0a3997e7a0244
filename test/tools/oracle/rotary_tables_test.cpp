//===- rotary_tables_test.cpp - Frequencies against transformers ----------===//
#include "mlir/AsmParser/AsmParser.h"
#include "test/tools/oracle/Program.h"
#include "tools/oracle/Initialise.h"

using namespace ciuic::oracle;

namespace {
/// A table of 4096 positions from the text of its parameters.
class Table {
public:
  Table(const std::string &parameters, int64_t dim) : half(dim / 2) {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    cos = fill("cos", parameters, dim);
    sin = fill("sin", parameters, dim);
  }

  /// Rows of the reference's table, which holds some positions alone.
  void expectRows(const std::string &name) const {
    Reference reference;
    Numbers positions = reference.get(name + ".positions");
    Numbers cosRows, sinRows, referenceCos, referenceSin;
    Numbers allCos = reference.get(name + ".cos");
    Numbers allSin = reference.get(name + ".sin");
    for (size_t i = 0; i < positions.size(); ++i) {
      auto t = static_cast<int64_t>(positions[i]);
      if (t >= kPositions)
        continue;
      for (int64_t j = 0; j < half; ++j) {
        cosRows.push_back(cos[t * half + j]);
        sinRows.push_back(sin[t * half + j]);
        referenceCos.push_back(allCos[i * half + j]);
        referenceSin.push_back(allSin[i * half + j]);
      }
    }
    // An angle of some thousands keeps 12 digits.
    expectNear(cosRows, referenceCos, 1e-11);
    expectNear(sinRows, referenceSin, 1e-11);
  }

  double checksum() const {
    double sum = 0.0;
    for (size_t i = 0; i < cos.size(); ++i)
      sum += cos[i] + sin[i];
    return sum;
  }

private:
  static constexpr int64_t kPositions = 4096;

  Numbers fill(const std::string &part, const std::string &parameters,
               int64_t dim) {
    mlir::Attribute init = mlir::parseAttribute(
        "#train.rope<part = " + part + ", dim = " + std::to_string(dim) + ", " +
            parameters + ">",
        &context);
    EXPECT_TRUE(init);
    return init ? initialValues(init, "table", {kPositions, half}, 0)
                : Numbers();
  }

  mlir::MLIRContext context;
  int64_t half;
  Numbers cos, sin;
};
} // namespace

TEST(RotaryTables, WithoutScaling) {
  Table table("theta = 1.0e4, scaling = none", 10);
  table.expectRows("rotary_default_table");
  EXPECT_NEAR(table.checksum(), 4198.754973429199, 1e-6);
}

TEST(RotaryTables, Linear) {
  Table table("theta = 1.0e4, scaling = linear, factor = 4.0", 64);
  table.expectRows("rotary_linear_table");
  EXPECT_NEAR(table.checksum(), 57475.69734154757, 1e-6);
}

// Pairs below, between and above the two wavelengths.
TEST(RotaryTables, Llama3) {
  Table table("theta = 5.0e5, scaling = llama3, factor = 8.0, low = 1.0, "
              "high = 4.0, original = 8192",
              128);
  table.expectRows("rotary_llama3_table");
  EXPECT_NEAR(table.checksum(), 141648.6612359248, 1e-6);
}

// The sum that another training library's suite asserts for these values.
TEST(RotaryTables, Llama3OfBase10000) {
  Table table("theta = 1.0e4, scaling = llama3, factor = 8.0, low = 1.0, "
              "high = 4.0, original = 8192",
              128);
  table.expectRows("rotary_llama3_base10000_table");
  EXPECT_NEAR(table.checksum(), 91141.7656, 0.01);
}
