//===- Symbols.cpp - Names of functions -------------------------*- C++ -*-===//
#include "test/cuda_on_host/Symbols.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

namespace ciuic::onhost {

namespace {

/// Functions of one file by their offset from where it is loaded.
using Functions = std::map<uint64_t, std::string>;

template <typename T>
bool readAt(const std::vector<char> &file, uint64_t offset, T &value) {
  if (offset > file.size() || file.size() - offset < sizeof(T))
    return false;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return true;
}

Functions functionsOf(const char *path) {
  Functions found;
  std::ifstream in(path, std::ios::binary);
  std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
  Elf64_Ehdr header;
  if (!readAt(file, 0, header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return found;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, strings;
    if (!readAt(file, header.e_shoff + i * sizeof section, section) ||
        section.sh_type != SHT_SYMTAB ||
        !readAt(file, header.e_shoff + section.sh_link * sizeof strings,
                strings))
      continue;
    for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!readAt(file, section.sh_offset + at, symbol))
        break;
      uint64_t name = strings.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || name >= file.size())
        continue;
      found[symbol.st_value] = std::string(
          file.data() + name, strnlen(file.data() + name, file.size() - name));
    }
  }
  return found;
}

std::string readable(const std::string &symbol) {
  int status = 0;
  char *text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = text && status == 0 ? text : symbol;
  std::free(text);
  for (const char *noise : {"(anonymous namespace)::", "ciuic::cuda::"})
    for (size_t at; (at = name.find(noise)) != std::string::npos;)
      name.erase(at, std::strlen(noise));
  name = name.substr(0, name.find('('));
  return name.rfind("void ", 0) == 0 ? name.substr(5) : name;
}

} // namespace

std::string nameOfFunction(const void *function) {
  static std::mutex mutex;
  static auto *files = new std::map<std::string, Functions>;
  Dl_info info;
  if (!function || !dladdr(function, &info))
    return "";
  if (info.dli_sname && info.dli_saddr == function)
    return readable(info.dli_sname);
  std::lock_guard lock(mutex);
  // By address too: another file may come to lie under the same path.
  std::string key = std::string(info.dli_fname) + "@" +
                    std::to_string(reinterpret_cast<uintptr_t>(info.dli_fbase));
  auto [at, isNew] = files->try_emplace(key);
  if (isNew)
    at->second = functionsOf(info.dli_fname);
  auto symbol = at->second.find(reinterpret_cast<uintptr_t>(function) -
                                reinterpret_cast<uintptr_t>(info.dli_fbase));
  return symbol == at->second.end() ? "" : readable(symbol->second);
}

} // namespace ciuic::onhost
