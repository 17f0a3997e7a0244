//===- Machine.cpp - The machine that a job is planned for ----------------===//
#include "frontend/machine/Machine.h"

#include "frontend/machine/BuiltIn.h"
#include "frontend/model/JsonFields.h"
#include "runtime/base/File.h"
#include "runtime/base/Quote.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <initializer_list>

using namespace ciuic;
using namespace ciuic::machine;
using model::JsonErrors;
using model::JsonFields;

int64_t Machine::reserved(Where where) const {
  int64_t bytes = 0;
  for (const Reserve &entry : reserve)
    if (entry.where == where)
      bytes += entry.bytes;
  return bytes;
}

int64_t Machine::deviceLimit() const {
  // A device without memory of its own has what the host has.
  return shared ? hostLimit() : deviceMemory - reserved(Where::Device);
}

std::optional<double> machine::parseQuantity(std::string_view text,
                                             std::string_view of) {
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0)
    return std::nullopt;
  text.remove_prefix(end - text.data());
  while (text.starts_with(' '))
    text.remove_prefix(1);

  // Prefix, unit and, for rates, "/s".
  double factor = 1;
  static constexpr std::pair<std::string_view, double> prefixes[] = {
      {"Ti", 0x1p40}, {"Gi", 0x1p30}, {"Mi", 0x1p20}, {"Ki", 0x1p10},
      {"P", 1e15},    {"T", 1e12},    {"G", 1e9},     {"M", 1e6},
      {"k", 1e3},     {"K", 1e3}};
  if (text.empty() && of == "B")
    return value;
  for (const auto &[prefix, size] : prefixes)
    if (text.starts_with(prefix)) {
      text.remove_prefix(prefix.size());
      factor = size;
      break;
    }
  if (of == "B/s" && text == "b/s")
    return value * factor / 8;
  return text == of ? std::optional(value * factor) : std::nullopt;
}

namespace {

constexpr double mostBytes = 0x1p60;

/// Reads one machine file.
class MachineReader {
public:
  explicit MachineReader(const std::string &what) : errors{what, {}} {}
  rt::Result<Machine> read(std::string_view text);

private:
  bool isGood() const { return errors.status.ok(); }
  /// Refuses keys that no machine has: most often they are misspelt.
  void checkKeys(const rt::Json &object, const JsonFields &fields,
                 std::initializer_list<std::string_view> known);
  /// The object `key`, which must be there if `needed`.
  const rt::Json *object(const JsonFields &fields, const char *key,
                         bool needed);
  std::optional<double> quantity(const JsonFields &fields, const char *key,
                                 std::string_view of);
  int64_t bytes(const JsonFields &fields, const char *key);
  void readDevices(const rt::Json &value);
  void readHost(const rt::Json &value);
  void readLinks(const rt::Json &value);
  void readReserve(const rt::Json &value, const std::string &path);
  void checkReserve();

  JsonErrors errors;
  Machine machine;
};

void MachineReader::checkKeys(const rt::Json &object, const JsonFields &fields,
                              std::initializer_list<std::string_view> known) {
  for (const auto &[key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string names;
      for (std::string_view name : known)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
      fields.failWith(key.c_str(), "no such key; expected one of " + names);
      return;
    }
}

const rt::Json *MachineReader::object(const JsonFields &fields, const char *key,
                                      bool needed) {
  const rt::Json *found = fields.find(key);
  if (found ? !found->is_object() : needed) {
    fields.fail(key, "an object");
    return nullptr;
  }
  return found;
}

std::optional<double> MachineReader::quantity(const JsonFields &fields,
                                              const char *key,
                                              std::string_view of) {
  const rt::Json *found = fields.find(key);
  if (!found)
    return std::nullopt;
  std::optional<double> value;
  if (found->is_string())
    value = parseQuantity(found->get_ref<const std::string &>(), of);
  else if (found->is_number())
    value = found->get<double>();
  const char *example = of == "B"     ? "a size such as \"40GB\""
                        : of == "B/s" ? "a rate such as \"600GB/s\""
                                      : "a rate such as \"312TFLOP/s\"";
  if (!value || !(*value > 0) || *value > mostBytes) {
    fields.fail(key, example);
    return std::nullopt;
  }
  return value;
}

int64_t MachineReader::bytes(const JsonFields &fields, const char *key) {
  auto value = quantity(fields, key, "B");
  if (!value && !fields.find(key))
    fields.fail(key, "a size such as \"40GB\"");
  return static_cast<int64_t>(value.value_or(0));
}

void MachineReader::readDevices(const rt::Json &value) {
  JsonFields fields(value, "devices.", errors);
  checkKeys(value, fields,
            {"count", "kind", "memory", "bandwidth", "f32", "f16"});
  machine.devices = fields.integer("count", 1, 1024);
  machine.deviceKind = fields.string("kind", "");
  machine.deviceMemory = machine.shared ? 0 : bytes(fields, "memory");
  if (machine.shared && fields.has("memory"))
    fields.failWith("memory", "devices of a machine whose memory is shared "
                              "have none of their own");
  machine.deviceBandwidth = quantity(fields, "bandwidth", "B/s");
  machine.f32Rate = quantity(fields, "f32", "FLOP/s");
  machine.f16Rate = quantity(fields, "f16", "FLOP/s");
}

void MachineReader::readHost(const rt::Json &value) {
  JsonFields fields(value, "host.", errors);
  checkKeys(value, fields,
            {"cores", "kind", "memory", "bandwidth", "disk_space"});
  machine.cores = fields.integer("cores", 1, 1 << 16, 1);
  machine.hostKind = fields.string("kind", "");
  machine.hostMemory = bytes(fields, "memory");
  machine.hostBandwidth = quantity(fields, "bandwidth", "B/s");
  if (auto space = quantity(fields, "disk_space", "B"))
    machine.diskSpace = static_cast<int64_t>(*space);
}

void MachineReader::readLinks(const rt::Json &value) {
  JsonFields fields(value, "links.", errors);
  checkKeys(value, fields, {"devices", "host", "disk", "network"});
  machine.devicesLink = quantity(fields, "devices", "B/s");
  machine.hostLink = quantity(fields, "host", "B/s");
  machine.disk = quantity(fields, "disk", "B/s");
  machine.network = quantity(fields, "network", "B/s");
}

void MachineReader::readReserve(const rt::Json &value,
                                const std::string &path) {
  JsonFields fields(value, path + ".", errors);
  checkKeys(value, fields, {"name", "where", "bytes", "source"});
  Reserve entry;
  entry.name = fields.string("name", "");
  entry.source = fields.string("source", "");
  std::string where = fields.string("where", "");
  entry.bytes = bytes(fields, "bytes");
  if (!isGood())
    return;
  if (entry.name.empty())
    return fields.fail("name", "what needs the memory");
  if (entry.source.empty())
    return fields.fail("source", "who says how much that is");
  static constexpr std::pair<std::string_view, Where> places[] = {
      {"device", Where::Device},
      {"host", Where::Host},
      {"process", Where::Process},
      {"thread", Where::Thread}};
  for (const auto &[name, place] : places)
    if (where == name) {
      entry.where = place;
      machine.reserve.push_back(std::move(entry));
      return;
    }
  fields.fail("where", "\"device\", \"host\", \"process\" or \"thread\"");
}

/// No more may be reserved than there is.
void MachineReader::checkReserve() {
  auto check = [&](Where where, const char *what, int64_t has) {
    double sum = 0;
    for (const Reserve &entry : machine.reserve)
      if (entry.where == where)
        sum += static_cast<double>(entry.bytes);
    if (isGood() && sum >= static_cast<double>(has))
      errors.status = rt::Status::invalid(
          fmt::format("{}: reserve: {:.0f} bytes of {}, which has {}",
                      errors.file, sum, what, has));
  };
  if (!machine.shared)
    check(Where::Device, "each device", machine.deviceMemory);
  for (Where where : {Where::Host, Where::Process, Where::Thread})
    check(where, "the host", machine.hostMemory);
}

rt::Result<Machine> MachineReader::read(std::string_view text) {
  constexpr size_t mostReserves = 100;
  auto json = rt::parseJson(text, errors.file);
  if (!json.ok())
    return json.takeStatus();
  if (!json->is_object())
    return rt::Status::invalid(fmt::format("{}: found {}, expected an object",
                                           errors.file, model::brief(*json)));
  JsonFields fields(*json, "", errors);
  checkKeys(*json, fields,
            {"name", "devices", "host", "links", "reserve", "shared_memory"});
  machine.name = fields.string("name", "");
  if (isGood() && machine.name.empty())
    fields.fail("name", "the machine's name");
  machine.shared = fields.boolean("shared_memory", false);
  if (const rt::Json *devices = object(fields, "devices", true))
    readDevices(*devices);
  if (const rt::Json *host = object(fields, "host", true))
    readHost(*host);
  if (const rt::Json *links = object(fields, "links", false))
    readLinks(*links);
  if (const rt::Json *list = fields.find("reserve")) {
    if (!list->is_array() || list->size() > mostReserves)
      fields.fail("reserve",
                  fmt::format("a list of at most {} entries", mostReserves));
    for (size_t i = 0; list->is_array() && i < list->size() && isGood(); ++i) {
      std::string path = fmt::format("reserve[{}]", i);
      if ((*list)[i].is_object())
        readReserve((*list)[i], path);
      else
        fields.failWith(path.c_str(), "expected an object");
    }
  }
  if (isGood())
    checkReserve();
  if (!isGood())
    return std::move(errors.status);
  return std::move(machine);
}

} // namespace

std::vector<Reserve> machine::usualProcess() {
  constexpr int64_t mebi = 1 << 20;
  return {{"libraries and start-up", Where::Process, 160 * mebi,
           "measured: 106 to 125 MB on x86-64 Linux with the libraries of the "
           "compiler, rounded up"},
          {"stacks and packed matrices", Where::Thread, 8 * mebi,
           "measured: 1 to 6 MB, most of it what oneDNN packs, rounded up"}};
}

rt::Result<Machine> machine::parseMachine(std::string_view text,
                                          const std::string &what) {
  return MachineReader(what).read(text);
}

rt::Result<Machine> machine::findMachine(const std::string &nameOrFile,
                                         const std::string &diskFolder) {
  constexpr uint64_t mostFileBytes = 1 << 20;
  if (nameOrFile == "host")
    return measureHost("", "libnvidia-ml.so.1", diskFolder);
  if (nameOrFile == "ciuic-monster")
    return parseMachine(monsterFile, "ciuic-monster");
  auto text = rt::readTextFile(nameOrFile, mostFileBytes);
  if (text.ok())
    return parseMachine(*text, nameOrFile);
  if (nameOrFile.find_first_of("/.") == std::string::npos)
    return rt::Status::invalid(
        fmt::format("no machine {}; built in are ciuic-monster and host, all "
                    "others are files",
                    rt::quote(nameOrFile)));
  return text.takeStatus();
}
