# What `make install` leaves: headers, both libraries, the command with its manual page, completions, suites and peers, an
# exported CMake package, a pkg-config file, and the pages with the examples. ci/check-install has the list.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(exported faltung_static faltung_shared)
set_target_properties(faltung_static PROPERTIES EXPORT_NAME static)
set_target_properties(faltung_shared PROPERTIES EXPORT_NAME faltung)
install(TARGETS ${exported} EXPORT faltung-targets)
install(FILES include/faltung/faltung.h include/faltung/faltung.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/faltung)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/faltung)
install(EXPORT faltung-targets NAMESPACE faltung:: DESTINATION ${package})
file(WRITE ${PROJECT_BINARY_DIR}/faltung-config.cmake "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n\
include(\"\${CMAKE_CURRENT_LIST_DIR}/faltung-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/faltung-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/faltung-config.cmake ${PROJECT_BINARY_DIR}/faltung-config-version.cmake
        DESTINATION ${package})

configure_file(cmake/faltung.pc.in faltung.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/faltung.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The pages link to each other as they do in the source tree.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN demo EXCLUDE PATTERN __pycache__ EXCLUDE)

# falt_print(FILE DIRECTORY words...): FILE is what the built command prints for `faltung help words...`.
set(printed)
function(falt_print name directory)
  set(file ${PROJECT_BINARY_DIR}/printed/${name})
  add_custom_command(OUTPUT ${file} DEPENDS faltung_cli COMMAND faltung_cli help ${ARGN} > ${file} VERBATIM)
  install(FILES ${file} DESTINATION ${directory})
  set(printed ${printed} ${file} PARENT_SCOPE)
endfunction()

if(TARGET faltung_cli)
  install(TARGETS faltung_cli)
  install(DIRECTORY ladder DESTINATION ${CMAKE_INSTALL_DATADIR}/faltung FILES_MATCHING PATTERN cpu*.c PATTERN *.cu PATTERN *.cuh PATTERN shape.h)
  install(DIRECTORY bench/ DESTINATION ${CMAKE_INSTALL_DATADIR}/faltung/bench USE_SOURCE_PERMISSIONS
          PATTERN results EXCLUDE PATTERN .venv EXCLUDE PATTERN __pycache__ EXCLUDE)
  if(CMAKE_CROSSCOMPILING)
    message(STATUS "Manual page and completions: left out, the command does not run here")
  else()
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/printed)
    falt_print(faltung.1 ${CMAKE_INSTALL_MANDIR}/man1 --man)
    falt_print(faltung ${CMAKE_INSTALL_DATADIR}/bash-completion/completions --completion bash)
    falt_print(_faltung ${CMAKE_INSTALL_DATADIR}/zsh/site-functions --completion zsh)
    falt_print(faltung.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d --completion fish)
    add_custom_target(faltung_printed ALL DEPENDS ${printed})
  endif()
endif()
