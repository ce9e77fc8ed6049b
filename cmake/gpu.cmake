# What only a machine with a GPU runs: `make gpu-test` builds and runs this with tests/gpu/run.
add_executable(test_gpu EXCLUDE_FROM_ALL tests/gpu/test_gpu.c)
target_compile_definitions(test_gpu PRIVATE _GNU_SOURCE)
target_link_libraries(test_gpu PRIVATE faltung_static)
