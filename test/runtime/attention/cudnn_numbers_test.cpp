//===- cudnn_numbers_test.cpp - Our numbers against cuDNN's headers -------===//
//
// Built where the headers are: the runtime itself does not read them.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/cudnn/CudnnLibrary.h"

#include <cudnn_graph.h>
#include <gtest/gtest.h>

namespace ciuic::rt::cudnn {
namespace {

// Kinds, types and names of attributes.
TEST(CudnnNumbers, Backend) {
  EXPECT_EQ(kind::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(kind::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EXPECT_EQ(kind::engineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_EQ(kind::engineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  EXPECT_EQ(kind::executionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(kind::pointwiseOperation,
            CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(kind::operationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_EQ(kind::variantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  EXPECT_EQ(kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(kind::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  EXPECT_EQ(kind::matmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  EXPECT_EQ(kind::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  EXPECT_EQ(kind::reductionOperation,
            CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  EXPECT_EQ(kind::reshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  EXPECT_EQ(type::handle, CUDNN_TYPE_HANDLE);
  EXPECT_EQ(type::dataType, CUDNN_TYPE_DATA_TYPE);
  EXPECT_EQ(type::boolean, CUDNN_TYPE_BOOLEAN);
  EXPECT_EQ(type::int64, CUDNN_TYPE_INT64);
  EXPECT_EQ(type::pointer, CUDNN_TYPE_VOID_PTR);
  EXPECT_EQ(type::heuristicsMode, CUDNN_TYPE_HEUR_MODE);
  EXPECT_EQ(type::numericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
  EXPECT_EQ(type::pointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
  EXPECT_EQ(type::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  EXPECT_EQ(type::reductionOperator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  EXPECT_EQ(attribute::pointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
  EXPECT_EQ(attribute::pointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
  EXPECT_EQ(attribute::pointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
  EXPECT_EQ(attribute::heuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
  EXPECT_EQ(attribute::heuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  EXPECT_EQ(attribute::heuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  EXPECT_EQ(attribute::configEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
  EXPECT_EQ(attribute::planHandle, 400); // Its name is deprecated.
  EXPECT_EQ(attribute::planConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  EXPECT_EQ(attribute::planWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  EXPECT_EQ(attribute::operationPointwise,
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  EXPECT_EQ(attribute::operationPointwiseX,
            CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  EXPECT_EQ(attribute::operationPointwiseB,
            CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  EXPECT_EQ(attribute::operationPointwiseY,
            CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  EXPECT_EQ(attribute::operationPointwiseT,
            CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  EXPECT_EQ(attribute::graphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  EXPECT_EQ(attribute::tensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  EXPECT_EQ(attribute::tensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
  EXPECT_EQ(attribute::tensorSizes, CUDNN_ATTR_TENSOR_DIMENSIONS);
  EXPECT_EQ(attribute::tensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
  EXPECT_EQ(attribute::tensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  EXPECT_EQ(attribute::tensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  EXPECT_EQ(attribute::tensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  EXPECT_EQ(attribute::packIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  EXPECT_EQ(attribute::packPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  EXPECT_EQ(attribute::packWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  EXPECT_EQ(attribute::engineNumericalNote, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  EXPECT_EQ(attribute::matmulType, CUDNN_ATTR_MATMUL_COMP_TYPE);
  EXPECT_EQ(attribute::matmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  EXPECT_EQ(attribute::matmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  EXPECT_EQ(attribute::matmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  EXPECT_EQ(attribute::matmulDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  EXPECT_EQ(attribute::reductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR);
  EXPECT_EQ(attribute::reductionType, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  EXPECT_EQ(attribute::reductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  EXPECT_EQ(attribute::reductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  EXPECT_EQ(attribute::reductionDescriptor,
            CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  EXPECT_EQ(attribute::reshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  EXPECT_EQ(attribute::reshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
}

// Values of attributes.
TEST(CudnnNumbers, Values) {
  EXPECT_EQ(static_cast<int>(DataType::Float), CUDNN_DATA_FLOAT);
  EXPECT_EQ(static_cast<int>(DataType::Half), CUDNN_DATA_HALF);
  EXPECT_EQ(static_cast<int>(DataType::Int32), CUDNN_DATA_INT32);
  EXPECT_EQ(static_cast<int>(DataType::BFloat16), CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(static_cast<int>(DataType::Boolean), CUDNN_DATA_BOOLEAN);
  EXPECT_EQ(static_cast<int>(Pointwise::Add), CUDNN_POINTWISE_ADD);
  EXPECT_EQ(static_cast<int>(Pointwise::Mul), CUDNN_POINTWISE_MUL);
  EXPECT_EQ(static_cast<int>(Pointwise::Div), CUDNN_POINTWISE_DIV);
  EXPECT_EQ(static_cast<int>(Pointwise::Sub), CUDNN_POINTWISE_SUB);
  EXPECT_EQ(static_cast<int>(Pointwise::Exp), CUDNN_POINTWISE_EXP);
  EXPECT_EQ(static_cast<int>(Pointwise::Log), CUDNN_POINTWISE_LOG);
  EXPECT_EQ(static_cast<int>(Pointwise::GreaterOrEqual),
            CUDNN_POINTWISE_CMP_GE);
  EXPECT_EQ(static_cast<int>(Pointwise::GenerateIndex),
            CUDNN_POINTWISE_GEN_INDEX);
  EXPECT_EQ(static_cast<int>(Pointwise::Select), CUDNN_POINTWISE_BINARY_SELECT);
  EXPECT_EQ(static_cast<int>(Reduce::Add), CUDNN_REDUCE_TENSOR_ADD);
  EXPECT_EQ(static_cast<int>(Reduce::Max), CUDNN_REDUCE_TENSOR_MAX);
  EXPECT_EQ(static_cast<int>(Heuristics::Fallback), CUDNN_HEUR_MODE_FALLBACK);
  EXPECT_EQ(static_cast<int>(Heuristics::A), CUDNN_HEUR_MODE_A);
  EXPECT_EQ(noteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

#if CUDNN_VERSION >= 90800
// Descriptions of devices came later.
TEST(CudnnNumbers, DeviceProperties) {
  EXPECT_EQ(kind::deviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  EXPECT_EQ(type::character, CUDNN_TYPE_CHAR);
  EXPECT_EQ(attribute::heuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  EXPECT_EQ(attribute::planDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  EXPECT_EQ(attribute::deviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}
#endif

} // namespace
} // namespace ciuic::rt::cudnn
