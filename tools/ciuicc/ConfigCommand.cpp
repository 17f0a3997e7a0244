//===- ConfigCommand.cpp - ciuicc config ----------------------------------===//
#include "frontend/model/ModelConfig.h"
#include "tools/ciuicc/Commands.h"

#include <cstdio>

using namespace ciuic;
using namespace ciuic::tool;

int tool::runConfig(const std::string &file, const std::string &model,
                    const config::Overrides &given, bool strict) {
  config::Overrides overrides = given;
  if (!model.empty()) {
    auto read = model::readModelConfig(model);
    if (!read.ok())
      return report(read.takeStatus());
    overrides.hiddenSize = read->hidden;
  }
  auto resolved = config::resolve(file, overrides, strict);
  if (!resolved.ok())
    return report(resolved.takeStatus());
  std::fputs(config::printResolved(*resolved).c_str(), stdout);
  return 0;
}
