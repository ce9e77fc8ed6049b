/* The verb info: version, device and its limits, instruction sets, formats, caches, solvers. */
#include <string.h>

#include "cache.h"
#include "device.h"
#include "library.h"
#include "report.h"
#include "verbs.h"

/* The first GPU, or why there is none. */
static void print_cuda(const falt_device *shown) {
  falt_device *device;
  if (strncmp(falt_device_name(shown), "cuda", 4) == 0) return;
  if (falt_device_cuda(&device, NULL) == FALT_OK)
    printf("device   %s; `faltung info --device cuda` says more\n", falt_device_name(device));
  else
    printf("device   none with CUDA: %s\n", falt_message());
  falt_device_destroy(&device);
}

static void print_libraries(falt_device *device) {
  const char *name;
  char text[CLI_LIBRARY_TEXT];
  for (int i = 0; (name = cli_library_name(i)); i++) {
    if (!cli_library_is_for(name, device)) continue;
    const bool found = cli_library_find(name, device, text);
    printf("%-8s %s%s\n", name, found ? "" : "none: ", text);
  }
}

static void print_text(falt_device *device, const falt_limits *limits) {
  printf("faltung %s\n\n", falt_version());
  printf("device   %s\n", falt_device_name(device));
  printf("    limits   %s\n",
         limits->measured ? "measured" : "built-in estimates; `faltung info --measure` measures them");
  printf("    memory   %.1f GB/s, read and write counted\n", limits->copy_bytes_per_s * 1e-9);
  printf("    cache    %.1f GB/s\n", limits->cache_bytes_per_s * 1e-9);
  if (limits->in_bytes_per_s > 0)
    printf("    bus      %.1f GB/s in, %.1f GB/s out\n", limits->in_bytes_per_s * 1e-9, limits->out_bytes_per_s * 1e-9);
  printf("    f32      %.1f GFLOP/s\n", limits->f32_flops * 1e-9);
  printf("    f64      %.1f GFLOP/s\n", limits->f64_flops * 1e-9);
  if (limits->f16_flops > 0)
    printf("    f16      %.1f GFLOP/s by instructions of their own\n", limits->f16_flops * 1e-9);
  if (limits->s8_flops > 0) printf("    s8       %.1f GOP/s\n", limits->s8_flops * 1e-9);
  print_cuda(device);
  print_libraries(device);
  printf("\nformats\n");
  const char *name, *extensions, *state;
  for (int i = 0; io_format(i, &name, &extensions, &state); i++) printf("    %-8s %-40s %s\n", name, extensions, state);
  char path[CLI_PATH];
  const char *directory = cli_cache_directory(path);
  printf("\ncache    %s\n", directory);
  cli_cache_print_file(directory, "limits");
  cli_cache_print_file(directory, "wisdom");
  printf("    kernels  `faltung info --cache` lists them\n");
  printf("\nsolvers ");
  for (int i = 0; falt_solver_name(i); i++) printf(" %s", falt_solver_name(i));
  printf("\n");
}

static void print_json(falt_device *device, const falt_limits *limits) {
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, "version", falt_version());
  cli_json_text(&json, "device", falt_device_name(device));
  cli_json_flag(&json, "measured", limits->measured);
  cli_json_number(&json, "copy_bytes_per_s", limits->copy_bytes_per_s);
  cli_json_number(&json, "cache_bytes_per_s", limits->cache_bytes_per_s);
  cli_json_number(&json, "in_bytes_per_s", limits->in_bytes_per_s);
  cli_json_number(&json, "out_bytes_per_s", limits->out_bytes_per_s);
  cli_json_number(&json, "f32_flops", limits->f32_flops);
  cli_json_number(&json, "f64_flops", limits->f64_flops);
  cli_json_number(&json, "f16_flops", limits->f16_flops);
  cli_json_number(&json, "s8_flops", limits->s8_flops);
  char path[CLI_PATH];
  cli_json_text(&json, "cache", cli_cache_directory(path));
  const char *name;
  char text[CLI_LIBRARY_TEXT];
  for (int i = 0; (name = cli_library_name(i)); i++)
    if (cli_library_is_for(name, device))
      cli_json_text(&json, name, cli_library_find(name, device, text) ? text : NULL);
  cli_json_close(&json);
  const char *extensions, *state;
  for (int i = 0; io_format(i, &name, &extensions, &state); i++) {
    json = cli_json_open(stdout);
    cli_json_text(&json, "format", name);
    cli_json_text(&json, "extensions", extensions);
    cli_json_text(&json, "state", state);
    cli_json_close(&json);
  }
  for (int i = 0; falt_solver_name(i); i++) {
    json = cli_json_open(stdout);
    cli_json_text(&json, "solver", falt_solver_name(i));
    cli_json_close(&json);
  }
}

int falt_verb_info(const cli_options *options) {
  falt_device *device = NULL;
  if (options->clear_cache) return cli_cache_clear(options);
  if (options->cache) return cli_cache_show(options);
  const int status = cli_device_make(options, &device);
  if (status != CLI_DONE) return status;
  const falt_status measured = options->measure ? falt_device_measure(device) : FALT_OK;
  falt_limits limits;
  falt_device_limits(device, &limits);
  if (measured != FALT_CANCELLED) (options->json ? print_json : print_text)(device, &limits);
  cli_device_destroy(&device);
  return measured == FALT_OK ? CLI_DONE : cli_fail_library(measured);
}
