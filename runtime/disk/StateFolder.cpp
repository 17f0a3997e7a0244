//===- StateFolder.cpp - Where state files are, made if missing -----------===//
#include "runtime/disk/StateFolder.h"

#include "runtime/base/Quote.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

Status cannotMake(const std::string &path, int error) {
  std::string message = "cannot make the folder " + quote(path) +
                        " for files: " + std::strerror(error);
  bool machine = error == ENOSPC || error == EDQUOT || error == EIO ||
                 error == ENOMEM || error == EMLINK;
  return machine ? Status::machine(message) : Status::invalid(message);
}

/// 0 if `path` is a folder, else why not.
int missing(const std::string &path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0)
    return errno;
  return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

} // namespace

Result<StateFolder> StateFolder::make(const std::string &path) {
  // From below: what is there may be in a folder that may not be looked into.
  std::vector<std::string> absent;
  for (std::string at = path; int error = missing(at);) {
    if (error != ENOENT)
      return cannotMake(at, error);
    absent.push_back(at);
    while (at.size() > 1 && at.back() == '/')
      at.pop_back();
    size_t slash = at.rfind('/');
    if (slash == std::string::npos)
      break; // In the folder at hand.
    at.resize(slash + 1);
  }
  StateFolder folder;
  for (; !absent.empty(); absent.pop_back()) {
    const std::string &at = absent.back();
    if (mkdir(at.c_str(), 0777) == 0)
      folder.made.push_back(at);
    else if (int error = errno; error != EEXIST || missing(at) != 0)
      return cannotMake(at, error); // Not made by another process meanwhile.
  }
  return folder;
}

StateFolder::~StateFolder() {
  for (; !made.empty(); made.pop_back())
    if (rmdir(made.back().c_str()) != 0)
      return; // Something is in it, which those above hold.
}

} // namespace ciuic::rt
