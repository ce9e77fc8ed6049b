# Tests: one executable for each tests/unit/*.c, linked with the static library so that internals can be tested too; the
# fuzz targets as programs that replay their corpus; the command's cases.
#
# Labels: threads (worth running under the thread sanitizer), command (runs the built command).
find_package(PkgConfig)
if(PkgConfig_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()

set(threads_tests test_thread test_api test_planner test_solvers test_slabs)

if(TARGET PkgConfig::CMOCKA)
  file(GLOB unit_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/*.c)
  foreach(source ${unit_tests})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE FALT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
    target_link_libraries(${name} PRIVATE faltung_static PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name})
    if(name IN_LIST threads_tests)
      set_tests_properties(${name} PROPERTIES LABELS threads)
    endif()
  endforeach()
  target_sources(test_ladder PRIVATE ${PROJECT_SOURCE_DIR}/cli/counts.c ${PROJECT_SOURCE_DIR}/cli/report.c)
  target_link_libraries(test_ladder PRIVATE faltung_ladder faltung_io)
  target_sources(test_walk PRIVATE ${PROJECT_SOURCE_DIR}/cli/walk.c)
  # im2col has something to multiply by on every machine.
  add_library(fake_blas MODULE ${PROJECT_SOURCE_DIR}/tests/cli/fake_blas.c)
  target_compile_options(fake_blas PRIVATE -Wno-missing-prototypes)
  set_tests_properties(test_im2col test_ladder PROPERTIES ENVIRONMENT FALTUNG_BLAS=$<TARGET_FILE:fake_blas>)
else()
  message(STATUS "Unit tests: cmocka not found, left out (Debian: apt install libcmocka-dev)")
endif()

# falt_fuzz(NAME sources...): tests/fuzz/fuzz_NAME.c replays tests/fuzz/corpus/NAME; with FALT_FUZZ it searches instead.
option(FALT_FUZZ "Build the fuzz targets with libFuzzer (clang)" OFF)
function(falt_fuzz name)
  set(target fuzz_${name})
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/fuzz/${target}.c ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/cli)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_link_libraries(${target} PRIVATE faltung_io faltung_static)
  if(FALT_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
    file(GLOB corpus CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}/*)
    add_test(NAME ${target} COMMAND ${target} ${corpus})
  endif()
endfunction()

set(cli ${PROJECT_SOURCE_DIR}/cli)
falt_fuzz(problem)
falt_fuzz(wisdom)
falt_fuzz(npy)
falt_fuzz(cubin)
falt_fuzz(kernel ${cli}/kernel.c ${cli}/kernel_named.c ${cli}/report.c ${cli}/axes.c)

# The examples' programs, as a user would run them.
foreach(name blur layer gpu_blur)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example_${name} PRIVATE faltung_static)
  add_test(NAME example_${name} COMMAND example_${name})
endforeach()
find_package(Python3 QUIET COMPONENTS Interpreter NumPy)
if(Python3_NumPy_FOUND AND NOT FALT_SANITIZE)
  add_test(NAME example_cupy_torch COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/examples/cupy_torch.py
                                           $<TARGET_FILE:faltung_shared>)
endif()

find_program(BASH bash)
if(TARGET faltung_cli AND BASH)
  add_library(fake_cuda MODULE ${PROJECT_SOURCE_DIR}/tests/cli/fake_cuda.c)
  set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake-cuda)
  target_compile_options(fake_cuda PRIVATE -Wno-missing-prototypes)
  add_test(NAME command COMMAND ${BASH} ${PROJECT_SOURCE_DIR}/tests/cli/run $<TARGET_FILE:faltung_cli>)
  set_tests_properties(command PROPERTIES LABELS command
                       ENVIRONMENT FALT_FAKE_CUDA=${PROJECT_BINARY_DIR}/fake-cuda)
endif()
