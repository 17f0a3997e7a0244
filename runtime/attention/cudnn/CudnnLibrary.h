//===- CudnnLibrary.h - cuDNN, found at run time ----------------*- C++ -*-===//
//
// cuDNN is optional: nothing is linked and none of its headers is needed. The
// library is opened by name, its version checked and every function looked up.
// The numbers below are those of cuDNN 9's backend interface, which keeps them
// from version to version; a test compares them with the headers where these
// are installed.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNLIBRARY_H
#define CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNLIBRARY_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ciuic::rt::cudnn {

using Handle = void *;
using Descriptor = void *;

/// cudnnBackendDescriptorType_t.
namespace kind {
inline constexpr int pointwise = 0, engineHeuristics = 4, executionPlan = 5,
                     engineConfig = 3, engine = 2, pointwiseOperation = 13,
                     operationGraph = 15, variantPack = 16, tensor = 17,
                     matmul = 18, matmulOperation = 19, reduction = 21,
                     reductionOperation = 22, reshapeOperation = 31,
                     deviceProperties = 38;
} // namespace kind

/// cudnnBackendAttributeType_t.
namespace type {
inline constexpr int handle = 0, dataType = 1, boolean = 2, int64 = 3,
                     pointer = 6, heuristicsMode = 8, numericalNote = 11,
                     pointwiseMode = 14, descriptor = 15,
                     reductionOperator = 18, character = 24;
} // namespace type

/// cudnnBackendAttributeName_t.
namespace attribute {
inline constexpr int pointwiseMode = 0, pointwisePrecision = 1,
                     pointwiseAxis = 9, heuristicsMode = 200,
                     heuristicsGraph = 201, heuristicsResults = 202,
                     heuristicsDevice = 204, configEngine = 300,
                     planHandle = 400, planConfig = 401, planWorkspace = 402,
                     planDevice = 407, operationPointwise = 750,
                     operationPointwiseX = 751, operationPointwiseB = 752,
                     operationPointwiseY = 753, operationPointwiseT = 758,
                     graphHandle = 800, graphOperations = 801,
                     tensorAlignment = 900, tensorType = 901, tensorSizes = 902,
                     tensorStrides = 903, tensorId = 906, tensorIsVirtual = 907,
                     tensorIsByValue = 908, packIds = 1000, packPointers = 1001,
                     packWorkspace = 1003, engineNumericalNote = 1303,
                     matmulType = 1500, matmulA = 1520, matmulB = 1521,
                     matmulC = 1522, matmulDescriptor = 1523,
                     reductionOperator = 1600, reductionType = 1601,
                     reductionX = 1610, reductionY = 1611,
                     reductionDescriptor = 1612, reshapeX = 2200,
                     reshapeY = 2201, deviceJson = 2702;
} // namespace attribute

/// cudnnDataType_t.
enum class DataType : int {
  Float = 0,
  Half = 2,
  Int32 = 4,
  BFloat16 = 9,
  Boolean = 11
};

/// cudnnPointwiseMode_t.
enum class Pointwise : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  GreaterOrEqual = 303,
  GenerateIndex = 501,
  Select = 601
};

/// cudnnReduceTensorOp_t.
enum class Reduce : int { Add = 0, Max = 3 };

/// cudnnBackendHeurMode_t.
enum class Heuristics : int { Fallback = 2, A = 3 };

/// cudnnBackendNumericalNote_t.
inline constexpr int noteNondeterministic = 4;

/// The functions that are used, as the library has them.
struct Functions {
  size_t (*cudnnGetVersion)();
  int (*cudnnCreate)(Handle *);
  int (*cudnnDestroy)(Handle);
  int (*cudnnSetStream)(Handle, void *stream);
  const char *(*cudnnGetErrorString)(int);
  void (*cudnnGetLastErrorString)(char *, size_t);
  int (*cudnnBackendCreateDescriptor)(int kind, Descriptor *);
  int (*cudnnBackendDestroyDescriptor)(Descriptor);
  int (*cudnnBackendFinalize)(Descriptor);
  int (*cudnnBackendSetAttribute)(Descriptor, int name, int type, int64_t count,
                                  const void *elements);
  int (*cudnnBackendGetAttribute)(Descriptor, int name, int type, int64_t most,
                                  int64_t *count, void *elements);
  int (*cudnnBackendExecute)(Handle, Descriptor plan, Descriptor pack);
};

/// Older versions are not asked. What a version makes of the graphs and of the
/// strides of their tensors, CudnnCheck finds out on the device.
inline constexpr size_t oldestVersion = 90600;

/// An opened library. It stays open until the process ends: kernels of it may
/// still run and it does not bear being closed.
class Library {
public:
  /// Opens `name` ("libcudnn.so.9" unless a test says otherwise).
  static Result<std::shared_ptr<const Library>> open(const std::string &name);

  const Functions &functions() const { return table; }
  size_t version() const { return found; }

  /// What a call that returned `result` means, in cuDNN's words.
  Status toStatus(int result, const char *call) const;

private:
  Functions table{};
  size_t found = 0;
};

/// "9.19.0" of 91900.
std::string versionText(size_t version);

/// A descriptor that is destroyed with its owner.
class OwnedDescriptor {
public:
  OwnedDescriptor() = default;
  OwnedDescriptor(std::shared_ptr<const Library> library, Descriptor raw)
      : library(std::move(library)), raw(raw) {}
  OwnedDescriptor(OwnedDescriptor &&other) noexcept { swap(other); }
  OwnedDescriptor &operator=(OwnedDescriptor &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OwnedDescriptor();

  static Result<OwnedDescriptor> make(std::shared_ptr<const Library> library,
                                      int kind);

  Status set(int name, int type, int64_t count, const void *elements);
  Status finalize();
  /// At most `most` elements; `count` says how many there are.
  Status get(int name, int type, int64_t most, int64_t &count,
             void *elements) const;

  Descriptor get() const { return raw; }
  /// For attributes that take an array of descriptors.
  const Descriptor *address() const { return &raw; }

private:
  void swap(OwnedDescriptor &other) {
    std::swap(library, other.library);
    std::swap(raw, other.raw);
  }

  std::shared_ptr<const Library> library;
  Descriptor raw = nullptr;
};

} // namespace ciuic::rt::cudnn

#endif // CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNLIBRARY_H
