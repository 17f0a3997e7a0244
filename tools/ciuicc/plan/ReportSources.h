//===- ReportSources.h - The fixed parts of the report ----------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_PLAN_REPORTSOURCES_H
#define CIUIC_TOOLS_CIUICC_PLAN_REPORTSOURCES_H

#include <string_view>

namespace ciuic::tool {

/// The files of report/, embedded when ciuicc is built. `html` has the marks
/// @STYLE@, @PLAN@ and @SCRIPT@ where the other parts go.
struct ReportSources {
  std::string_view html, style, data, pictures, page;
};
extern const ReportSources reportSources;

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_PLAN_REPORTSOURCES_H
