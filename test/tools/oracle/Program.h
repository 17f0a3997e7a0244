//===- Program.h - A module to be run by a test -----------------*- C++ -*-===//
#ifndef CIUIC_TEST_TOOLS_ORACLE_PROGRAM_H
#define CIUIC_TEST_TOOLS_ORACLE_PROGRAM_H

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/weights/SafeTensors.h"
#include "tools/oracle/Layout.h"
#include "tools/oracle/TensorFile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ciuic::oracle {

using Numbers = std::vector<double>;

/// A module from text, on one rank unless it names an axis.
class Program {
public:
  explicit Program(const std::string &text, bool exact = true) {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return;
    InterpreterOptions options;
    options.exact = exact;
    auto created = Interpreter::create(*module, options);
    if (mlir::succeeded(created))
      machine.emplace(std::move(*created));
  }

  bool ok() const { return machine.has_value(); }
  Interpreter &interpreter() { return *machine; }

  /// Runs a function with the same arguments on all ranks; results of rank 0.
  std::vector<Numbers> call(const std::string &name,
                            const std::vector<Numbers> &arguments) {
    mlir::func::FuncOp function = machine->find(name);
    EXPECT_TRUE(function) << name;
    std::vector<RankValues> values;
    for (auto [type, numbers] :
         llvm::zip_equal(function.getArgumentTypes(), arguments)) {
      auto tensor = std::make_shared<Tensor>(*describe(type));
      EXPECT_EQ(elementCount(tensor->shape),
                static_cast<int64_t>(numbers.size()));
      tensor->data = numbers;
      values.push_back(RankValues(machine->ranks(), tensor));
    }
    auto results = machine->call(function, values);
    std::vector<Numbers> numbers;
    EXPECT_TRUE(mlir::succeeded(results));
    if (mlir::succeeded(results))
      for (const RankValues &result : *results)
        numbers.push_back(result.front()->data);
    return numbers;
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Interpreter> machine;
};

/// The operators that PyTorch computed in double precision.
class Reference {
public:
  Reference()
      : file(rt::SafeTensorsReader::open(CIUIC_SOURCE_DIR
                                         "/test/reference/ops.safetensors")) {}

  Numbers get(const std::string &name) const {
    EXPECT_TRUE(file.ok());
    const rt::StoredTensor *tensor = file.ok() ? file->find(name) : nullptr;
    EXPECT_TRUE(tensor) << name;
    if (!tensor)
      return {};
    auto elements = readElements(*file, *tensor);
    EXPECT_TRUE(elements.ok()) << name;
    return elements.ok() ? *elements : Numbers();
  }

  /// Row `index` of a tensor of two dimensions.
  Numbers row(const std::string &name, int64_t index, int64_t width) const {
    Numbers all = get(name);
    return Numbers(all.begin() + index * width,
                   all.begin() + (index + 1) * width);
  }

private:
  rt::Result<rt::SafeTensorsReader> file;
};

/// Every element is within `tolerance` of the expected one, relative to the
/// larger of it and 1.
inline void expectNear(const Numbers &found, const Numbers &expected,
                       double tolerance = 1e-12) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i],
                tolerance * std::max(1.0, std::fabs(expected[i])))
        << "element " << i;
}

/// [a, b, c, d] as [a, c, b, d]: heads before rows to rows before heads, and
/// back.
inline Numbers swapMiddle(const Numbers &numbers, int64_t a, int64_t b,
                          int64_t c, int64_t d) {
  Numbers result(numbers.size());
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < c; ++k)
        for (int64_t l = 0; l < d; ++l)
          result[((i * c + k) * b + j) * d + l] =
              numbers[((i * b + j) * c + k) * d + l];
  return result;
}

} // namespace ciuic::oracle

#endif // CIUIC_TEST_TOOLS_ORACLE_PROGRAM_H
