//===- CublasLt.cpp - Matrix products on a GPU ----------------------------===//
#include "runtime/blas/cublaslt/CublasLt.h"

#include "runtime/abi/Sizes.h"
#include "runtime/device/cuda/CudaArena.h"
#include "runtime/device/cuda/CudaStream.h"

#include <algorithm>
#include <cstring>
#include <cublasLt.h>
#include <map>
#include <vector>

namespace ciuic::rt {
namespace {

Status toStatus(cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  return Status::machine(std::string(call) + ": " +
                         cublasLtGetStatusString(status));
}

#define CIUIC_TRY_LT(function, ...)                                            \
  do {                                                                         \
    if (cublasStatus_t status_ = function(__VA_ARGS__);                        \
        status_ != CUBLAS_STATUS_SUCCESS)                                      \
      return toStatus(status_, #function);                                     \
  } while (false)

/// Candidates that the library is asked for.
constexpr int candidates = 16;

/// A descriptor that is destroyed at the end.
template <typename T, cublasStatus_t (*destroy)(T)> class Handle {
public:
  Handle() = default;
  Handle(Handle &&other) noexcept { *this = std::move(other); }
  Handle &operator=(Handle &&other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Handle() {
    if (value)
      destroy(value);
  }
  T get() const { return value; }
  T *out() { return &value; }

private:
  T value = nullptr;
};
using Description = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference =
    Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t typeOf(abi::DType dtype) {
  switch (dtype) {
  case abi::DType::F16:
    return CUDA_R_16F;
  case abi::DType::BF16:
    return CUDA_R_16BF;
  default:
    return CUDA_R_32F;
  }
}

uint32_t alignmentOf(const void *pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(
      std::min<uintptr_t>(256, address == 0 ? 256 : address & -address));
}

/// Descriptors and the way of doing it, shared by all tasks of one key.
struct Product {
  Layout left, right, result; ///< Column-major: B, A and C.
  cublasLtMatmulAlgo_t algorithm{};
};

} // namespace

class CublasLt::Impl {
public:
  Impl(const CudaDevice &device, ProductChoices &choices, bool tune, bool tf32)
      : device(device), choices(choices), tune(tune), tf32(tf32) {}
  ~Impl() {
    products.clear();
    if (library)
      cublasLtDestroy(library);
  }

  /// What a task multiplies.
  struct Operands {
    const void *a, *b, *bias;
    void *c, *scratch;
  };

  Result<ProductKey> keyOf(const DeviceTaskArguments &arguments);
  Result<Description> makeDescription(const ProductKey &key, const void *bias);
  Result<Product *> find(const ProductKey &key, const Description &description,
                         const Operands &operands);
  Status choose(Product &product, const ProductKey &key,
                const Description &description, const Operands &operands);
  Result<float> time(const Product &product, const ProductKey &key,
                     const Description &description, const Operands &operands);
  Result<double> measure(abi::DType dtype, int64_t size);
  Status multiply(const Product &product, const ProductKey &key,
                  const Description &description, const Operands &operands,
                  cudaStream_t stream);

  const CudaDevice &device;
  ProductChoices &choices;
  const bool tune, tf32;
  cublasLtHandle_t library = nullptr;
  CudaStream timing;
  CudaEvent begin, end;
  std::map<ProductKey, std::unique_ptr<Product>> products;
};

namespace {

class ProductTask final : public DeviceTask {
public:
  ProductTask(CublasLt::Impl &owner, const Product &product,
              const ProductKey &key, Description description,
              const CublasLt::Impl::Operands &operands)
      : owner(owner), product(product), key(key),
        description(std::move(description)), operands(operands) {}

  Status enqueue(cudaStream_t stream) override {
    return owner.multiply(product, key, description, operands, stream);
  }

private:
  CublasLt::Impl &owner;
  const Product &product;
  const ProductKey key;
  const Description description;
  const CublasLt::Impl::Operands operands;
};

/// Nothing is left of a product over k = 0 but what the caller asks of C; the
/// library takes no such product.
Status expectSizes(const ProductKey &key) {
  if (key.m > 0 && key.n > 0 && key.k > 0)
    return {};
  return Status::invalid("an empty product: " + key.str());
}

} // namespace

//===----------------------------------------------------------------------===//
// From a task to the library's terms
//===----------------------------------------------------------------------===//

Result<ProductKey> CublasLt::Impl::keyOf(const DeviceTaskArguments &arguments) {
  const auto &views = arguments.views;
  if (views.size() < 3 || views.size() > 4 || arguments.ints.size() < 3)
    return Status::invalid("a product of " + std::to_string(views.size()) +
                           " views and " +
                           std::to_string(arguments.ints.size()) +
                           " numbers, expected 3 or 4 and 3");
  const Tensor &a = views[0], &b = views[1], &c = views[2];
  ProductKey key;
  key.transposeA = arguments.ints[0] != 0;
  key.transposeB = arguments.ints[1] != 0;
  key.accumulate = arguments.ints[2] != 0;
  key.bias = views.size() == 4;
  key.m = key.transposeA ? a.columns() : a.rows();
  key.k = key.transposeA ? a.rows() : a.columns();
  key.n = key.transposeB ? b.rows() : b.columns();
  int64_t k = key.transposeB ? b.columns() : b.rows();
  if (k != key.k || c.rows() != key.m || c.columns() != key.n)
    return Status::invalid("shapes " + describe(a) + ", " + describe(b) +
                           " and " + describe(c) + " are no product");
  CIUIC_TRY(expectSizes(key));
  if (a.dtype != b.dtype || !isFloat(a.dtype) || !isFloat(c.dtype) ||
      (c.dtype != a.dtype && c.dtype != abi::DType::F32))
    return Status::invalid("a product of " + describe(a) + " and " +
                           describe(b) + " into " + describe(c) +
                           ", expected factors of one type, and f32 or that "
                           "type out of it");
  for (const Tensor &matrix : {a, b, c})
    if (!matrix.hasDenseRows() ||
        (matrix.rows() > 1 && matrix.strides[0] < matrix.columns()))
      return Status::invalid("a product with a matrix of gaps within rows: " +
                             describe(matrix));
  auto distance = [](const Tensor &matrix) {
    return matrix.rows() > 1 ? matrix.strides[0] : matrix.columns();
  };
  key.lda = distance(a);
  key.ldb = distance(b);
  key.ldc = distance(c);
  key.in = a.dtype;
  key.out = c.dtype;
  key.tf32 = tf32 && a.dtype == abi::DType::F32;
  if (key.bias) {
    const Tensor &bias = views[3];
    if (!bias.isDense() || bias.elements() != key.n || !isFloat(bias.dtype))
      return Status::invalid("a bias " + describe(bias) + " for " +
                             describe(c));
    key.biasType = bias.dtype;
  }
  key.alignA = alignmentOf(a.data);
  key.alignB = alignmentOf(b.data);
  key.alignC = alignmentOf(c.data);
  if (arguments.scratch.data)
    key.workspace = static_cast<uint64_t>(arguments.scratch.elements()) *
                    byteSize(arguments.scratch.dtype);
  return key;
}

Result<Description> CublasLt::Impl::makeDescription(const ProductKey &key,
                                                    const void *bias) {
  Description made;
  CIUIC_TRY_LT(cublasLtMatmulDescCreate, made.out(),
               key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
               CUDA_R_32F);
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto &value) {
    return toStatus(cublasLtMatmulDescSetAttribute(made.get(), attribute,
                                                   &value, sizeof(value)),
                    "cublasLtMatmulDescSetAttribute");
  };
  // The first factor is B, the second A.
  cublasOperation_t left = key.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t right = key.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  CIUIC_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, left));
  CIUIC_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, right));
  if (key.bias) {
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cudaDataType_t type = typeOf(key.biasType);
    CIUIC_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    CIUIC_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    CIUIC_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type));
  }
  return made;
}

//===----------------------------------------------------------------------===//
// How it is done
//===----------------------------------------------------------------------===//

Status CublasLt::Impl::multiply(const Product &product, const ProductKey &key,
                                const Description &description,
                                const Operands &operands, cudaStream_t stream) {
  float one = 1, beta = key.accumulate ? 1 : 0;
  CIUIC_TRY_LT(cublasLtMatmul, library, description.get(), &one, operands.b,
               product.left.get(), operands.a, product.right.get(), &beta,
               operands.c, product.result.get(), operands.c,
               product.result.get(), &product.algorithm, operands.scratch,
               key.workspace, stream);
  return {};
}

/// The shortest of a few runs, in milliseconds.
Result<float> CublasLt::Impl::time(const Product &product,
                                   const ProductKey &key,
                                   const Description &description,
                                   const Operands &operands) {
  constexpr int runs = 4; // The first only warms up.
  float best = 0;
  for (int run = 0; run < runs; ++run) {
    float elapsed = 0;
    CIUIC_TRY_CUDA(cudaEventRecord, begin.get(), timing.get());
    CIUIC_TRY(multiply(product, key, description, operands, timing.get()));
    CIUIC_TRY_CUDA(cudaEventRecord, end.get(), timing.get());
    CIUIC_TRY_CUDA(cudaStreamSynchronize, timing.get());
    CIUIC_TRY_CUDA(cudaEventElapsedTime, &elapsed, begin.get(), end.get());
    if (run == 1 || (run > 1 && elapsed < best))
      best = elapsed;
  }
  return best;
}

Status CublasLt::Impl::choose(Product &product, const ProductKey &key,
                              const Description &description,
                              const Operands &operands) {
  Preference preference;
  CIUIC_TRY_LT(cublasLtMatmulPreferenceCreate, preference.out());
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return toStatus(cublasLtMatmulPreferenceSetAttribute(
                        preference.get(), attribute, &value, sizeof(value)),
                    "cublasLtMatmulPreferenceSetAttribute");
  };
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, key.workspace));
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignB));
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignA));
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignC));
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignC));
  // Where k is split, parts are added in f32.
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  CIUIC_TRY(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  std::array<cublasLtMatmulHeuristicResult_t, candidates> offers{};
  int found = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library, description.get(), product.left.get(), product.right.get(),
      product.result.get(), product.result.get(), preference.get(), candidates,
      offers.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
    return toStatus(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> usable;
  for (int i = 0; i < std::min(found, candidates); ++i)
    if (offers[i].state == CUBLAS_STATUS_SUCCESS &&
        offers[i].workspaceSize <= key.workspace)
      usable.push_back(offers[i].algo);
  if (status != CUBLAS_STATUS_SUCCESS || usable.empty())
    return Status::machine("cuBLASLt " + std::to_string(libraryVersion()) +
                           " does not do " + key.str() + " with " +
                           std::to_string(key.workspace) +
                           " bytes of workspace on " + device.str());
  auto bytesOf = [](const cublasLtMatmulAlgo_t &algorithm) {
    ProductChoice bytes{};
    static_assert(sizeof(algorithm.data) == sizeof(bytes));
    std::memcpy(bytes.data(), algorithm.data, sizeof(bytes));
    return bytes;
  };
  if (auto kept = choices.find(key))
    for (const cublasLtMatmulAlgo_t &algorithm : usable)
      if (bytesOf(algorithm) == *kept) {
        product.algorithm = algorithm;
        return {};
      }
  product.algorithm = usable.front();
  if (!tune)
    return {};
  float best = 0;
  cublasLtMatmulAlgo_t fastest = usable.front();
  for (size_t i = 0; i < usable.size(); ++i) {
    product.algorithm = usable[i];
    CIUIC_TRY_ASSIGN(float elapsed, time(product, key, description, operands));
    if (i == 0 || elapsed < best) {
      best = elapsed;
      fastest = usable[i];
    }
  }
  product.algorithm = fastest;
  choices.set(key, bytesOf(fastest));
  return {};
}

Result<Product *> CublasLt::Impl::find(const ProductKey &key,
                                       const Description &description,
                                       const Operands &operands) {
  auto it = products.find(key);
  if (it != products.end())
    return it->second.get();
  auto product = std::make_unique<Product>();
  auto create = [&](Layout &layout, abi::DType dtype, int64_t rows,
                    int64_t columns, int64_t distance) {
    // Row-major rows x columns is column-major columns x rows.
    return toStatus(cublasLtMatrixLayoutCreate(layout.out(), typeOf(dtype),
                                               static_cast<uint64_t>(columns),
                                               static_cast<uint64_t>(rows),
                                               distance),
                    "cublasLtMatrixLayoutCreate");
  };
  auto [aRows, aColumns] =
      key.transposeA ? std::pair(key.k, key.m) : std::pair(key.m, key.k);
  auto [bRows, bColumns] =
      key.transposeB ? std::pair(key.n, key.k) : std::pair(key.k, key.n);
  CIUIC_TRY(create(product->left, key.in, bRows, bColumns, key.ldb));
  CIUIC_TRY(create(product->right, key.in, aRows, aColumns, key.lda));
  CIUIC_TRY(create(product->result, key.out, key.m, key.n, key.ldc));
  CIUIC_TRY(choose(*product, key, description, operands));
  return products.emplace(key, std::move(product)).first->second.get();
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

CublasLt::CublasLt(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
CublasLt::~CublasLt() = default;

uint64_t CublasLt::libraryVersion() { return cublasLtGetVersion(); }

Status CublasLt::checkLibrary() {
  return checkVersion("cuBLASLt", static_cast<int64_t>(libraryVersion()),
                      CUBLAS_VERSION);
}

Result<std::unique_ptr<CublasLt>> CublasLt::create(const CudaDevice &device,
                                                   ProductChoices &choices,
                                                   bool tune, bool tf32) {
  auto impl = std::make_unique<Impl>(device, choices, tune, tf32);
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  CIUIC_TRY_LT(cublasLtCreate, &impl->library);
  CIUIC_TRY_ASSIGN(impl->timing, CudaStream::create());
  CIUIC_TRY_ASSIGN(impl->begin, CudaEvent::create(CudaEvent::Use::Measure));
  CIUIC_TRY_ASSIGN(impl->end, CudaEvent::create(CudaEvent::Use::Measure));
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(impl)));
}

Result<double> CublasLt::Impl::measure(abi::DType dtype, int64_t size) {
  uint64_t bytes = static_cast<uint64_t>(size) * static_cast<uint64_t>(size) *
                   byteSize(dtype);
  constexpr uint64_t workspace = uint64_t(32) << 20;
  CIUIC_TRY_ASSIGN(DeviceArena memory,
                   DeviceArena::allocate(device, 3 * bytes + workspace,
                                         "a product to measure"));
  // Not zeros, which draw less power.
  CIUIC_TRY_CUDA(cudaMemsetAsync, memory.base(), 0x3c, 2 * bytes, timing.get());
  ProductKey key;
  key.m = key.n = key.k = key.lda = key.ldb = key.ldc = size;
  key.in = key.out = dtype;
  key.transposeB = true;
  key.tf32 = tf32 && dtype == abi::DType::F32;
  key.workspace = workspace;
  Operands operands{memory.base(), memory.base() + bytes, nullptr,
                    memory.base() + 2 * bytes, memory.base() + 3 * bytes};
  CIUIC_TRY_ASSIGN(Description description, makeDescription(key, nullptr));
  CIUIC_TRY_ASSIGN(Product * product, find(key, description, operands));
  CIUIC_TRY_ASSIGN(float milliseconds,
                   time(*product, key, description, operands));
  CIUIC_TRY_CUDA(cudaStreamSynchronize, timing.get());
  double sides = static_cast<double>(size);
  return milliseconds > 0 ? 2 * sides * sides * sides / (milliseconds * 1e-3)
                          : 0.0;
}

double CublasLt::measurePeak(abi::DType dtype) {
  if (cudaSetDevice(impl->device.index) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
#ifdef CIUIC_CUDA_ON_HOST
  constexpr int64_t sizes[] = {64}; // Says nothing, but is soon done.
#else
  constexpr int64_t sizes[] = {8192, 4096, 2048};
#endif
  for (int64_t size : sizes) {
    auto rate = impl->measure(dtype, size);
    if (rate.ok())
      return *rate;
  }
  return 0;
}

Result<DeviceTaskPtr>
CublasLt::makeProduct(const DeviceTaskArguments &arguments) {
  CIUIC_TRY_ASSIGN(ProductKey key, impl->keyOf(arguments));
  Impl::Operands operands{arguments.views[0].data, arguments.views[1].data,
                          key.bias ? arguments.views[3].data : nullptr,
                          arguments.views[2].data, arguments.scratch.data};
  CIUIC_TRY_ASSIGN(Description description,
                   impl->makeDescription(key, operands.bias));
  CIUIC_TRY_ASSIGN(Product * product, impl->find(key, description, operands));
  return DeviceTaskPtr(std::make_unique<ProductTask>(
      *impl, *product, key, std::move(description), operands));
}

} // namespace ciuic::rt
