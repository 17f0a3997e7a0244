//===- CublasLtObjects.cpp - Handles and their attributes -------*- C++ -*-===//
#include "test/cuda_on_host/CublasLtObjects.h"

using namespace ciuic::onhost;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  CUBLASLT_CALL(cublasLtCreate);
  *handle = new cublasLtContext{currentDevice()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  CUBLASLT_CALL(cublasLtDestroy);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() {
  return Machine::get().settings().cublasLtVersion;
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "CUBLAS_STATUS_ARCH_MISMATCH";
  case CUBLAS_STATUS_MAPPING_ERROR:
    return "CUBLAS_STATUS_MAPPING_ERROR";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_INTERNAL_ERROR:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  case CUBLAS_STATUS_LICENSE_ERROR:
    return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  CUBLASLT_CALL(cublasLtMatmulDescCreate);
  *description = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  CUBLASLT_CALL(cublasLtMatmulDescSetAttribute);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return setValue(description->compute, value, bytes);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return setValue(description->scale, value, bytes);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return setValue(description->pointerMode, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return setValue(description->transA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return setValue(description->transB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return setValue(description->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return setValue(description->bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return setValue(description->biasType, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  CUBLASLT_CALL(cublasLtMatrixLayoutCreate);
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  CUBLASLT_CALL(cublasLtMatrixLayoutSetAttribute);
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return setValue(layout->type, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return setValue(layout->order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return setValue(layout->rows, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return setValue(layout->columns, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return setValue(layout->ld, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  CUBLASLT_CALL(cublasLtMatmulPreferenceCreate);
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  CUBLASLT_CALL(cublasLtMatmulPreferenceSetAttribute);
  uint32_t ignored;
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return setValue(preference->workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return setValue(preference->schemes, value, bytes);
  case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return setValue(ignored, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
