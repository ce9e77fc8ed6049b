/* The device and the budget that the options ask for. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MAX_SOLVERS = 128 };

static int fail_device(const char *name) {
  static const char *const names[] = {"auto", "cpu", "cuda"};
  char hint[96];
  return cli_fail(CLI_WRONG, "--device %.40s: unknown device%s", name,
                  cli_suggestion(name, names, 3, hint, sizeof hint));
}

/* cuda or cuda:N. */
static bool read_ordinal(const char *name, int *ordinal) {
  *ordinal = 0;
  if (strncmp(name, "cuda", 4) != 0) return false;
  if (!name[4]) return true;
  char *end;
  const long number = strtol(name + 5, &end, 10);
  *ordinal = (int)number;
  return name[4] == ':' && name[5] >= '0' && name[5] <= '9' && !*end && number <= 4096;
}

static falt_status open_device(const cli_options *options, const char *name, int ordinal, falt_device **device) {
  if (strncmp(name, "cuda", 4) == 0) {
    falt_cuda_options cuda;
    falt_cuda_options_default(&cuda);
    cuda.ordinal = ordinal;
    return falt_device_cuda(device, &cuda);
  }
  falt_cpu_options cpu;
  falt_cpu_options_default(&cpu);
  cpu.threads = (int)options->threads;
  return falt_device_cpu(device, &cpu);
}

int cli_device_make(const cli_options *options, falt_device **device) {
  const char *name = options->device ? options->device : getenv("FALTUNG_DEVICE");
  int ordinal = 0;
  if (!name || !*name || strcmp(name, "auto") == 0) name = "cpu";
  if (strcmp(name, "cpu") != 0 && !read_ordinal(name, &ordinal)) return fail_device(name);
  falt_status status = open_device(options, name, ordinal, device);
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
