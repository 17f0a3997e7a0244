//===- CublasLtObjects.h - What handles of cuBLASLt are ---------*- C++ -*-===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_CUBLASLTOBJECTS_H
#define CIUIC_TEST_CUDA_ON_HOST_CUBLASLTOBJECTS_H

#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/include/cublasLt.h"

#include <cstring>

struct cublasLtContext {
  int device;
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t pointerMode = CUBLASLT_POINTER_MODE_HOST;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr;
  int32_t biasType = -1;
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t order = CUBLASLT_ORDER_COL;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// Sets an attribute of type T.
template <typename T>
cublasStatus_t setValue(T &to, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// Returns from the caller where a test wants `function` to fail.
#define CUBLASLT_CALL(function)                                                \
  do {                                                                         \
    int status_ = 0;                                                           \
    if (ciuic::onhost::callFails(#function, status_))                          \
      return static_cast<cublasStatus_t>(status_);                             \
  } while (false)

#endif // CIUIC_TEST_CUDA_ON_HOST_CUBLASLTOBJECTS_H
