# Gradients as sources of a target, made at build time.
#
#   loopgrad_add_gradient(TARGET PROGRAM FILE...
#     [KIND openmp|cuda] [NAME name] [VARIANT variant] [FACTS verify|trust|check-accesses] [SIZE n=1000,k=16]
#     [PRODUCTS library] [PORTABLE])
#
# FILE... are a C++ program that registers PROGRAM with loopgrad::main_with. It is built once for all gradients that are
# made of it, and run by the build: `emit PROGRAM` writes NAME.h and NAME.cpp (or .cu), which become sources of TARGET;
# TARGET may #include "NAME.h", also from C. NAME is PROGRAM unless it is given. Nothing of loopgrad is linked to TARGET.
#
# PRODUCTS: a library or target with the Fortran interface of BLAS (openmp), or that of cuBLAS (cuda); without it
# loops do products of matrices. PORTABLE: for any machine of this kind, in place of the one that builds.
# CUDA needs enable_language(CUDA).

# What emitted C++ is right under, and what makes it fast: as `emit` prints it. Tests compare the two.
set(LOOPGRAD_EMITTED_FLAGS -fwrapv -ffp-contract=off -fno-tree-loop-distribution -O3 -march=native
  -fno-predictive-commoning -fno-loop-unroll-and-jam -fno-thread-jumps -fno-math-errno -fno-trapping-math)
set(LOOPGRAD_EMITTED_CUDA_FLAGS -O3 --fmad=false)

# Sets `result` to the executable that emits the programs of these files, which is declared once.
function(_loopgrad_generator result)
  set(paths "")
  foreach(file IN LISTS ARGN)
    get_filename_component(path ${file} ABSOLUTE)
    list(APPEND paths ${path})
  endforeach()
  string(MD5 hash "${paths}")
  string(SUBSTRING ${hash} 0 8 hash)
  list(GET paths 0 first)
  get_filename_component(stem ${first} NAME_WE)
  set(generator loopgrad_emit_${stem}_${hash})
  if(NOT TARGET ${generator})
    add_executable(${generator} EXCLUDE_FROM_ALL ${paths})
    target_link_libraries(${generator} PRIVATE loopgrad::main)
    target_compile_features(${generator} PRIVATE cxx_std_20)
  endif()
  set(${result} ${generator} PARENT_SCOPE)
endfunction()

function(_loopgrad_build_settings target source name kind products portable)
  string(TOUPPER ${name} macro)
  if(kind STREQUAL "cuda")
    set(flags ${LOOPGRAD_EMITTED_CUDA_FLAGS})
    set(macro ${macro}_NO_CUBLAS)
  else()
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
    set(flags ${LOOPGRAD_EMITTED_FLAGS})
    if(portable)
      list(REMOVE_ITEM flags -march=native)
    endif()
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # others do not know all of g++'s
      list(REMOVE_ITEM flags -fno-tree-loop-distribution -fno-predictive-commoning -fno-loop-unroll-and-jam
        -fno-thread-jumps)
    endif()
    list(APPEND flags -std=c++20)
    set(macro ${macro}_NO_BLAS)
  endif()
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${flags}")
  if(products)
    target_link_libraries(${target} PRIVATE ${products})
  else()
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_DEFINITIONS ${macro})
  endif()
endfunction()

function(loopgrad_add_gradient target program)
  cmake_parse_arguments(ARG "PORTABLE" "KIND;NAME;VARIANT;FACTS;SIZE;PRODUCTS" "" ${ARGN})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "loopgrad_add_gradient: there is no target '${target}'; declare it first")
  endif()
  if(NOT ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "loopgrad_add_gradient: name the file that registers '${program}'")
  endif()
  if(NOT ARG_KIND)
    set(ARG_KIND openmp)
  endif()
  if(NOT ARG_NAME)
    set(ARG_NAME ${program})
  endif()
  if(NOT ARG_KIND MATCHES "^(openmp|cuda)$" OR NOT ARG_NAME MATCHES "^[A-Za-z]([A-Za-z0-9]|_[A-Za-z0-9])*$")
    message(FATAL_ERROR "loopgrad_add_gradient: KIND '${ARG_KIND}' must be openmp or cuda, and NAME '${ARG_NAME}' a name in C "
      "without leading, trailing or double underscores")
  endif()
  set(options --target ${ARG_KIND} --name ${ARG_NAME})
  foreach(option VARIANT FACTS SIZE)
    if(ARG_${option})
      string(TOLOWER ${option} word)
      list(APPEND options --${word} ${ARG_${option}})
    endif()
  endforeach()

  _loopgrad_generator(generator ${ARG_UNPARSED_ARGUMENTS})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/loopgrad/${target})
  set(ending cpp)
  if(ARG_KIND STREQUAL "cuda")
    set(ending cu)
  endif()
  set(source ${folder}/${ARG_NAME}.${ending})
  # `emit` leaves files alone that would not change; the stamp says when it has run.
  add_custom_command(OUTPUT ${source}.made BYPRODUCTS ${source} ${folder}/${ARG_NAME}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${generator} emit ${program} ${options} --out ${folder}
    COMMAND ${CMAKE_COMMAND} -E touch ${source}.made
    DEPENDS ${generator} COMMENT "loopgrad: gradient of ${program} for ${ARG_KIND}" VERBATIM)
  add_custom_target(${target}_${ARG_NAME}_gradient DEPENDS ${source}.made)
  set_source_files_properties(${source} ${folder}/${ARG_NAME}.h TARGET_DIRECTORY ${target} PROPERTIES GENERATED ON)
  target_sources(${target} PRIVATE ${source})
  target_include_directories(${target} PRIVATE ${folder})
  add_dependencies(${target} ${target}_${ARG_NAME}_gradient)
  _loopgrad_build_settings(${target} ${source} ${ARG_NAME} ${ARG_KIND} "${ARG_PRODUCTS}" "${ARG_PORTABLE}")
endfunction()
