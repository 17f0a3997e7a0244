# Every library the project links, all from Debian.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The precompiled header needs the sloppiness; see CiuicTargets.cmake.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# TableGen finds .td files from the repository root and MLIR's own.
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
# Debian's dnnl package file asks for OpenCL, which the CPU engine never uses.
find_library(CIUIC_DNNL dnnl REQUIRED)
find_path(CIUIC_DNNL_INCLUDE dnnl.h REQUIRED)
add_library(CiuicDnnl INTERFACE)
target_link_libraries(CiuicDnnl INTERFACE ${CIUIC_DNNL})
target_include_directories(CiuicDnnl SYSTEM INTERFACE ${CIUIC_DNNL_INCLUDE})
find_library(CIUIC_URING uring REQUIRED)
find_path(CIUIC_URING_INCLUDE liburing.h REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
include(GoogleTest)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
endif()
add_compile_options(-Wall -Wextra -Wno-unused-parameter)
