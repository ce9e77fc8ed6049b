/* The device and the budget that the options ask for. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MAX_SOLVERS = 128 };

static int fail_device(const char *name) {
  if (strncmp(name, "cuda", 4) == 0 && (name[4] == '\0' || name[4] == ':')) {
    return cli_fail(CLI_IMPOSSIBLE, "--device %.20s: this build has no CUDA back end; use --device cpu", name);
  }
  static const char *const names[] = {"auto", "cpu", "cuda"};
  char hint[96];
  return cli_fail(CLI_WRONG, "--device %.40s: unknown device%s", name,
                  cli_suggestion(name, names, 3, hint, sizeof hint));
}

int cli_device_make(const cli_options *options, falt_device **device) {
  const char *name = options->device ? options->device : getenv("FALTUNG_DEVICE");
  if (name && *name && strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0) return fail_device(name);
  falt_cpu_options cpu;
  falt_cpu_options_default(&cpu);
  cpu.threads = (int)options->threads;
  falt_status status = falt_device_cpu(device, &cpu);
  if (status != FALT_OK) return cli_fail_library(status);
  status = falt_wisdom_load(*device, NULL);
  if (status != FALT_OK && status != FALT_NO_FILE && !options->quiet) {
    fprintf(stderr, "faltung: warning: %s\n", falt_message()); /* wisdom only chooses; nothing depends on it */
  }
  return CLI_DONE;
}

static int read_method(const char *method, falt_budget *budget) {
  const char *names[MAX_SOLVERS];
  int count = 0;
  while (count < MAX_SOLVERS && (names[count] = falt_solver_name(count))) count++;
  if (cli_find_name(method, names, count) < 0) {
    char hint[512];
    return cli_fail(CLI_WRONG, "--method %.40s: unknown method%s", method,
                    cli_suggestion(method, names, count, hint, sizeof hint));
  }
  snprintf(budget->method, sizeof budget->method, "%s", method);
  return CLI_DONE;
}

int cli_budget_make(const cli_options *options, falt_budget *budget) {
  falt_budget_default(budget);
  budget->max_workspace = options->max_workspace;
  budget->max_error = options->max_error;
  budget->deterministic = options->deterministic;
  budget->allow_tf32 = options->allow_tf32;
  bool is_auto = !options->method || strcmp(options->method, "auto") == 0;
  return is_auto ? CLI_DONE : read_method(options->method, budget);
}
