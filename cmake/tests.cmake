# Tests: one executable for each tests/**/test_*.c and checkasm_*.c, whose folders are those of src, linked with the static library so that internals can be tested too; the
# fuzz targets as programs that replay their corpus; the command's cases.
#
# Labels: threads (worth running under the thread sanitizer), command (runs the built command).
find_package(PkgConfig)
if(PkgConfig_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()

set(threads_tests test_thread test_interrupt test_progress test_api test_planner test_solvers test_slabs
                  test_convolver_threads)

if(TARGET PkgConfig::CMOCKA)
  file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c ${PROJECT_SOURCE_DIR}/tests/checkasm_*.c)
  list(FILTER unit_tests EXCLUDE REGEX "/tests/(gpu|io)/") # tests/io is below
  foreach(source ${unit_tests})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/cuda/device
                               ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/tests/support)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE FALT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
    target_link_libraries(${name} PRIVATE faltung_static PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name})
    if(name IN_LIST threads_tests)
      set_tests_properties(${name} PROPERTIES LABELS threads)
    endif()
  endforeach()
  # The longest first, so that none of them runs alone in the end.
  set_tests_properties(test_described test_cuda_compile test_solvers test_cuda_fft test_ladder
                       PROPERTIES COST 100)
  target_link_options(test_planning_work PRIVATE -Wl,--wrap=posix_memalign) # whose bytes it counts
  target_sources(test_ladder PRIVATE ${PROJECT_SOURCE_DIR}/cli/counts.c ${PROJECT_SOURCE_DIR}/cli/report.c)
  target_link_libraries(test_ladder PRIVATE faltung_ladder faltung_io)
  target_sources(test_walk PRIVATE ${PROJECT_SOURCE_DIR}/cli/walk.c)
  # im2col has something to multiply by on every machine.
  add_library(fake_blas MODULE ${PROJECT_SOURCE_DIR}/tests/cli/fake_blas.c)
  target_compile_options(fake_blas PRIVATE -Wno-missing-prototypes)
  set_tests_properties(test_im2col test_ladder test_interrupt PROPERTIES ENVIRONMENT FALTUNG_BLAS=$<TARGET_FILE:fake_blas>)
else()
  message(STATUS "Unit tests: cmocka not found, left out (Debian: apt install libcmocka-dev)")
endif()

# falt_fuzz(NAME sources...): tests/fuzz/fuzz_NAME.c replays tests/fuzz/corpus/NAME; with FALT_FUZZ it searches, too.
option(FALT_FUZZ "Build the fuzz targets with libFuzzer (clang)" OFF)
if(FALT_FUZZ) # libFuzzer is guided by what the code under test covers; the kernels parse nothing
  target_compile_options(faltung_objects PRIVATE -fsanitize=fuzzer-no-link)
  target_compile_options(faltung_io PRIVATE -fsanitize=fuzzer-no-link)
endif()
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
  endif()
  file(GLOB corpus CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}/*)
  add_test(NAME ${target} COMMAND ${target} ${corpus})
endfunction()

set(cli ${PROJECT_SOURCE_DIR}/cli)
falt_fuzz(problem)
falt_fuzz(wisdom)
falt_fuzz(npy)
falt_fuzz(npz)
falt_fuzz(files)
foreach(module vips sndfile nifti) # loaded from beside the target
  if(TARGET faltung_io_${module})
    add_dependencies(fuzz_files faltung_io_${module})
  endif()
endforeach()
falt_fuzz(cubin)
falt_fuzz(limits)
falt_fuzz(answer ${cli}/answer.c)
falt_fuzz(walk ${cli}/walk.c)
falt_fuzz(axes ${cli}/axes.c ${cli}/report.c)
falt_fuzz(kernel ${cli}/kernel.c ${cli}/kernel_named.c ${cli}/kernel_values.c ${cli}/report.c ${cli}/axes.c)

# The examples' programs, as a user would run them.
foreach(name blur layer gpu_blur reverb scan)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example_${name} PRIVATE faltung_static)
  if(name STREQUAL scan) # reads an image
    add_test(NAME example_scan COMMAND sh -c "printf 'P5 4 3 255 %s' abcdefghijkl | \"\$1\" >/dev/null" sh $<TARGET_FILE:example_scan>)
  else()
    add_test(NAME example_${name} COMMAND example_${name})
  endif()
endforeach()
set_tests_properties(example_reverb PROPERTIES ENVIRONMENT ALSA_CONFIG_PATH=/dev/null) # no device: silent
if(TARGET test_reverb)
  add_dependencies(test_reverb example_reverb)
  target_compile_definitions(test_reverb PRIVATE FALT_EXAMPLE_REVERB="$<TARGET_FILE:example_reverb>")
  add_dependencies(test_scan example_scan)
  target_compile_definitions(test_scan PRIVATE FALT_EXAMPLE_SCAN="$<TARGET_FILE:example_scan>")
endif()
# The header for C++, where there is a compiler.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  add_executable(example_layer_cpp ${PROJECT_SOURCE_DIR}/examples/layer.cpp)
  add_executable(test_cpp ${PROJECT_SOURCE_DIR}/tests/cpp/test_cpp.cpp)
  foreach(program example_layer_cpp test_cpp)
    set_target_properties(${program} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    # the project's options are for C
    set_target_properties(${program} PROPERTIES COMPILE_OPTIONS "-Wall;-Wextra;-Wshadow;$<$<BOOL:${FALT_WERROR}>:-Werror>")
    target_link_libraries(${program} PRIVATE faltung_static)
    add_test(NAME ${program} COMMAND ${program})
  endforeach()
else()
  message(STATUS "C++: no compiler found, faltung.hpp is not tested")
endif()
find_package(Python3 QUIET COMPONENTS Interpreter NumPy)
if(Python3_NumPy_FOUND AND NOT FALT_SANITIZE)
  add_test(NAME example_cupy_torch COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/examples/cupy_torch.py
                                           $<TARGET_FILE:faltung_shared>)
endif()

find_program(BASH bash)
if(TARGET faltung_cli AND BASH)
  add_library(fake_cuda MODULE ${PROJECT_SOURCE_DIR}/tests/cli/fake_cuda.c)
  add_library(fake_cudnn MODULE ${PROJECT_SOURCE_DIR}/tests/cli/fake_cudnn.c)
  set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1)
  set_target_properties(fake_cudnn PROPERTIES OUTPUT_NAME cudnn SUFFIX .so.9)
  foreach(fake fake_cuda fake_cudnn)
    set_target_properties(${fake} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake-cuda)
    target_compile_options(${fake} PRIVATE -Wno-missing-prototypes)
  endforeach()
  if(NOT FALT_SANITIZE) # whose own allocator must come first
    add_library(failing_malloc MODULE ${PROJECT_SOURCE_DIR}/tests/cli/failing_malloc.c)
    target_compile_options(failing_malloc PRIVATE -Wno-missing-prototypes -fno-builtin -fvisibility=default)
    set(failing_malloc FALT_FAILING_MALLOC=$<TARGET_FILE:failing_malloc>)
  endif()
  add_test(NAME command COMMAND ${BASH} ${PROJECT_SOURCE_DIR}/tests/cli/run $<TARGET_FILE:faltung_cli>)
  set_tests_properties(command PROPERTIES LABELS command COST 100
                       ENVIRONMENT "FALT_FAKE_CUDA=${PROJECT_BINARY_DIR}/fake-cuda;${failing_malloc}")
  if(Python3_Interpreter_FOUND AND NOT FALT_SANITIZE)
    add_test(NAME gpu_lines COMMAND ${BASH} ${PROJECT_SOURCE_DIR}/tests/gpu/plan-lines $<TARGET_FILE:faltung_cli>)
  endif()
endif()
