//===- TensorFile.cpp - Safetensors files in and out ----------------------===//
#include "tools/oracle/TensorFile.h"
#include "runtime/base/Quote.h"
#include "tools/oracle/Initialise.h"

using namespace ciuic;
using namespace ciuic::oracle;
using rt::DType;
using rt::Result;
using rt::Status;

template <typename Integer>
static Result<std::vector<double>>
readIntegers(const rt::SafeTensorsReader &file,
             const rt::StoredTensor &tensor) {
  std::vector<Integer> integers(tensor.elements);
  CIUIC_TRY(
      file.read(tensor, 0, tensor.elements, tensor.dtype, integers.data()));
  return std::vector<double>(integers.begin(), integers.end());
}

Result<std::vector<double>>
oracle::readElements(const rt::SafeTensorsReader &file,
                     const rt::StoredTensor &tensor) {
  if (tensor.dtype == DType::I32)
    return readIntegers<int32_t>(file, tensor);
  if (tensor.dtype == DType::I64)
    return readIntegers<int64_t>(file, tensor);
  if (!rt::isConvertible(tensor.dtype))
    return Status::invalid(file.path() + ": tensor " + rt::quote(tensor.name) +
                           " has type " + std::string(rt::name(tensor.dtype)) +
                           ", expected floats, i32 or i64");
  std::vector<double> elements(tensor.elements);
  CIUIC_TRY(file.read(tensor, 0, tensor.elements, DType::F64, elements.data()));
  return elements;
}

Status oracle::loadState(const std::string &path, Interpreter &interpreter,
                         const Layout &layout, bool allowMissing) {
  CIUIC_TRY_ASSIGN(auto file, rt::SafeTensorsReader::open(path));
  for (const rt::StoredTensor &stored : file.tensors()) {
    const NamedTensor *tensor = layout.find(stored.name);
    if (!tensor)
      return Status::invalid(path + ": tensor " + rt::quote(stored.name) +
                             " is no state of the module");
    if (llvm::ArrayRef<int64_t>(stored.shape) !=
        llvm::ArrayRef<int64_t>(tensor->shape))
      return Status::invalid(
          path + ": tensor " + rt::quote(stored.name) + " has shape " +
          rt::shapeString(stored.shape) + ", expected " +
          rt::shapeString({tensor->shape.data(), tensor->shape.size()}));
    CIUIC_TRY_ASSIGN(std::vector<double> elements, readElements(file, stored));
    if (tensor->role == train::Role::Parameter &&
        !file.find(stored.name + ".master"))
      setParameter(interpreter, layout, *tensor, elements);
    else
      Layout::set(interpreter, *tensor, elements);
  }
  if (allowMissing)
    return {};
  for (const NamedTensor &tensor : layout.tensors())
    if (tensor.role == train::Role::Parameter && !file.find(tensor.name))
      return Status::invalid(path + ": has no parameter " +
                             rt::quote(tensor.name) +
                             "; give --seed to initialise what is missing");
  return {};
}

void oracle::addState(NamedValues &values, const Interpreter &interpreter,
                      const Layout &layout) {
  for (const NamedTensor &named : layout.tensors()) {
    auto tensor = std::make_shared<Tensor>();
    tensor->element = named.element();
    tensor->shape = named.shape;
    tensor->data = Layout::get(interpreter, named);
    values[named.name] = tensor;
  }
}

static DType storedType(Element element, bool exact) {
  switch (element) {
  case Element::F64:
    return DType::F64;
  case Element::F32:
    return exact ? DType::F64 : DType::F32;
  case Element::F16:
    return exact ? DType::F64 : DType::F16;
  case Element::BF16:
    return exact ? DType::F64 : DType::BF16;
  case Element::I64:
    return DType::I64;
  default:
    return DType::I32;
  }
}

template <typename Integer>
static Status writeIntegers(rt::SafeTensorsWriter &writer, size_t index,
                            DType type, const Tensor &tensor) {
  std::vector<Integer> integers(tensor.data.begin(), tensor.data.end());
  return writer.write(index, 0, integers.size(), type, integers.data());
}

Status oracle::saveTensors(const std::string &path, const NamedValues &values,
                           bool exact) {
  std::vector<rt::TensorSpec> specs;
  for (const auto &[name, tensor] : values)
    specs.push_back({name,
                     storedType(tensor->element, exact),
                     {tensor->shape.begin(), tensor->shape.end()}});
  CIUIC_TRY_ASSIGN(auto writer,
                   rt::SafeTensorsWriter::create(path, std::move(specs)));
  size_t index = 0;
  for (const auto &[name, tensor] : values) {
    DType type = writer.tensors()[index].dtype;
    if (type == DType::I64)
      CIUIC_TRY(writeIntegers<int64_t>(writer, index, type, *tensor));
    else if (type == DType::I32)
      CIUIC_TRY(writeIntegers<int32_t>(writer, index, type, *tensor));
    else
      CIUIC_TRY(writer.write(index, 0, tensor->data.size(), DType::F64,
                             tensor->data.data()));
    ++index;
  }
  return writer.commit();
}
