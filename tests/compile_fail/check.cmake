# The compiler refuses a source, with the message that is meant: cmake -DCOMPILE=COMMAND;.. -DMESSAGE=REGEX -P check.cmake
execute_process(COMMAND ${COMPILE} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(status EQUAL 0)
  message(FATAL_ERROR "it compiles:\n${text}")
endif()
if(NOT text MATCHES "${MESSAGE}")
  message(FATAL_ERROR "it is refused, but not with '${MESSAGE}':\n${text}")
endif()
