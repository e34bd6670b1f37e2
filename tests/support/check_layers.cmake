# Fails where a part of backends/ includes what it must not know, or asks which target it works for (see CONTRIBUTING.md,
# "How to add a backend"). FOLDER: the root of the repository.
set(found "")
function(refuse files pattern why)
  file(GLOB_RECURSE paths ${files})
  list(LENGTH paths count)
  if(count EQUAL 0)
    message(FATAL_ERROR "no files match ${files}")
  endif()
  foreach(path IN LISTS paths)
    file(STRINGS ${path} lines REGEX "${pattern}")
    foreach(line IN LISTS lines)
      string(APPEND found "${path}: ${line} (${why})\n")
    endforeach()
  endforeach()
  set(found "${found}" PARENT_SCOPE)
endfunction()

set(backends ${FOLDER}/backends)
refuse("${backends}/*.h;${backends}/*.cpp" "#include \"transforms/map/" "emitters print what the mapping decided")
refuse("${backends}/cuda/*.h;${backends}/cuda/*.cpp" "#include \"backends/(openmp|interpreter)/" "another target's")
refuse("${backends}/openmp/*.h;${backends}/openmp/*.cpp" "#include \"backends/(cuda|interpreter)/" "another target's")
refuse("${backends}/openmp/*.h;${backends}/openmp/*.cpp" "#include \"(transforms|dsl/symbolic|dsl/poly)/"
       "it prints what the IR says and finds nothing out")
refuse("${backends}/cuda/*.h;${backends}/cuda/*.cpp" "#include \"(transforms|dsl/poly)/"
       "it prints what the IR says; of integers it asks only how short an address can be, and how wide")
refuse("${backends}/interpreter/*.h;${backends}/interpreter/*.cpp" "#include \"backends/(cuda|openmp|c_text|jit)/"
       "another target's")
refuse("${backends}/c_text/*.h;${backends}/c_text/*.cpp" "#include \"backends/(cuda|openmp|interpreter|jit|runtime)/"
       "text only")
refuse("${backends}/jit/*.h;${backends}/jit/*.cpp;${backends}/runtime/*.h;${backends}/runtime/*.cpp"
       "#include \"backends/(cuda|openmp|interpreter|c_text)/" "an emitter's")
refuse("${backends}/*.h;${backends}/*.cpp" "[=!]= *(lg::|loopgrad::)?Target::" "ask the Backend")
if(found)
  message(FATAL_ERROR "${found}")
endif()
