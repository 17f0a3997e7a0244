//===- Rates.h - How fast the machine of a plan is --------------*- C++ -*-===//
//
// A plan's times are estimates made from these rates: what tasks take, not
// what they do. They come from a machine file, or are those of a machine that
// is usual for the target, and never from the machine that compiles: the same
// job has the same plan everywhere.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_DIALECT_SCHED_RATES_H
#define CIUIC_DIALECT_SCHED_RATES_H

#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace ciuic::sched {

/// What one rank gets, as reached in practice, not as a data sheet has it.
/// Each is above zero; bytes and operations are a second, times in us.
struct Rates {
  double f32 = 0;        ///< FLOP/s of products of f32.
  double f16 = 0;        ///< FLOP/s of products of 16 bits.
  double memory = 0;     ///< Bytes/s of device memory, read and written.
  double host = 0;       ///< The same of host memory.
  double devices = 0;    ///< Bytes/s that a rank sends in a collective.
  double link = 0;       ///< Bytes/s between device and host, each way.
  double disk = 0;       ///< Bytes/s of files.
  double launch = 0;     ///< Before a task of a device begins, us.
  double collective = 0; ///< Before a collective moves bytes, us.
  double hostTask = 0;   ///< Before a task of the host begins, us.

  bool operator==(const Rates &) const = default;
};

/// The rates of one of `ranks` ranks where no machine is given: of 8 A100 for
/// CUDA, else of two cores that all ranks share.
Rates defaultRates(bool cuda, int64_t ranks);

/// "f32=1.3e+13,f16=...": all fields by name, in order.
std::string printRates(const Rates &rates);

/// Reads what printRates prints; fields may be left out and keep the value of
/// `rates`. None, and `message` says why, if the text is not that.
std::optional<Rates> parseRates(llvm::StringRef text, Rates rates,
                                std::string &message);

/// The rates of a module, a string attribute on it.
inline constexpr llvm::StringLiteral kRatesAttr = "sched.rates";
Rates getRates(mlir::Operation *op);

} // namespace ciuic::sched

#endif // CIUIC_DIALECT_SCHED_RATES_H
