# The command. Everything it reads and writes beyond .npy is optional.
file(GLOB FALT_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c ${PROJECT_SOURCE_DIR}/cli/io/*.c)
if(FALT_CLI_SOURCES)
  add_executable(faltung_cli ${FALT_CLI_SOURCES})
  set_target_properties(faltung_cli PROPERTIES OUTPUT_NAME faltung)
  target_include_directories(faltung_cli PRIVATE ${PROJECT_SOURCE_DIR}/cli)
  target_compile_definitions(faltung_cli PRIVATE _GNU_SOURCE)
  target_link_libraries(faltung_cli PRIVATE faltung_static)
endif()
