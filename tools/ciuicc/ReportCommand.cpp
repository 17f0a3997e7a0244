//===- ReportCommand.cpp - ciuicc report ----------------------------------===//
#include "runtime/base/File.h"
#include "tools/ciuicc/Commands.h"
#include "tools/ciuicc/plan/ReportPage.h"

#include <cstdio>

using namespace ciuic;
using namespace ciuic::tool;

int tool::runReport(const std::string &bundle, const std::string &output) {
  auto facts = readFacts(bundle);
  if (!facts.ok())
    return report(facts.takeStatus());
  auto plan = readPlan(bundle);
  if (!plan.ok())
    return report(plan.takeStatus());
  auto page = reportPage(*plan, *facts);
  if (!page.ok())
    return report(page.takeStatus());
  if (rt::Status status = rt::writeOutputFile(output, *page); !status.ok())
    return report(status);
  std::printf("%s: %.1f MB; open it in a browser\n", output.c_str(),
              static_cast<double>(page->size()) / 1e6);
  return 0;
}
