# The command, and the files it reads and writes. .npy is built in. Images, audio and volumes are modules loaded on first
# use, so that the command starts fast; each is built if its library is found, and left out with a word if not.
include(GNUInstallDirs)
find_package(PkgConfig)
set(FALT_MODULE_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/faltung)

file(GLOB FALT_IO_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/io/*.c)
add_library(faltung_io STATIC ${FALT_IO_SOURCES})
# -iquote: cli/ has headers whose names are system headers' too.
target_compile_options(faltung_io PUBLIC "SHELL:-iquote ${PROJECT_SOURCE_DIR}/cli")
target_compile_definitions(faltung_io PRIVATE _GNU_SOURCE FALT_MODULE_DIR="${FALT_MODULE_DIR}"
                           FALT_LIBDIR="${CMAKE_INSTALL_LIBDIR}")
target_link_libraries(faltung_io PUBLIC faltung_static PRIVATE ${CMAKE_DL_LIBS})

# Compressed members of .npz archives; stored ones need no library.
find_package(ZLIB QUIET)
if(ZLIB_FOUND)
  message(STATUS "Compressed archives (zlib): found ${ZLIB_VERSION_STRING}")
  target_compile_definitions(faltung_io PRIVATE FALT_ZLIB_VERSION="${ZLIB_VERSION_STRING}")
  target_link_libraries(faltung_io PRIVATE ZLIB::ZLIB)
else()
  message(STATUS "Compressed archives (zlib): not found, left out (Debian: apt install zlib1g-dev)")
endif()

# falt_io_module(NAME what package target version): builds cli/io/modules/NAME.c if the target exists, and says so.
function(falt_io_module name what package target version)
  if(NOT TARGET ${target})
    message(STATUS "${what}: not found, left out (Debian: apt install ${package})")
    return()
  endif()
  message(STATUS "${what}: found ${version}")
  string(TOUPPER ${name} upper)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/io/modules/${name}*.c)
  add_library(faltung_io_${name} MODULE ${sources} ${PROJECT_SOURCE_DIR}/cli/io/common.c)
  set_target_properties(faltung_io_${name} PROPERTIES PREFIX "" OUTPUT_NAME faltung-io-${name})
  target_compile_options(faltung_io_${name} PRIVATE "SHELL:-iquote ${PROJECT_SOURCE_DIR}/cli")
  target_compile_definitions(faltung_io_${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(faltung_io_${name} PRIVATE faltung_static ${target})
  target_compile_definitions(faltung_io PRIVATE FALT_${upper}_VERSION="${version}")
  install(TARGETS faltung_io_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/faltung)
endfunction()

if(PkgConfig_FOUND)
  pkg_check_modules(VIPS QUIET IMPORTED_TARGET vips>=8.12 gmodule-2.0)
  pkg_check_modules(SNDFILE QUIET IMPORTED_TARGET sndfile>=1.1)
endif()

# libnifti has no pkg-config file everywhere.
find_path(NIFTI_INCLUDE nifti2_io.h PATH_SUFFIXES nifti)
find_library(NIFTI_LIBRARY nifti2)
find_library(ZNZ_LIBRARY znz)
if(NIFTI_INCLUDE AND NIFTI_LIBRARY AND ZNZ_LIBRARY)
  add_library(faltung_nifti INTERFACE)
  target_include_directories(faltung_nifti SYSTEM INTERFACE ${NIFTI_INCLUDE})
  target_link_libraries(faltung_nifti INTERFACE ${NIFTI_LIBRARY} ${ZNZ_LIBRARY})
  file(REAL_PATH ${NIFTI_LIBRARY} nifti_file) # the header does not say: libnifti2.so.2.1.0
  string(REGEX REPLACE ".*nifti2\\.so\\.?" "" NIFTI_VERSION ${nifti_file})
endif()

falt_io_module(vips "Images (libvips)" libvips-dev PkgConfig::VIPS "${VIPS_vips_VERSION}")
falt_io_module(sndfile "Audio (libsndfile)" libsndfile1-dev PkgConfig::SNDFILE "${SNDFILE_VERSION}")
falt_io_module(nifti "Volumes (libnifti)" libnifti-dev faltung_nifti "${NIFTI_VERSION}")

# The ladder: the textbook's steps; the command prints their source, and kernels are compiled from it.
set(ladder_sources ${PROJECT_BINARY_DIR}/ladder_sources.c)
file(GLOB ladder_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ladder/kernels/* ${PROJECT_SOURCE_DIR}/ladder/cpu*.c)
add_custom_command(OUTPUT ${ladder_sources} DEPENDS ${ladder_kernels} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
                   COMMAND ${CMAKE_COMMAND} -DOUTPUT=${ladder_sources} -DDIRECTORY=${PROJECT_SOURCE_DIR}/ladder/kernels
                           -DTABLE=ladder_sources -DALSO=${PROJECT_SOURCE_DIR}/ladder/cpu*.c -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
file(GLOB FALT_LADDER_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ladder/*.c)
add_library(faltung_ladder STATIC ${FALT_LADDER_SOURCES} ${ladder_sources})
target_include_directories(faltung_ladder PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(faltung_ladder PRIVATE _GNU_SOURCE)
target_link_libraries(faltung_ladder PUBLIC faltung_static)

file(GLOB FALT_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
if(FALT_CLI_SOURCES)
  add_executable(faltung_cli ${FALT_CLI_SOURCES})
  set_target_properties(faltung_cli PROPERTIES OUTPUT_NAME faltung)
  target_compile_definitions(faltung_cli PRIVATE _GNU_SOURCE)
  target_link_libraries(faltung_cli PRIVATE faltung_ladder faltung_io faltung_static)
  include(cmake/bench.cmake)
  # ci/record-plans: what the planner chooses for the suites, on CPUs and GPUs that need not be there.
  list(FILTER FALT_CLI_SOURCES EXCLUDE REGEX /main\\.c$)
  add_library(record_cli STATIC EXCLUDE_FROM_ALL ${FALT_CLI_SOURCES})
  target_compile_definitions(record_cli PRIVATE _GNU_SOURCE)
  target_link_libraries(record_cli PUBLIC faltung_ladder faltung_io faltung_static)
  add_executable(record_plans EXCLUDE_FROM_ALL ci/record/plans.c ci/record/ptx.c)
  target_include_directories(record_plans PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/cuda/device)
  target_compile_definitions(record_plans PRIVATE _GNU_SOURCE)
  target_compile_options(record_plans PRIVATE -Wno-missing-prototypes)
  target_link_options(record_plans PRIVATE -Wl,--wrap=falt_cuda_compile)
  target_link_libraries(record_plans PRIVATE record_cli ${CMAKE_DL_LIBS})
endif()

if(FALT_TESTS AND PkgConfig_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()
if(TARGET PkgConfig::CMOCKA)
  file(GLOB io_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/io/*.c)
  foreach(source ${io_tests})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_link_libraries(${name} PRIVATE faltung_io PkgConfig::CMOCKA m)
    add_test(NAME ${name} COMMAND ${name})
  endforeach()
endif()
