# Builds a bundle for CUDA from its own sources, where the GPUs are:
#   lib/libjob.so  the job's kernels and tables
#   bin/train      `ciuicc train` for this bundle
# The CMakeLists.txt beside the sources sets JOB_ARCHITECTURES, JOB_ISA and
# JOB_FLAGS and includes this.
#
# CIUIC_CUDA_ON_HOST=DIR builds all of it for tests without a GPU, by clang++,
# against the stand-in for CUDA at DIR (its include/ and CudaOnHost.cmake) and,
# as CIUIC_CUDA_ON_HOST_LIBRARY, its library. CIUIC_TRAIN=OFF leaves bin/train
# out.
option(CIUIC_TRAIN "Build bin/train" ON)
set(CIUIC_CUDA_ON_HOST "" CACHE PATH "Stand-in for CUDA, for tests")
set(CIUIC_CUDA_ON_HOST_LIBRARY "" CACHE FILEPATH "Its library")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(bundle ${CMAKE_CURRENT_SOURCE_DIR}/..)

# What the job needs of CUDA.
add_library(job_cuda INTERFACE)
if(CIUIC_CUDA_ON_HOST)
  target_include_directories(job_cuda INTERFACE ${CIUIC_CUDA_ON_HOST}/include)
  target_compile_definitions(job_cuda INTERFACE CIUIC_CUDA_ON_HOST)
  target_link_libraries(job_cuda INTERFACE ${CIUIC_CUDA_ON_HOST_LIBRARY})
  include(${CIUIC_CUDA_ON_HOST}/CudaOnHost.cmake)
else()
  # The toolkit is where nvcc is; that it is on the path is not needed.
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(JOB_NVCC nvcc
      HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
    if(JOB_NVCC)
      set(CMAKE_CUDA_COMPILER ${JOB_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${JOB_ARCHITECTURES})
  if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER g++)
  endif()
  # One copy of the CUDA runtime serves bin/train and the job.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  target_link_libraries(job_cuda INTERFACE CUDA::cudart)
endif()

# The job. A kernel file that the job has no use for is not there.
set(JOB_SOURCES program.cpp)
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/kernels.cpp)
  list(APPEND JOB_SOURCES kernels.cpp)
endif()
set_source_files_properties(${JOB_SOURCES} PROPERTIES COMPILE_OPTIONS
  "${JOB_FLAGS};-march=${JOB_ISA}")
set(JOB_DEVICE_SOURCES "")
foreach(file attention.cu library.cu kernels.cu)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    list(APPEND JOB_DEVICE_SOURCES ${file})
  endif()
endforeach()
add_library(job MODULE ${JOB_SOURCES})
target_include_directories(job PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(job PRIVATE job_cuda)
if(CIUIC_CUDA_ON_HOST)
  # Every byte that a kernel reads or writes is told to the stand-in.
  add_library(job_kernels OBJECT ${JOB_DEVICE_SOURCES})
  set_source_files_properties(${JOB_DEVICE_SOURCES} PROPERTIES LANGUAGE CXX)
  set_target_properties(job_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden)
  target_include_directories(job_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(job_kernels PRIVATE ${CIUIC_ON_HOST_KERNEL_OPTIONS})
  target_link_libraries(job_kernels PRIVATE job_cuda)
  target_sources(job PRIVATE $<TARGET_OBJECTS:job_kernels>)
else()
  target_sources(job PRIVATE ${JOB_DEVICE_SOURCES})
  set_target_properties(job PROPERTIES CUDA_STANDARD 20)
  set_source_files_properties(${JOB_DEVICE_SOURCES} PROPERTIES COMPILE_OPTIONS
    "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall")
endif()
set_target_properties(job PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${bundle}/lib LIBRARY_OUTPUT_NAME job)

if(NOT CIUIC_TRAIN)
  return()
endif()
# The runner: the runtime less what only CPU devices need.
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_path(JOB_XXHASH_INCLUDE xxhash.h REQUIRED)
# Optimizer states in files move by io_uring where it is there, else by threads.
find_path(JOB_URING_INCLUDE liburing.h)
find_library(JOB_URING uring)
file(GLOB_RECURSE TRAIN_SOURCES
  ${CMAKE_CURRENT_SOURCE_DIR}/runtime/*.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/tools/*.cpp)
list(FILTER TRAIN_SOURCES EXCLUDE REGEX "/runtime/comm/mpi/")
add_executable(train ${TRAIN_SOURCES})
set_target_properties(train PROPERTIES
  CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
  RUNTIME_OUTPUT_DIRECTORY ${bundle}/bin)
target_compile_definitions(train PRIVATE NDEBUG)
target_include_directories(train PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(train SYSTEM PRIVATE ${JOB_XXHASH_INCLUDE})
target_link_libraries(train PRIVATE job_cuda TBB::tbb
  nlohmann_json::nlohmann_json CLI11::CLI11 fmt::fmt Threads::Threads
  ${CMAKE_DL_LIBS})
if(JOB_URING AND JOB_URING_INCLUDE)
  target_include_directories(train SYSTEM PRIVATE ${JOB_URING_INCLUDE})
  target_link_libraries(train PRIVATE ${JOB_URING})
  target_compile_definitions(train PRIVATE CIUIC_HAS_IO_URING)
endif()
foreach(level 3 4)
  set_source_files_properties(
    ${CMAKE_CURRENT_SOURCE_DIR}/runtime/kernels/host/isa/HostKernelsV${level}.cpp
    PROPERTIES COMPILE_OPTIONS
    "-O3;-march=x86-64-v${level};-fno-math-errno;-fno-trapping-math")
endforeach()
if(NOT CIUIC_CUDA_ON_HOST)
  target_link_libraries(train PRIVATE CUDA::cublasLt)
  # A package for Python has the library under its full name alone.
  find_library(JOB_NCCL NAMES nccl libnccl.so.2
    HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
  find_path(JOB_NCCL_INCLUDE nccl.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  target_include_directories(train SYSTEM PRIVATE ${JOB_NCCL_INCLUDE})
  target_link_libraries(train PRIVATE ${JOB_NCCL})
endif()

# Processes that mpirun starts load this; others need no MPI.
find_package(MPI COMPONENTS CXX QUIET)
file(GLOB MPI_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/runtime/comm/mpi/*.cpp)
if(MPI_CXX_FOUND AND MPI_SOURCES)
  add_library(ciuic_mpi MODULE ${MPI_SOURCES})
  set_target_properties(ciuic_mpi PROPERTIES CXX_STANDARD 20
    LIBRARY_OUTPUT_DIRECTORY ${bundle}/lib)
  target_include_directories(ciuic_mpi PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(ciuic_mpi PRIVATE OMPI_SKIP_MPICXX NDEBUG)
  target_link_libraries(ciuic_mpi PRIVATE MPI::MPI_CXX)
endif()
