# How sources against CUDA are built for the CPU, and for CUDA where it is.

# What makes the compiler tell of every load and store of a kernel. The
# runtime of the sanitizer is not linked: CiuicCudaOnHost answers the calls.
set(CIUIC_ON_HOST_KERNEL_OPTIONS
  -x c++ -std=c++20 -O2 -fsanitize=thread
  -mllvm=-tsan-instrument-func-entry-exit=0
  -mllvm=-tsan-instrument-atomics=0
  -mllvm=-tsan-compound-read-before-write=1
  -fno-vectorize -fno-slp-vectorize -Wno-unused-function
  CACHE INTERNAL "Of kernels: seen from every folder")

# ciuic_cuda_on_host_kernels(name sources...)
# Sources of kernels (.cu, .cuh or .cpp) as an object library with their
# accesses recorded.
function(ciuic_cuda_on_host_kernels name)
  add_library(${name} OBJECT ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${CIUIC_INCLUDES})
  target_compile_options(${name} PRIVATE ${CIUIC_ON_HOST_KERNEL_OPTIONS})
  target_link_libraries(${name} PUBLIC CiuicCudaOnHost)
endfunction()

# ciuic_cuda_on_host_test(name sources... [LINK targets...])
# A GoogleTest binary whose sources may hold kernels.
function(ciuic_cuda_on_host_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  ciuic_unit_test(${name} LINK CiuicCudaOnHost ${ARG_LINK})
  target_sources(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  set_source_files_properties(${ARG_UNPARSED_ARGUMENTS} PROPERTIES
    LANGUAGE CXX)
  target_compile_options(${name} PRIVATE ${CIUIC_ON_HOST_KERNEL_OPTIONS})
endfunction()
