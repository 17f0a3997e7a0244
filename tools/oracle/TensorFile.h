//===- TensorFile.h - Safetensors files in and out --------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_TENSORFILE_H
#define CIUIC_TOOLS_ORACLE_TENSORFILE_H

#include "runtime/base/Status.h"
#include "runtime/weights/SafeTensors.h"
#include "tools/oracle/Layout.h"

#include <map>
#include <string>

namespace ciuic::oracle {

/// All elements of a stored tensor of floats, or of i32 or i64.
rt::Result<std::vector<double>> readElements(const rt::SafeTensorsReader &file,
                                             const rt::StoredTensor &tensor);

/// Sets the state named in the file at `path`. A master copy that the file
/// lacks follows its parameter. Refuses names that the module does not have,
/// other shapes, and, unless `allowMissing`, a file without all parameters.
rt::Status loadState(const std::string &path, Interpreter &interpreter,
                     const Layout &layout, bool allowMissing);

/// Tensors by name, to be written in the order of names.
using NamedValues = std::map<std::string, TensorRef>;

/// Adds every tensor of the state.
void addState(NamedValues &values, const Interpreter &interpreter,
              const Layout &layout);

/// Floats are stored in their own type, or in f64 where `exact`.
rt::Status saveTensors(const std::string &path, const NamedValues &values,
                       bool exact);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_TENSORFILE_H
