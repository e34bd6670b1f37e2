# A Debian package of what `cmake --install` installs: `cmake --preset package && cmake --build --preset package`.
# The libraries are archives, so what they use has to be there wherever something is linked with them.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "loopgrad maintainers <maintainers@loopgrad.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS
  "g++, libcli11-dev, libfmt-dev, libgmp-dev, libisl-dev, libxxhash-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cmake, libopenblas0-pthread")
find_program(LOOPGRAD_SHLIBDEPS dpkg-shlibdeps)  # of dpkg-dev: finds the shared libraries of the command line
if(LOOPGRAD_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
