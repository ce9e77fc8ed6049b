# Where bench finds suites and peers, in the source tree and installed; and which commit a measurement was taken of.
find_package(Git QUIET)
set(commit "${FALT_COMMIT}") # given where there is no repository
if(Git_FOUND AND NOT commit)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # A commit changes this log, and so configures again: a measurement must not carry an old commit.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${log}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
  endif()
endif()
set_property(SOURCE ${PROJECT_SOURCE_DIR}/cli/machine.c APPEND PROPERTY COMPILE_DEFINITIONS FALT_COMMIT="${commit}")
set_property(SOURCE ${PROJECT_SOURCE_DIR}/cli/share.c APPEND PROPERTY COMPILE_DEFINITIONS
             FALT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FALT_DATA_DIR="${CMAKE_INSTALL_FULL_DATADIR}/faltung")
