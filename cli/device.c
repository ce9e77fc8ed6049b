/* The device and the budget from the options. */
#include "device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "report.h"

enum { MAX_SOLVERS = 128 };
static const double starting_seconds = 0.3; /* of the driver, a context, pinned memory: no GPU is tried for shorter work
                                             */

static int fail_device(const cli_options *options, const char *name) {
  static const char *const names[] = {"auto", "cpu", "cuda"};
  char hint[96];
  return cli_fail(CLI_WRONG, "%s %.40s: unknown device%s", options->device ? "--device" : "FALTUNG_DEVICE", name,
                  cli_suggestion(name, names, 3, hint, sizeof hint));
}

/* cuda, cuda:N, or cuda:NAME for a GPU that is described; gpu means cuda. */
static bool read_cuda(const char *name, falt_cuda_options *cuda) {
  falt_cuda_options_default(cuda);
  const char *rest = strncmp(name, "cuda", 4) == 0 ? name + 4 : strncmp(name, "gpu", 3) == 0 ? name + 3 : NULL;
  if (!rest) return false;
  if (!*rest) return true;
  if (*rest++ != ':' || !*rest) return false;
  if (*rest < '0' || *rest > '9')
    return snprintf(cuda->described, sizeof cuda->described, "%s", rest) < (int)sizeof cuda->described;
  char *end;
  const long number = strtol(rest, &end, 10);
  cuda->ordinal = (int)number;
  return !*end && number <= 4096;
}

/* Signals interrupt it, and a terminal shows how far it is. */
static void attend(const cli_options *options, falt_device *device) {
  cli_interrupts_watch(device);
  if (!cli_interrupts_in_child() && cli_progress_is_wanted(options->quiet))
    falt_device_progress(device, cli_progress_call, NULL);
}

bool cli_device_is_described(const falt_device *device) {
  return strstr(falt_device_name(device), ", described") != NULL;
}

void cli_device_destroy(falt_device **device) {
  cli_interrupts_forget(*device);
  falt_device_destroy(device);
}

static falt_status open_cuda(const cli_options *options, falt_cuda_options *cuda, falt_device **device) {
  cuda->threads = (int)options->threads;
  const falt_status status = falt_device_cuda(device, cuda);
  if (status == FALT_OK) attend(options, *device);
  return status;
}

static falt_status open_cpu(const cli_options *options, falt_device **device) {
  falt_cpu_options cpu;
  falt_cpu_options_default(&cpu);
  cpu.threads = (int)options->threads;
  const falt_status status = falt_device_cpu(device, &cpu);
  if (status == FALT_OK) attend(options, *device);
  return status;
}

static const char *name_of(const cli_options *options) {
  const char *name = options->device ? options->device : getenv("FALTUNG_DEVICE");
  return name && *name ? name : "auto";
}

static void load_wisdom(const cli_options *options, falt_device *device) {
  const falt_status status = falt_wisdom_load(device, NULL);
  if (status != FALT_OK && status != FALT_NO_FILE && !options->quiet)
    fprintf(stderr, "faltung: warning: %s\n", falt_message()); /* wisdom only chooses; nothing depends on it */
}

int cli_device_make(const cli_options *options, falt_device **device) {
  const char *name = name_of(options);
  falt_cuda_options cuda;
  const bool is_cpu = strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0;
  if (!is_cpu && !read_cuda(name, &cuda)) return fail_device(options, name);
  const falt_status status = is_cpu ? open_cpu(options, device) : open_cuda(options, &cuda, device);
  if (status != FALT_OK) return cli_fail_library(status);
  load_wisdom(options, *device);
  return CLI_DONE;
}

/* ---- auto */

bool cli_device_is_auto(const cli_options *options) {
  return strcmp(name_of(options), "auto") == 0;
}

static void note_prediction(void *context, const falt_candidate *candidate) {
  if (candidate->chosen) *(double *)context = candidate->predicted_seconds;
}

/* Seconds that a device's plan predicts, 0 if there is none. */
static double predict(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                      const void *weights) {
  double seconds = 0;
  const falt_status status = falt_explain(device, problem, budget, weights, 0, note_prediction, &seconds);
  return status == FALT_OK ? seconds : 0;
}

static double bytes_of(const falt_tensor *tensor) {
  return (double)falt_tensor_span(tensor) * (double)falt_type_size(tensor->type);
}

/* Computation and copies in both directions overlap: the slowest counts. */
static double predict_copied(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                             const void *weights) {
  falt_limits limits;
  falt_device_limits(device, &limits);
  const double compute = predict(device, problem, budget, weights);
  const double in = bytes_of(&problem->input) / limits.in_bytes_per_s;
  const double out = bytes_of(&problem->output) / limits.out_bytes_per_s;
  return compute > 0 ? fmax(compute, fmax(in, out)) : INFINITY;
}

static void note_retreat(const cli_options *options) {
  if (!options->quiet) fprintf(stderr, "faltung: note: %s; the cpu is used\n", falt_message());
}

/* The GPU, able to run the problem, or NULL. */
static falt_device *open_gpu(const cli_options *options, const falt_problem *problem, const falt_budget *budget,
                             const void *weights) {
  falt_device *device = NULL;
  falt_plan *plan = NULL;
  int count;
  falt_status status = falt_cuda_count(&count);
  if (status == FALT_OK && count == 0) return NULL;
  falt_cuda_options cuda;
  falt_cuda_options_default(&cuda);
  if (status == FALT_OK) status = open_cuda(options, &cuda, &device);
  if (status == FALT_OK) {
    load_wisdom(options, device);
    status = falt_plan_create(&plan, device, problem, budget, weights); /* compiles, which may not be possible */
    falt_plan_destroy(&plan);
  }
  if (status == FALT_OK) return device;
  if (status >= FALT_NO_MEMORY) note_retreat(options); /* below that the problem or the budget rules it out */
  cli_device_destroy(&device);
  return NULL;
}

int cli_device_choose(const cli_options *options, const falt_problem *problem, const falt_budget *budget,
                      const void *weights, falt_device **device) {
  const int status = cli_device_make(options, device);
  if (status != CLI_DONE || !cli_device_is_auto(options)) return status;
  const double here = predict(*device, problem, budget, weights);
  if (here > 0 && here < starting_seconds) return CLI_DONE;
  falt_device *gpu = open_gpu(options, problem, budget, weights);
  if (!gpu) return CLI_DONE;
  falt_device *loser = gpu;
  if (!(here > 0) || predict_copied(gpu, problem, budget, weights) < here) {
    loser = *device;
    *device = gpu;
  }
  cli_device_destroy(&loser);
  return CLI_DONE;
}

int cli_device_retreat(const cli_options *options, falt_device **device) {
  note_retreat(options);
  cli_device_destroy(device);
  const falt_status status = open_cpu(options, device);
  if (status != FALT_OK) return cli_fail_library(status);
  load_wisdom(options, *device);
  return CLI_DONE;
}

/* ---- the budget */

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
  budget->no_transforms = options->no_transforms;
  bool is_auto = !options->method || strcmp(options->method, "auto") == 0;
  return is_auto ? CLI_DONE : read_method(options->method, budget);
}
