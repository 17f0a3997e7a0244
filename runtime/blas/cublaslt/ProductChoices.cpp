//===- ProductChoices.cpp - How products are done, kept -------------------===//
#include "runtime/blas/cublaslt/ProductChoices.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"

#include <cinttypes>
#include <cstdio>

namespace ciuic::rt {
namespace {

constexpr int64_t fileVersion = 1;
constexpr int64_t mostSize = int64_t(1) << 46;
constexpr size_t mostEntries = 100000;

std::string hexOf(const ProductChoice &choice) {
  std::string text;
  for (uint64_t word : choice) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016" PRIx64, word);
    text += digits;
  }
  return text;
}

/// Reads one entry; every accessor says what is wrong and where.
class Entry {
public:
  Entry(const Json &object, std::string where)
      : object(object), where(std::move(where)) {}

  Status number(const char *key, int64_t least, int64_t most, auto &to) {
    auto it = object.find(key);
    if (it == object.end() || !it->is_number_integer())
      return Status::invalid(where + ": no whole number " + quote(key));
    if (it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX)
      return Status::invalid(where + ": " + quote(key) + " is too large");
    int64_t value = it->get<int64_t>();
    if (value < least || value > most)
      return Status::invalid(where + ": " + quote(key) + " is " +
                             std::to_string(value) + ", expected " +
                             std::to_string(least) + " to " +
                             std::to_string(most));
    to = static_cast<std::remove_reference_t<decltype(to)>>(value);
    return {};
  }

  Status flag(const char *key, bool &to) {
    auto it = object.find(key);
    if (it == object.end() || !it->is_boolean())
      return Status::invalid(where + ": no true or false " + quote(key));
    to = it->get<bool>();
    return {};
  }

  Status text(const char *key, std::string &to) {
    auto it = object.find(key);
    if (it == object.end() || !it->is_string())
      return Status::invalid(where + ": no text " + quote(key));
    to = it->get<std::string>();
    return {};
  }

  Status type(const char *key, abi::DType &to) {
    std::string name;
    CIUIC_TRY(text(key, name));
    for (abi::DType dtype :
         {abi::DType::F32, abi::DType::F16, abi::DType::BF16})
      if (name == rt::name(dtype)) {
        to = dtype;
        return {};
      }
    return Status::invalid(where + ": " + quote(key) + " is " + quote(name) +
                           ", expected f32, f16 or bf16");
  }

  Status choice(ProductChoice &to) {
    std::string digits;
    CIUIC_TRY(text("algorithm", digits));
    if (digits.size() != to.size() * 16 ||
        digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      return Status::invalid(where + ": \"algorithm\" is no 128 hex digits");
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = std::stoull(digits.substr(i * 16, 16), nullptr, 16);
    return {};
  }

private:
  const Json &object;
  const std::string where;
};

Status readEntry(const Json &object, const std::string &where,
                 std::string &device, uint64_t &version, ProductKey &key,
                 ProductChoice &choice) {
  if (!object.is_object())
    return Status::invalid(where + ": found no object");
  Entry entry(object, where);
  CIUIC_TRY(entry.text("device", device));
  CIUIC_TRY(entry.number("cublaslt", 0, mostSize, version));
  CIUIC_TRY(entry.number("m", 1, mostSize, key.m));
  CIUIC_TRY(entry.number("n", 1, mostSize, key.n));
  CIUIC_TRY(entry.number("k", 1, mostSize, key.k));
  CIUIC_TRY(entry.number("lda", 1, mostSize, key.lda));
  CIUIC_TRY(entry.number("ldb", 1, mostSize, key.ldb));
  CIUIC_TRY(entry.number("ldc", 1, mostSize, key.ldc));
  CIUIC_TRY(entry.type("in", key.in));
  CIUIC_TRY(entry.type("out", key.out));
  CIUIC_TRY(entry.type("bias_type", key.biasType));
  CIUIC_TRY(entry.flag("transpose_a", key.transposeA));
  CIUIC_TRY(entry.flag("transpose_b", key.transposeB));
  CIUIC_TRY(entry.flag("accumulate", key.accumulate));
  CIUIC_TRY(entry.flag("bias", key.bias));
  CIUIC_TRY(entry.flag("tf32", key.tf32));
  CIUIC_TRY(entry.number("align_a", 1, 256, key.alignA));
  CIUIC_TRY(entry.number("align_b", 1, 256, key.alignB));
  CIUIC_TRY(entry.number("align_c", 1, 256, key.alignC));
  CIUIC_TRY(entry.number("workspace", 0, mostSize, key.workspace));
  return entry.choice(choice);
}

} // namespace

std::string ProductKey::str() const {
  auto letter = [](bool transposed) { return transposed ? "^T" : ""; };
  return std::string(name(out)) + "[" + std::to_string(m) + ", " +
         std::to_string(n) + "] " + (accumulate ? "+= " : "= ") + name(in) +
         " A" + letter(transposeA) + " B" + letter(transposeB) +
         " over k = " + std::to_string(k) + (bias ? " + bias" : "");
}

Status ProductChoices::read(const std::string &text, const std::string &path) {
  CIUIC_TRY_ASSIGN(Json root, parseJson(text, path));
  if (!root.is_object())
    return Status::invalid(path + ": found no object");
  int64_t found = 0;
  CIUIC_TRY(Entry(root, path).number("version", 0, INT64_MAX, found));
  if (found != fileVersion)
    return Status::invalid(path + ": version " + std::to_string(found) +
                           ", expected " + std::to_string(fileVersion));
  auto products = root.find("products");
  if (products == root.end() || !products->is_array() ||
      products->size() > mostEntries)
    return Status::invalid(path + ": no list \"products\" of at most " +
                           std::to_string(mostEntries));
  std::map<Place, ProductChoice> entries;
  for (size_t i = 0; i < products->size(); ++i) {
    std::string device;
    uint64_t library = 0;
    ProductKey key;
    ProductChoice choice{};
    CIUIC_TRY(readEntry((*products)[i],
                        path + ": products[" + std::to_string(i) + "]", device,
                        library, key, choice));
    entries[{device, library, key}] = choice;
  }
  for (auto &[place, choice] : entries)
    choices[place] = choice;
  return {};
}

std::optional<ProductChoice> ProductChoices::find(const ProductKey &key) const {
  auto it = choices.find({device, version, key});
  if (it == choices.end())
    return std::nullopt;
  return it->second;
}

void ProductChoices::set(const ProductKey &key, const ProductChoice &choice) {
  choices[{device, version, key}] = choice;
  changed = true;
}

Result<std::string> ProductChoices::write() const {
  OrderedJson products = OrderedJson::array();
  for (const auto &[place, choice] : choices) {
    const auto &[of, library, key] = place;
    OrderedJson entry;
    entry["device"] = of;
    entry["cublaslt"] = library;
    entry["m"] = key.m;
    entry["n"] = key.n;
    entry["k"] = key.k;
    entry["lda"] = key.lda;
    entry["ldb"] = key.ldb;
    entry["ldc"] = key.ldc;
    entry["in"] = name(key.in);
    entry["out"] = name(key.out);
    entry["bias_type"] = name(key.biasType);
    entry["transpose_a"] = key.transposeA;
    entry["transpose_b"] = key.transposeB;
    entry["accumulate"] = key.accumulate;
    entry["bias"] = key.bias;
    entry["tf32"] = key.tf32;
    entry["align_a"] = key.alignA;
    entry["align_b"] = key.alignB;
    entry["align_c"] = key.alignC;
    entry["workspace"] = key.workspace;
    entry["algorithm"] = hexOf(choice);
    products.push_back(std::move(entry));
  }
  OrderedJson root;
  root["version"] = fileVersion;
  root["products"] = std::move(products);
  return printJson(root);
}

} // namespace ciuic::rt
