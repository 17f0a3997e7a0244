//===- Status.h - Errors that carry a trace of who asked --------*- C++ -*-===//
//
// The runtime neither aborts nor throws across its interfaces. What can fail
// returns a Status, or a Result<T> where there is a value; each caller may
// add one line of context on the way up. The code decides the exit code of
// the process (tools/README.md): the job is wrong (1), the machine failed (3)
// or training stopped itself (4).
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BASE_STATUS_H
#define CIUIC_RUNTIME_BASE_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ciuic::rt {

/// What went wrong, by who can mend it.
enum class Code {
  Ok = 0,
  Invalid, ///< The user's input is wrong: exit code 1.
  Machine, ///< Disk, memory, library or device failed: exit code 3.
  Stopped, ///< Training cannot go on: exit code 4.
};

/// Success, or a code and a message of one or more lines.
class [[nodiscard]] Status {
public:
  Status() = default; // Success is one null pointer: no allocation.
  Status(Code code, std::string message)
      : error(new Error{code, std::move(message)}) {}

  static Status invalid(std::string message) {
    return Status(Code::Invalid, std::move(message));
  }
  static Status machine(std::string message) {
    return Status(Code::Machine, std::move(message));
  }

  bool ok() const { return !error; }
  Code code() const { return error ? error->code : Code::Ok; }
  std::string str() const { return error ? error->message : "ok"; }

  /// The process exit code that stands for this status.
  int exitCode() const {
    switch (code()) {
    case Code::Ok:
      return 0;
    case Code::Invalid:
      return 1;
    case Code::Machine:
      return 3;
    case Code::Stopped:
      return 4;
    }
    return 3;
  }

  /// Adds a line "  while ..." that says what the caller was doing. `what` is
  /// called only on failure: it must return something a std::string takes.
  template <typename Fn> Status &&during(Fn &&what) && {
    if (error)
      error->message += "\n  while " + std::string(what());
    return std::move(*this);
  }

private:
  struct Error {
    Code code;
    std::string message;
  };
  std::unique_ptr<Error> error;
};

/// A value, or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Status status) : status(std::move(status)) {
    assert(!this->status.ok() && "a failed Result needs an error");
  }

  bool ok() const { return value.has_value(); }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }

  /// The error, moved out; only for a Result that is not ok().
  Status takeStatus() { return std::move(status); }

private:
  std::optional<T> value;
  Status status;
};

} // namespace ciuic::rt

/// Returns from the enclosing function when `expr`, a Status, fails.
#define CIUIC_TRY(expr)                                                        \
  do {                                                                         \
    if (::ciuic::rt::Status status_ = (expr); !status_.ok())                   \
      return status_;                                                          \
  } while (false)

/// Declares `var` from a Result, or returns its error:
///   CIUIC_TRY_ASSIGN(auto file, openFile(path));
#define CIUIC_CONCAT_(a, b) a##b
#define CIUIC_CONCAT(a, b) CIUIC_CONCAT_(a, b)
#define CIUIC_TRY_ASSIGN(var, expr)                                            \
  auto CIUIC_CONCAT(result_, __LINE__) = (expr);                               \
  if (!CIUIC_CONCAT(result_, __LINE__).ok())                                   \
    return CIUIC_CONCAT(result_, __LINE__).takeStatus();                       \
  var = std::move(*CIUIC_CONCAT(result_, __LINE__))

#endif // CIUIC_RUNTIME_BASE_STATUS_H
