//===- CublasLt.cpp - Matrix products ---------------------------*- C++ -*-===//
//
// Products are summed in f32, over all of k or, for some of the ways that the
// heuristic offers, over pieces of it. The workspace is filled with garbage at
// both ends.
//
//===----------------------------------------------------------------------===//
#include "test/cuda_on_host/CublasLtObjects.h"
#include "test/cuda_on_host/include/cuda_bf16.h"
#include "test/cuda_on_host/include/cuda_fp16.h"

#include <algorithm>
#include <cstring>

using namespace ciuic::onhost;

namespace {

/// Words of cublasLtMatmulAlgo_t::data.
enum AlgorithmWord { Magic, Id, Splits, Scheme, Workspace };
constexpr uint64_t kMagic = 0x6f6e686f7374ull;
constexpr size_t kGarbage = 4096;
constexpr uint64_t kSplitWorkspace = 64 * 1024;

size_t sizeOf(cudaDataType_t type) {
  switch (type) {
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  case CUDA_R_64F:
    return 8;
  default:
    return 4;
  }
}

bool isKnownType(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

float load(const char *p, cudaDataType_t type) {
  uint16_t bits;
  float value;
  if (type == CUDA_R_32F) {
    std::memcpy(&value, p, 4);
    return value;
  }
  std::memcpy(&bits, p, 2);
  return type == CUDA_R_16F ? detail::floatOfF16(bits)
                            : detail::floatOfBf16(bits);
}

void store(char *p, cudaDataType_t type, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(p, &value, 4);
    return;
  }
  uint16_t bits = type == CUDA_R_16F ? detail::f16OfFloat(value)
                                     : detail::bf16OfFloat(value);
  std::memcpy(p, &bits, 2);
}

using Layout = cublasLtMatrixLayoutOpaque_t;

/// Bytes from the start to element (row, column).
size_t offsetOf(const Layout &layout, uint64_t row, uint64_t column) {
  auto ld = static_cast<uint64_t>(layout.ld);
  return (layout.order == CUBLASLT_ORDER_COL ? column * ld + row
                                             : row * ld + column) *
         sizeOf(layout.type);
}

/// Calls fn(address, bytes) for each stretch without gaps.
template <typename Fn>
bool forEachRun(const Layout &layout, const void *start, Fn &&fn) {
  bool isColumn = layout.order == CUBLASLT_ORDER_COL;
  uint64_t runs = isColumn ? layout.columns : layout.rows;
  uint64_t length = isColumn ? layout.rows : layout.columns;
  size_t bytes = length * sizeOf(layout.type);
  size_t pitch = static_cast<size_t>(layout.ld) * sizeOf(layout.type);
  const char *at = static_cast<const char *>(start);
  if (pitch == bytes)
    return fn(at, bytes * runs);
  for (uint64_t i = 0; i < runs; ++i)
    if (!fn(at + i * pitch, bytes))
      return false;
  return true;
}

/// op(matrix) as dense rows of floats.
void gather(const Layout &layout, const void *start, bool transposed,
            std::vector<float> &dense) {
  uint64_t rows = transposed ? layout.columns : layout.rows;
  uint64_t columns = transposed ? layout.rows : layout.columns;
  dense.resize(rows * columns);
  const char *at = static_cast<const char *>(start);
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < columns; ++c)
      dense[r * columns + c] = load(
          at + (transposed ? offsetOf(layout, c, r) : offsetOf(layout, r, c)),
          layout.type);
}

struct Product {
  cublasLtMatmulDescOpaque_t how;
  Layout a, b, c, d;
  const void *aData, *bData, *cData;
  void *dData;
  float alpha, beta;
  char *workspace;
  size_t workspaceBytes;
  uint64_t splits;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return how.transA == CUBLAS_OP_N ? a.columns : a.rows; }
  cudaDataType_t biasType() const {
    return how.biasType < 0 ? d.type
                            : static_cast<cudaDataType_t>(how.biasType);
  }
  uint64_t biasElements() const {
    return how.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n() : m();
  }
  bool readsBias() const { return how.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  bool writesBias() const {
    return how.epilogue == CUBLASLT_EPILOGUE_BGRADA ||
           how.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
};

/// Tells the shadow what the product touches.
bool announce(const Product &p) {
  auto reads = [](const void *at, size_t bytes) {
    return shadow().read(at, bytes);
  };
  auto writes = [](const void *at, size_t bytes) {
    return shadow().write(at, bytes);
  };
  if (!forEachRun(p.a, p.aData, reads) || !forEachRun(p.b, p.bData, reads) ||
      (p.beta != 0 && !forEachRun(p.c, p.cData, reads)))
    return false;
  size_t bias = p.biasElements() * sizeOf(p.biasType());
  if (p.readsBias() && !shadow().read(p.how.bias, bias))
    return false;
  if (p.writesBias() && !shadow().write(p.how.bias, bias))
    return false;
  size_t garbage = std::min(p.workspaceBytes, kGarbage);
  if (garbage != 0) {
    char *last = p.workspace + p.workspaceBytes - garbage;
    if (!shadow().write(p.workspace, garbage) || !shadow().write(last, garbage))
      return false;
    std::memset(p.workspace, 0xa5, garbage);
    std::memset(last, 0xa5, garbage);
  }
  return forEachRun(p.d, p.dData, writes);
}

void multiply(const Product &p) {
  uint64_t m = p.m(), n = p.n(), k = p.k();
  // Kept from call to call: the device thread alone multiplies.
  static std::vector<float> a, b, sum, part;
  gather(p.a, p.aData, p.how.transA != CUBLAS_OP_N, a);
  gather(p.b, p.bData, p.how.transB != CUBLAS_OP_N, b);
  sum.assign(m * n, 0.0f);
  uint64_t splits = std::clamp<uint64_t>(p.splits, 1, k);
  for (uint64_t s = 0; s < splits; ++s) {
    uint64_t begin = k * s / splits, end = k * (s + 1) / splits;
    std::vector<float> &into = s == 0 ? sum : part;
    if (s != 0)
      part.assign(m * n, 0.0f);
    for (uint64_t i = 0; i < m; ++i) {
      float *row = into.data() + i * n;
      for (uint64_t x = begin; x < end; ++x) {
        float factor = a[i * k + x];
        const float *other = b.data() + x * n;
        for (uint64_t j = 0; j < n; ++j)
          row[j] += factor * other[j];
      }
    }
    if (s != 0)
      for (uint64_t i = 0; i < m * n; ++i)
        sum[i] += part[i];
  }
  auto *out = static_cast<char *>(p.dData);
  auto *in = static_cast<const char *>(p.cData);
  auto *bias = static_cast<char *>(p.how.bias);
  size_t biasSize = sizeOf(p.biasType());
  for (uint64_t i = 0; i < m; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      float value = p.alpha * sum[i * n + j];
      if (p.beta != 0)
        value += p.beta * load(in + offsetOf(p.c, i, j), p.c.type);
      if (p.readsBias())
        value += load(bias + i * biasSize, p.biasType());
      store(out + offsetOf(p.d, i, j), p.d.type, value);
    }
  if (!p.writesBias())
    return;
  bool ofA = p.how.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  for (uint64_t i = 0; i < p.biasElements(); ++i) {
    float value = 0;
    for (uint64_t x = 0; x < k; ++x)
      value += ofA ? a[i * k + x] : b[x * n + i];
    store(bias + i * biasSize, p.biasType(), value);
  }
}

/// Whether shapes and types are of one product.
cublasStatus_t checkShapes(const cublasLtMatmulDescOpaque_t &how,
                           const Layout &a, const Layout &b, const Layout &c,
                           const Layout &d) {
  bool ta = how.transA != CUBLAS_OP_N, tb = how.transB != CUBLAS_OP_N;
  uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
  uint64_t otherK = tb ? b.columns : b.rows, n = tb ? b.rows : b.columns;
  if (k != otherK || d.rows != m || d.columns != n || c.rows != m ||
      c.columns != n || m == 0 || n == 0 || k == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout *one : {&a, &b, &c, &d}) {
    uint64_t least =
        one->order == CUBLASLT_ORDER_COL ? one->rows : one->columns;
    if (one->ld < 0 || static_cast<uint64_t>(one->ld) < least)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (!isKnownType(one->type))
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (a.type != b.type || c.type != d.type ||
      (d.type != a.type && d.type != CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (how.scale != CUDA_R_32F || how.pointerMode != CUBLASLT_POINTER_MODE_HOST)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (how.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
    return CUBLAS_STATUS_SUCCESS;
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    // The library takes a bias of the type of D, or of f32 none but f32.
    return how.biasType < 0 || how.biasType == d.type
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasLtMatmulAlgo_t algorithmOf(uint64_t id, uint64_t splits,
                                 uint64_t workspace) {
  cublasLtMatmulAlgo_t made = {};
  made.data[Magic] = kMagic;
  made.data[Id] = id;
  made.data[Splits] = splits;
  made.data[Scheme] = splits > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : 0;
  made.data[Workspace] = workspace;
  return made;
}

} // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  CUBLASLT_CALL(cublasLtMatmulAlgoGetHeuristic);
  *found = 0;
  if (!handle || wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = checkShapes(*description, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  auto offer = [&](uint64_t id, uint64_t splits, uint64_t workspace) {
    if (*found == wanted || workspace > preference->workspace)
      return;
    if (splits > 1 &&
        !(preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
      return;
    cublasLtMatmulHeuristicResult_t &result = results[(*found)++];
    result = {};
    result.algo = algorithmOf(id, splits, workspace);
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  };
  offer(21, 2, kSplitWorkspace);
  offer(7, 1, 0);
  offer(31, 4, std::max(kSplitWorkspace, preference->workspace));
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t,
                                      cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t *algorithm) {
  CUBLASLT_CALL(cublasLtMatmulAlgoInit);
  if (id != 7 && id != 21 && id != 31)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *algorithm = algorithmOf(static_cast<uint64_t>(id), 1, 0);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        const cublasLtMatmulAlgo_t *algorithm,
                        cublasLtMatmulHeuristicResult_t *result) {
  CUBLASLT_CALL(cublasLtMatmulAlgoCheck);
  if (algorithm->data[Magic] != kMagic)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = checkShapes(*description, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize =
      algorithm->data[Splits] > 1
          ? std::max(kSplitWorkspace, algorithm->data[Workspace])
          : algorithm->data[Workspace];
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(
    cublasLtMatmulAlgo_t *algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, const void *value,
    size_t bytes) {
  CUBLASLT_CALL(cublasLtMatmulAlgoConfigSetAttribute);
  uint32_t word;
  cublasStatus_t status = setValue(word, value, bytes);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID)
    return CUBLAS_STATUS_INVALID_VALUE; // Set by cublasLtMatmulAlgoInit only.
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
    algorithm->data[Splits] = word;
  else if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
    algorithm->data[Scheme] = word;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
    size_t *written) {
  CUBLASLT_CALL(cublasLtMatmulAlgoConfigGetAttribute);
  uint32_t word = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID)
    word = static_cast<uint32_t>(algorithm->data[Id]);
  else if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
    word = static_cast<uint32_t>(algorithm->data[Splits]);
  else if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
    word = static_cast<uint32_t>(algorithm->data[Scheme]);
  if (bytes != sizeof word)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &word, sizeof word);
  if (written)
    *written = sizeof word;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
               size_t workspaceBytes, cudaStream_t handleOfStream) {
  CUBLASLT_CALL(cublasLtMatmul);
  if (!handle || !a || !b || !d)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status =
      checkShapes(*description, *aLayout, *bLayout, *cLayout, *dLayout);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  Product p{
      *description, *aLayout, *bLayout, *cLayout, *dLayout, a, b, c, d, 0, 0,
      nullptr,      0,        1};
  std::memcpy(&p.alpha, alpha, sizeof p.alpha);
  std::memcpy(&p.beta, beta, sizeof p.beta);
  if (algorithm) {
    if (algorithm->data[Magic] != kMagic)
      return CUBLAS_STATUS_INVALID_VALUE;
    p.splits = algorithm->data[Splits];
    p.workspaceBytes = algorithm->data[Workspace];
    if (p.splits > 1)
      p.workspaceBytes = std::max<size_t>(p.workspaceBytes, kSplitWorkspace);
    if (p.workspaceBytes > workspaceBytes || (p.workspaceBytes && !workspace))
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  p.workspace = static_cast<char *>(workspace);
  if ((p.readsBias() || p.writesBias()) && !p.how.bias)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (auto [data, type] : {std::pair(a, aLayout->type),
                            {b, bLayout->type},
                            {static_cast<const void *>(d), dLayout->type}})
    if (reinterpret_cast<uintptr_t>(data) % sizeOf(type) != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handleOfStream);
  if (!stream || stream->device != handle->device)
    return CUBLAS_STATUS_INVALID_VALUE;
  Step step;
  step.name = stream->label.empty() ? "a matrix product" : stream->label;
  step.run = [p, name = step.name](CUstream_st &on) {
    bool fine = true;
    Machine::get().work(on, name, [&] {
      fine = announce(p);
      if (fine)
        multiply(p);
    });
    if (!fine)
      Machine::get().poison(on.device, cudaErrorIllegalAddress);
  };
  machine.enqueue(*stream, std::move(step));
  return CUBLAS_STATUS_SUCCESS;
}
