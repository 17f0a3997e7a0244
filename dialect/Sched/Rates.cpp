//===- Rates.cpp - How fast the machine of a plan is ----------------------===//
#include "dialect/Sched/Rates.h"
#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>

using namespace mlir;
using namespace ciuic::sched;

namespace {
struct Field {
  StringLiteral name;
  double Rates::*value;
};
} // namespace

static constexpr Field fields[] = {
    {"f32", &Rates::f32},
    {"f16", &Rates::f16},
    {"memory", &Rates::memory},
    {"host", &Rates::host},
    {"devices", &Rates::devices},
    {"link", &Rates::link},
    {"disk", &Rates::disk},
    {"launch_us", &Rates::launch},
    {"collective_us", &Rates::collective},
    {"host_task_us", &Rates::hostTask},
};

Rates ciuic::sched::defaultRates(bool cuda, int64_t ranks) {
  auto sharers = static_cast<double>(std::max<int64_t>(ranks, 1));
  Rates rates;
  if (cuda) {
    // A100 with NVLink: 0.7 of the peak of products, 0.85 of memory; NCCL's
    // rate and start fit what it reaches on 8 of them (110 GB/s of 8 MiB, 223
    // of 512 MiB).
    rates.f32 = 13.65e12;
    rates.f16 = 218e12;
    rates.memory = 1.32e12;
    rates.devices = 240e9;
    rates.link = 25e9;
    rates.host = 150e9 / std::min(sharers, 8.0);
    rates.disk = 3.5e9 / std::min(sharers, 8.0);
    rates.launch = 3;
    rates.collective = 40;
    rates.hostTask = 20;
    return rates;
  }
  // Two cores with AVX-512; a copy between ranks is one within the host.
  rates.f32 = rates.f16 = 350e9 / sharers;
  rates.memory = rates.host = rates.devices = rates.link = 50e9 / sharers;
  rates.disk = 1e9 / sharers;
  rates.launch = rates.collective = rates.hostTask = 2;
  return rates;
}

std::string ciuic::sched::printRates(const Rates &rates) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      fields, os,
      [&](const Field &field) {
        os << field.name << "=" << llvm::format("%.6g", rates.*field.value);
      },
      ",");
  return text;
}

std::optional<Rates> ciuic::sched::parseRates(StringRef text, Rates rates,
                                              std::string &message) {
  constexpr double least = 1e-6, most = 1e21;
  SmallVector<StringRef> parts, seen;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/true);
  for (StringRef part : parts) {
    auto [name, number] = part.split('=');
    const auto *field =
        llvm::find_if(fields, [&](const Field &f) { return f.name == name; });
    if (field == std::end(fields) || llvm::is_contained(seen, name)) {
      message = ("\"" + name + "\" " +
                 (field == std::end(fields) ? "is no rate; expected one of "
                                            : "appears twice; each of ") +
                 llvm::join(llvm::map_range(
                                fields, [](const Field &f) { return f.name; }),
                            ", "))
                    .str();
      return std::nullopt;
    }
    seen.push_back(name);
    double value = 0;
    // Not NaN either.
    if (number.getAsDouble(value) || !(value >= least && value <= most)) {
      message = ("\"" + part + "\": expected a number from 1e-6 to 1e21").str();
      return std::nullopt;
    }
    rates.*field->value = value;
  }
  return rates;
}

Rates ciuic::sched::getRates(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Rates rates = defaultRates(isForCuda(module), getRanks(module));
  std::string ignored;
  if (auto text = module->getAttrOfType<StringAttr>(kRatesAttr))
    return parseRates(text.getValue(), rates, ignored).value_or(rates);
  return rates;
}
