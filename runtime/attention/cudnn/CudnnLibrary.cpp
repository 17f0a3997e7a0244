//===- CudnnLibrary.cpp - cuDNN, found at run time ------------------------===//

#include "runtime/attention/cudnn/CudnnLibrary.h"

#include <dlfcn.h>

namespace ciuic::rt::cudnn {

std::string versionText(size_t version) {
  // Before 9 a version was major * 1000 + minor * 100 + patch.
  const size_t major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." +
         std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

Result<std::shared_ptr<const Library>> Library::open(const std::string &name) {
  void *opened = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char *reason = dlerror();
    return Status::machine("no cuDNN: " + std::string(reason ? reason : name));
  }
  auto library = std::make_shared<Library>();
  std::string missing;
  auto find = [&](auto &function, const char *symbol) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(dlsym(opened, symbol));
    if (!function && missing.empty())
      missing = symbol;
  };
  Functions &table = library->table;
  // The version first: an older library may well lack the others.
  find(table.cudnnGetVersion, "cudnnGetVersion");
  if (!table.cudnnGetVersion)
    return Status::machine(name + " is no cuDNN: it has no cudnnGetVersion");
  library->found = table.cudnnGetVersion();
  if (library->found < oldestVersion || library->found >= 100000)
    return Status::machine("cuDNN " + versionText(library->found) + " (" +
                           name + ") is not served, expected " +
                           versionText(oldestVersion) + " up to 9.x");
  find(table.cudnnCreate, "cudnnCreate");
  find(table.cudnnDestroy, "cudnnDestroy");
  find(table.cudnnSetStream, "cudnnSetStream");
  find(table.cudnnGetErrorString, "cudnnGetErrorString");
  find(table.cudnnGetLastErrorString, "cudnnGetLastErrorString");
  find(table.cudnnBackendCreateDescriptor, "cudnnBackendCreateDescriptor");
  find(table.cudnnBackendDestroyDescriptor, "cudnnBackendDestroyDescriptor");
  find(table.cudnnBackendFinalize, "cudnnBackendFinalize");
  find(table.cudnnBackendSetAttribute, "cudnnBackendSetAttribute");
  find(table.cudnnBackendGetAttribute, "cudnnBackendGetAttribute");
  find(table.cudnnBackendExecute, "cudnnBackendExecute");
  if (!missing.empty())
    return Status::machine("cuDNN " + versionText(library->found) + " (" +
                           name + ") has no function " + missing);
  return std::shared_ptr<const Library>(std::move(library));
}

Status Library::toStatus(int result, const char *call) const {
  if (result == 0)
    return Status();
  const char *text = table.cudnnGetErrorString(result);
  std::string message = std::string(call) + ": " + (text ? text : "unknown") +
                        " (" + std::to_string(result) + ")";
  char detail[512] = {};
  table.cudnnGetLastErrorString(detail, sizeof detail);
  detail[sizeof detail - 1] = 0;
  if (detail[0])
    message += ": " + std::string(detail);
  return Status::machine(message);
}

OwnedDescriptor::~OwnedDescriptor() {
  if (raw)
    library->functions().cudnnBackendDestroyDescriptor(raw);
}

Result<OwnedDescriptor>
OwnedDescriptor::make(std::shared_ptr<const Library> library, int kind) {
  Descriptor raw = nullptr;
  CIUIC_TRY(library->toStatus(
      library->functions().cudnnBackendCreateDescriptor(kind, &raw),
      "cudnnBackendCreateDescriptor"));
  return OwnedDescriptor(std::move(library), raw);
}

Status OwnedDescriptor::set(int name, int type, int64_t count,
                            const void *elements) {
  return library
      ->toStatus(library->functions().cudnnBackendSetAttribute(raw, name, type,
                                                               count, elements),
                 "cudnnBackendSetAttribute")
      .during([&] { return "setting attribute " + std::to_string(name); });
}

Status OwnedDescriptor::finalize() {
  return library->toStatus(library->functions().cudnnBackendFinalize(raw),
                           "cudnnBackendFinalize");
}

Status OwnedDescriptor::get(int name, int type, int64_t most, int64_t &count,
                            void *elements) const {
  count = 0;
  return library
      ->toStatus(library->functions().cudnnBackendGetAttribute(
                     raw, name, type, most, &count, elements),
                 "cudnnBackendGetAttribute")
      .during([&] { return "reading attribute " + std::to_string(name); });
}

} // namespace ciuic::rt::cudnn
