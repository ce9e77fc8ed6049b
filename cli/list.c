/* The verb list: kernels, solvers, formats or devices, one a line with a short explanation. */
#include <string.h>

#include "choice.h"
#include "kernel.h"
#include "report.h"
#include "verbs.h"

enum { NAME_WIDTH = 26 };

static void print_item(const cli_options *options, const char *what, const char *name, const char *about) {
  if (!options->json) {
    printf("%-*s %s\n", NAME_WIDTH, name, about);
    return;
  }
  cli_json json = cli_json_open(stdout);
  cli_json_text(&json, what, name);
  cli_json_text(&json, "about", about);
  cli_json_close(&json);
}

static void list_kernels(const cli_options *options) {
  const char *form, *about;
  for (int i = 0; cli_kernel_name(i, &form, &about); i++) {
    char text[256];
    snprintf(text, sizeof text, "%s (%s)", about, form);
    print_item(options, "kernel", cli_kernel_name(i, NULL, NULL), text);
  }
}

static void list_solvers(const cli_options *options) {
  for (int i = 0; falt_solver_name(i); i++) print_item(options, "solver", falt_solver_name(i), falt_solver_about(i));
}

static void list_formats(const cli_options *options) {
  const char *name, *extensions, *state;
  for (int i = 0; io_format(i, &name, &extensions, &state); i++) {
    char text[256];
    snprintf(text, sizeof text, "%s: %s", extensions, state);
    print_item(options, "format", name, text);
  }
}

static void list_device(const cli_options *options, const char *name, falt_status status, falt_device *device) {
  print_item(options, "device", name, status == FALT_OK ? falt_device_name(device) : falt_message());
  falt_device_destroy(&device);
}

static void list_gpu(const cli_options *options, int ordinal) {
  falt_device *device = NULL;
  falt_cuda_options cuda;
  falt_cuda_options_default(&cuda);
  cuda.ordinal = ordinal;
  char name[32];
  snprintf(name, sizeof name, "cuda:%d", ordinal);
  const falt_status status = falt_device_cuda(&device, &cuda);
  list_device(options, name, status, device);
}

static void list_devices(const cli_options *options) {
  falt_device *device = NULL;
  falt_cpu_options cpu;
  falt_cpu_options_default(&cpu);
  const falt_status made = falt_device_cpu(&device, &cpu);
  list_device(options, "cpu", made, device);
  int gpus = 0;
  const falt_status counted = falt_cuda_count(&gpus);
  if (counted != FALT_OK || gpus == 0)
    print_item(options, "device", "cuda", counted == FALT_OK ? "none: no GPU was found" : falt_message());
  for (int i = 0; counted == FALT_OK && i < gpus; i++) list_gpu(options, i);
}

int falt_verb_list(const cli_options *options) {
  static void (*const lists[])(const cli_options *) = {list_kernels, list_solvers, list_formats, list_devices};
  io_error error;
  if (options->operands != 1)
    return cli_fail(CLI_WRONG, "list: %d words given; write faltung list kernels, solvers, formats or devices",
                    options->operands);
  const int which = cli_choice_find(cli_choice_list, options->operand[0], "list", &error);
  if (which < 0) return cli_fail(CLI_WRONG, "%s", error.text);
  lists[which](options);
  return CLI_DONE;
}
