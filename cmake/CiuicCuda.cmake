# Where CUDA is, and how sources against it are built.

# The toolkit with the libraries that GPU programs link. Without it only what
# runs on the tests' emulation is built.
set(CIUIC_CUDA_ROOT "/usr/local/cuda" CACHE PATH "The CUDA toolkit")
find_path(CIUIC_CUDA_INCLUDE cuda_runtime.h
  HINTS ${CIUIC_CUDA_ROOT}/include)
foreach(library cudart cublasLt nccl)
  find_library(CIUIC_CUDA_${library} ${library}
    HINTS ${CIUIC_CUDA_ROOT}/lib64 ${CIUIC_CUDA_ROOT}/lib)
endforeach()
find_path(CIUIC_CUDA_NCCL_INCLUDE nccl.h HINTS ${CIUIC_CUDA_ROOT}/include)
if(CIUIC_CUDA_INCLUDE AND CIUIC_CUDA_NCCL_INCLUDE AND CIUIC_CUDA_cudart
    AND CIUIC_CUDA_cublasLt AND CIUIC_CUDA_nccl)
  set(CIUIC_HAS_CUDA TRUE)
  add_library(CiuicCudaToolkit INTERFACE)
  target_include_directories(CiuicCudaToolkit SYSTEM INTERFACE
    ${CIUIC_CUDA_INCLUDE} ${CIUIC_CUDA_NCCL_INCLUDE})
  target_link_libraries(CiuicCudaToolkit INTERFACE ${CIUIC_CUDA_cudart}
    ${CIUIC_CUDA_cublasLt} ${CIUIC_CUDA_nccl} ${CMAKE_DL_LIBS})
else()
  set(CIUIC_HAS_CUDA FALSE)
  message(STATUS "CUDA was not found: what needs it is not built")
endif()

# ciuic_cuda_library(name sources... [LINK targets...] [CUDA_LINK targets...])
# Host code of the CUDA runtime, twice: `name` against the toolkit, where there
# is one, and `name_on_host` against the tests' emulation. CUDA_LINK names
# other libraries that were made so.
function(ciuic_cuda_library name)
  cmake_parse_arguments(ARG "" "" "LINK;CUDA_LINK" ${ARGN})
  if(CIUIC_HAS_CUDA)
    ciuic_library(${name} ${ARG_UNPARSED_ARGUMENTS}
      LINK ${ARG_LINK} ${ARG_CUDA_LINK} CiuicCudaToolkit)
  endif()
  list(TRANSFORM ARG_CUDA_LINK APPEND _on_host)
  ciuic_library(${name}_on_host ${ARG_UNPARSED_ARGUMENTS}
    LINK ${ARG_LINK} ${ARG_CUDA_LINK} CiuicCudaOnHost)
  # Only with the tests that use it.
  set_target_properties(${name}_on_host PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()
