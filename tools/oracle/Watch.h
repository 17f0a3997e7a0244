//===- Watch.h - Values of a run by the names of their ops ------*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_WATCH_H
#define CIUIC_TOOLS_ORACLE_WATCH_H

#include "runtime/base/Status.h"
#include "tools/oracle/Interpreter.h"
#include "tools/oracle/TensorFile.h"

namespace ciuic::oracle {

/// Keeps the values that ops of some NameLocs compute: of the first op of the
/// forward so named, as it last ran. `name#1` is the op's second result, and
/// `name.bwd` looks among the ops of the backward.
class Watch {
public:
  explicit Watch(llvm::ArrayRef<std::string> names);

  /// Must outlive the interpreter's runs.
  void attach(Interpreter &interpreter);

  /// Adds what was seen under its name, the ranks joined along the first
  /// dimension. Where that counts the tokens of sequences of `sequence`, the
  /// value gets a dimension for sequences and one for their tokens. Fails
  /// naming a value that no op computed.
  rt::Status addTo(NamedValues &values, int64_t sequence) const;

private:
  struct Entry {
    std::string name; ///< As asked for.
    std::string location;
    unsigned result = 0;
    bool backward = false;
    mlir::Operation *op = nullptr; ///< The first that matched.
    RankValues value;
  };
  std::vector<Entry> entries;
};

/// All ranks' tensors as one, joined along the first dimension; scalars become
/// one element a rank.
TensorRef joinRanks(const RankValues &values);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_WATCH_H
