# Fails where a test's name or parameter is printed as bytes: give the suite a name generator, and its type a PrintTo.
foreach(test IN LISTS TESTS)
  execute_process(COMMAND ${test} --gtest_list_tests OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  if(names MATCHES "[^\n]*-byte object[^\n]*")
    message(FATAL_ERROR "${test} prints bytes: ${CMAKE_MATCH_0}")
  endif()
endforeach()
