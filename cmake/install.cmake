# What `make install` leaves: header, both libraries, the command, an exported CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(exported faltung_static faltung_shared)
set_target_properties(faltung_static PROPERTIES EXPORT_NAME static)
set_target_properties(faltung_shared PROPERTIES EXPORT_NAME faltung)
install(TARGETS ${exported} EXPORT faltung-targets)
install(FILES include/faltung/faltung.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/faltung)
if(TARGET faltung_cli)
  install(TARGETS faltung_cli)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/faltung)
install(EXPORT faltung-targets NAMESPACE faltung:: DESTINATION ${package})
file(WRITE ${PROJECT_BINARY_DIR}/faltung-config.cmake "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n\
include(\"\${CMAKE_CURRENT_LIST_DIR}/faltung-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/faltung-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/faltung-config.cmake ${PROJECT_BINARY_DIR}/faltung-config-version.cmake
        DESTINATION ${package})

configure_file(cmake/faltung.pc.in faltung.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/faltung.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
