//===- Watch.cpp - Values of a run by the names of their ops --------------===//
#include "tools/oracle/Watch.h"
#include "runtime/base/Quote.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

Watch::Watch(ArrayRef<std::string> names) {
  for (const std::string &name : names) {
    Entry entry;
    entry.name = name;
    StringRef location = name;
    auto [base, index] = location.rsplit('#');
    if (base != location && !index.getAsInteger(10, entry.result))
      location = base;
    entry.backward = location.consume_back(".bwd");
    entry.location = location.str();
    entries.push_back(std::move(entry));
  }
}

/// Whether `name` is among the names of a location.
static bool hasName(Location location, StringRef name) {
  bool found = false;
  location->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner))
      found |= named.getName().strref() == name;
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

void Watch::attach(Interpreter &interpreter) {
  interpreter.observer = [this](Operation *op, ArrayRef<RankValues> results) {
    for (Entry &entry : entries) {
      if (entry.op && entry.op != op)
        continue;
      if (!entry.op &&
          (entry.result >= results.size() ||
           entry.backward != op->hasAttr(train::kBackwardAttr) ||
           isa<train::ReadOp>(op) || !hasName(op->getLoc(), entry.location)))
        continue;
      entry.op = op;
      entry.value = results[entry.result];
    }
  };
}

rt::Status Watch::addTo(NamedValues &values, int64_t sequence) const {
  for (const Entry &entry : entries) {
    if (!entry.op)
      return rt::Status::invalid("no op that ran computes a value named " +
                                 rt::quote(entry.name));
    auto joined = std::make_shared<Tensor>(*joinRanks(entry.value));
    if (sequence > 1 && joined->shape.size() == 2 &&
        joined->dim(0) % sequence == 0)
      joined->shape = {joined->dim(0) / sequence, sequence, joined->dim(1)};
    if (!values.try_emplace(entry.name, joined).second)
      return rt::Status::invalid("value " + rt::quote(entry.name) +
                                 " has the name of a state");
  }
  return {};
}

TensorRef oracle::joinRanks(const RankValues &values) {
  if (values.size() == 1)
    return values.front();
  auto joined = std::make_shared<Tensor>();
  joined->element = values.front()->element;
  joined->shape = values.front()->shape;
  if (joined->shape.empty())
    joined->shape.push_back(1);
  joined->shape[0] *= static_cast<int64_t>(values.size());
  for (const TensorRef &tensor : values)
    joined->data.insert(joined->data.end(), tensor->data.begin(),
                        tensor->data.end());
  return joined;
}
