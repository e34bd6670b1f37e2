# The names that users link, loopgrad::loopgrad and loopgrad::main, in this build and after `cmake --install`.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(loopgrad::loopgrad ALIAS loopgrad_backends)
add_library(loopgrad::main ALIAS loopgrad_main)

set(LOOPGRAD_LIBRARIES loopgrad_dsl loopgrad_poly loopgrad_interpreter loopgrad_c_text loopgrad_jit loopgrad_openmp loopgrad_cuda loopgrad_tape loopgrad_transforms
  loopgrad_backends loopgrad_support loopgrad_fuzz loopgrad_main)
foreach(library ${LOOPGRAD_LIBRARIES})
  string(REPLACE loopgrad_ "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(loopgrad_backends PROPERTIES EXPORT_NAME loopgrad)
if(LOOPGRAD_STATIC)  # who links the installed libraries gets executables that move between machines, too
  target_link_options(loopgrad_dsl INTERFACE $<INSTALL_INTERFACE:-static-libstdc++> $<INSTALL_INTERFACE:-static-libgcc>)
endif()

if(BUILD_SHARED_LIBS)  # they change with each version, and find each other where they are installed together
  set_target_properties(${LOOPGRAD_LIBRARIES} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION}
    INSTALL_RPATH "$ORIGIN")
  file(RELATIVE_PATH to_libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(loopgrad PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")
endif()
install(TARGETS ${LOOPGRAD_LIBRARIES} EXPORT loopgrad
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS loopgrad RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY dsl/include/ tape/include/ transforms/include/ backends/include/ tools/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(LOOPGRAD_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/loopgrad)
install(EXPORT loopgrad NAMESPACE loopgrad:: FILE loopgradTargets.cmake DESTINATION ${LOOPGRAD_CONFIG_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/loopgradConfig.cmake.in
  ${PROJECT_BINARY_DIR}/loopgradConfig.cmake INSTALL_DESTINATION ${LOOPGRAD_CONFIG_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/loopgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/loopgradConfig.cmake ${PROJECT_BINARY_DIR}/loopgradConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/LoopgradAddGradient.cmake
  DESTINATION ${LOOPGRAD_CONFIG_DIR})
