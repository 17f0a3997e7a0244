# The few ways in which targets are made here.

# Headers are found from the repository root: "dialect/Comm/Comm.h".
set(CIUIC_INCLUDES ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

# ciuic_mlir_library(name sources... [DEPENDS targets...] [LINK targets...])
# A part of the compiler: sees MLIR, shares the precompiled header.
function(ciuic_mlir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  ciuic_use_mlir(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# ciuic_mlir_tool(name sources... [LINK targets...])
function(ciuic_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  ciuic_use_mlir(${name})
  # As the precompiled header was made: -fPIC, not -fPIE.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()

function(ciuic_use_mlir name)
  target_include_directories(${name} PUBLIC ${CIUIC_INCLUDES})
  target_include_directories(${name} SYSTEM PUBLIC
    ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE -fno-rtti)
  if(TARGET CiuicPch)
    target_precompile_headers(${name} REUSE_FROM CiuicPch)
  endif()
endfunction()

# ciuic_doc(name td flags...)
# Markdown of a .td file, as build/docs/NAME.md; target ciuic-doc makes all.
add_custom_target(ciuic-doc ALL)
function(ciuic_doc name td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  # TableGen's list of outputs ends with this function's scope.
  mlir_tablegen(${name}.md ${ARGN})
  set(doc ${CMAKE_BINARY_DIR}/docs/${name}.md)
  add_custom_command(OUTPUT ${doc}
    COMMAND ${CMAKE_COMMAND} -E copy
      ${CMAKE_CURRENT_BINARY_DIR}/${name}.md ${doc}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${name}.md)
  add_custom_target(ciuic-doc-${name} DEPENDS ${doc})
  add_dependencies(ciuic-doc ciuic-doc-${name})
endfunction()

# ciuic_library(name sources... [LINK targets...])
# A part without MLIR: the runtime and the configuration reader.
function(ciuic_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CIUIC_INCLUDES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# ciuic_unit_test(name sources... [LINK targets...])
# One GoogleTest binary; ctest lists it by name as one test.
function(ciuic_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/bin)
  target_include_directories(${name} PRIVATE ${CIUIC_INCLUDES})
  target_compile_definitions(${name} PRIVATE
    CIUIC_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    CIUIC_CORPUS_DIR="${CIUIC_CORPUS_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# Real inputs that tests read where they are present and skip where not.
set(CIUIC_CORPUS_DIR "${CMAKE_SOURCE_DIR}/../shared/corpus" CACHE PATH
  "Folder of real configurations, models and texts for tests")

# The precompiled header that all compiler parts share.
file(WRITE ${CMAKE_BINARY_DIR}/pch/empty.cpp.tmp "// holds the shared header\n")
configure_file(${CMAKE_BINARY_DIR}/pch/empty.cpp.tmp
  ${CMAKE_BINARY_DIR}/pch/empty.cpp COPYONLY)
add_library(CiuicPch OBJECT ${CMAKE_BINARY_DIR}/pch/empty.cpp)
target_include_directories(CiuicPch SYSTEM PRIVATE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_options(CiuicPch PRIVATE -fno-rtti)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # ccache may reuse a header only if it does not hold its time of day.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
target_precompile_headers(CiuicPch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
