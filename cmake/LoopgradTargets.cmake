# How this project's libraries and tests are declared, in one place.

# Executables that run on machines without the libraries: what has an archive is linked in, fmt as headers.
option(LOOPGRAD_STATIC "Link isl, gmp, fmt and libstdc++ statically" OFF)
if(LOOPGRAD_STATIC AND BUILD_SHARED_LIBS)
  message(FATAL_ERROR "LOOPGRAD_STATIC and BUILD_SHARED_LIBS exclude each other")
endif()
if(LOOPGRAD_STATIC)
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

find_package(fmt 9 REQUIRED)
set(LOOPGRAD_FMT $<IF:$<BOOL:${LOOPGRAD_STATIC}>,fmt::fmt-header-only,fmt::fmt>)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_path(LOOPGRAD_ISL_INCLUDE isl/cpp.h REQUIRED)
find_library(LOOPGRAD_ISL_LIBRARY isl REQUIRED)
find_library(LOOPGRAD_GMP_LIBRARY gmp REQUIRED)

set(LOOPGRAD_COMMON_HEADERS <algorithm> <functional> <map> <memory> <optional> <set> <string> <vector> <fmt/format.h>
  "${PROJECT_SOURCE_DIR}/dsl/ir/rewriter.h" "${PROJECT_SOURCE_DIR}/dsl/ir/queries.h")
set(LOOPGRAD_TEST_HEADERS ${LOOPGRAD_COMMON_HEADERS} <cmath> <gtest/gtest.h> <loopgrad/program.h>
  "${PROJECT_SOURCE_DIR}/dsl/ir/printer.h")

# loopgrad_precompiled(TARGET KIND HEADERS...): precompiled headers that all targets of a kind share. The first one of
# the kind has them.
function(loopgrad_precompiled name kind)
  get_property(first GLOBAL PROPERTY LOOPGRAD_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    target_precompile_headers(${name} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY LOOPGRAD_PRECOMPILED_${kind} ${name})
  endif()
  # The bug of -Wno-restrict again, which g++ 12 hides in system headers but not in ones that are compiled beforehand.
  target_compile_options(${name} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
endfunction()

# loopgrad_library(NAME [STATIC] [OPENMP] SOURCES ... [DEPENDS ...]): a library whose private headers are included from
# the root. Archives, or with BUILD_SHARED_LIBS shared libraries, but for those that say STATIC. OPENMP: with it.
function(loopgrad_library name)
  cmake_parse_arguments(ARG "STATIC;OPENMP" "" "SOURCES;DEPENDS;ALONE" ${ARGN})
  set(kind "")
  if(ARG_STATIC)
    set(kind STATIC)
  endif()
  add_library(${name} ${kind} ${ARG_SOURCES} ${ARG_ALONE})
  loopgrad_alone(${ARG_ALONE})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include> PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${LOOPGRAD_FMT} $<$<BOOL:${ARG_OPENMP}>:OpenMP::OpenMP_CXX>)
  loopgrad_warnings(${name})
  # What most files of a library include takes two fifths of their time: it is compiled once for all larger libraries,
  # and once more for those with OpenMP, as options must be the same.
  list(LENGTH ARG_SOURCES files)
  if(files GREATER 8)
    set(options plain)
    if(ARG_OPENMP)
      set(options openmp)
    endif()
    loopgrad_precompiled(${name} ${options} ${LOOPGRAD_COMMON_HEADERS})
  endif()
endfunction()

# Sources whose own names other files of the same target have as well, in a unity build, where several are compiled as
# one: each stays a translation unit of its own.
function(loopgrad_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(loopgrad_warnings name)
  # -Wshadow=local is g++'s, and so is -Wrestrict, which warns falsely inside std::string in g++ 12 (GCC bug 105651).
  set(gnu $<STREQUAL:${CMAKE_CXX_COMPILER_ID},GNU>)
  target_compile_options(${name} PRIVATE
    -Wall -Wextra $<${gnu}:-Wshadow=local> -Wnon-virtual-dtor $<${gnu}:-Wno-restrict>)
  # What std::stable_sort of libstdc++ 12 calls itself, which clang 17 and newer warn of at whoever calls it.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  # In a unity build the main file includes the sources, so that g++ takes what is local to one for a header's.
  target_compile_options(${name} PRIVATE $<$<AND:${gnu},$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>)
  if(LOOPGRAD_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
endfunction()

# loopgrad_test(NAME LABEL ... SOURCES ... [DEPENDS ...]): one GoogleTest executable, registered test by test.
function(loopgrad_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPENDS;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${ARG_ALONE})
  loopgrad_alone(${ARG_ALONE})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main ${LOOPGRAD_FMT})
  loopgrad_warnings(${name})
  # What takes time in tests is in the libraries; their own code compiles in two thirds of the time without optimisation.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST ARG_DEPENDS)
    loopgrad_precompiled(${name} tests ${LOOPGRAD_TEST_HEADERS})
  endif()
  set_property(GLOBAL APPEND PROPERTY LOOPGRAD_TESTS ${name})
  gtest_discover_tests(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 600 DISCOVERY_TIMEOUT 60)
endfunction()
