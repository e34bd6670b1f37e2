# Installs BUILD into a fresh folder under WORK, then configures, builds and runs the project beside this file with it, by
# the build tool of BUILD: another one may not be installed.
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
  -DCMAKE_PREFIX_PATH=${WORK}/installed -DEXAMPLES=${EXAMPLES} -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/quickstart)
run(${WORK}/build/own_program check damped)
run(${WORK}/build/fit)
