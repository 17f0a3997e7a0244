//===- ReportPage.h - A plan as one HTML page -------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_PLAN_REPORTPAGE_H
#define CIUIC_TOOLS_CIUICC_PLAN_REPORTPAGE_H

#include "tools/ciuicc/plan/Plan.h"

namespace ciuic::tool {

/// What the manifest of a bundle says of its job.
struct ReportFacts {
  std::string model, precision;
  int64_t parameters = 0, stage = 0, microBatch = 0, sequence = 0;
  int64_t accumulation = 1;
  int64_t deviceMemory = 0; ///< Bytes that a device has; 0: no limit.
  int64_t hostMemory = 0;   ///< Bytes that all ranks have; 0: no limit.
  int64_t nvmeSpace = 0;    ///< Bytes of files of all ranks; 0: no limit.
};

/// Reads manifest.json; says what is wrong with it and where.
rt::Result<ReportFacts> readFacts(const std::string &bundle);

/// One page that needs nothing else: no network, no other file. Whatever is in
/// the names of the plan, it is text on the page and never markup or script.
/// Fails for names that are not UTF-8.
rt::Result<std::string> reportPage(const Plan &plan, const ReportFacts &facts);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_PLAN_REPORTPAGE_H
