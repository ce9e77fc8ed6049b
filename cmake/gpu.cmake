# What only a machine with a GPU runs: `make gpu-test` and `make gpu-bench` build and run these.
foreach(name test_gpu chains contract in_place nonfinite boxes far transfer latency)
  add_executable(${name} EXCLUDE_FROM_ALL tests/gpu/${name}.c)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_include_directories(${name} PRIVATE src tests/support)
  target_link_libraries(${name} PRIVATE faltung_static)
endforeach()
