/* Prints what the planner chooses for every line of suites, to be compared with what another version of the library
 * chooses: on a CPU of every instruction set, present or not, by fixed limits, and on GPUs that are described.
 *
 *     plan | DEVICE | SUITE | LINE | PLAN | SECONDS
 *     kernel | ARCHITECTURE | HASH OF THE PTX | SOURCE | COMPILE-TIME PARAMETERS
 *
 *     record_plans LIMITS DEVICE SUITE...      a DEVICE is portable, avx2, ... amx, or cuda:h200 and the like
 *
 * RECORD_PTX=0 leaves the PTX out: kernels are then recorded by their parameters alone, within seconds.
 * Kernels are not assembled: the program takes falt_cuda_compile's place. FALTUNG_CACHE must name a directory of its
 * own, where what it makes in place of kernels goes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "ptx.h"
#include "report.h"
#include "suite.h"

enum { THREADS = 8, PLAN = 4096, MOST_TAPS = 1 << 24 };

/* ---- kernels */

falt_status __wrap_falt_cuda_compile(const falt_cuda_kernel *kernel, const char *arch, falt_cuda_binary *binary,
                                     char **log);

falt_status __wrap_falt_cuda_compile(const falt_cuda_kernel *kernel, const char *arch, falt_cuda_binary *binary,
                                     char **log) {
  const char *ptx = getenv("RECORD_PTX");
  uint64_t hash = 0;
  if (log) *log = NULL;
  FALT_TRY(falt_cuda_kernel_check(kernel));
  *binary = (falt_cuda_binary){.data = falt_alloc_zero(64), .size = 64};
  if (!binary->data) return falt_fail(FALT_NO_MEMORY, "%s", kernel->source);
  if ((!ptx || strcmp(ptx, "0") != 0) && !record_ptx(kernel, arch, &hash))
    return falt_fail(FALT_INTERNAL, "%s", kernel->source);
  printf("kernel | %s | %016" PRIx64 " | %s |", arch, hash, kernel->source);
  for (int i = 0; i < kernel->defines; i++) printf(" %s", kernel->define[i]);
  printf("\n");
  return FALT_OK;
}

/* ---- devices */

static bool read_limits(const char *path, const char *isa, falt_limits *l, falt_caches *caches) {
  char line[256], name[32];
  bool found = false;
  FILE *file = fopen(path, "r");
  while (file && !found && fgets(line, sizeof line, file)) {
    *l = (falt_limits){.measured = true};
    found = sscanf(line, "%31s %lf %lf %lf %lf %lf %lf %zu %zu %zu", name, &l->copy_bytes_per_s, &l->cache_bytes_per_s,
                   &l->f32_flops, &l->f64_flops, &l->f16_flops, &l->s8_flops, &caches->l1d, &caches->l2,
                   &caches->l3) == 10 &&
            strcmp(name, isa) == 0;
  }
  if (file) fclose(file);
  return found;
}

/* A CPU of this instruction set, which need not be this machine's: nothing is executed on it. */
static falt_device *make_cpu(const char *limits, const char *isa) {
  falt_cpu_options options;
  falt_device *device = NULL;
  falt_cpu_options_default(&options);
  options.threads = THREADS;
  strcpy(options.isa, "portable");
  if (falt_isa_find(isa) < 0 || falt_device_cpu(&device, &options) != FALT_OK) return NULL;
  if (!read_limits(limits, isa, &device->limits, &device->caches)) return NULL;
  device->isa = (falt_isa)falt_isa_find(isa);
  device->steady->isa = device->isa;
  device->steady->caches = device->caches;
  device->steady->limits = device->limits;
  return device;
}

static falt_device *make_gpu(const char *name) {
  falt_cuda_options options;
  falt_device *device = NULL;
  falt_cuda_options_default(&options);
  options.compile = true;
  snprintf(options.described, sizeof options.described, "%s", name);
  return falt_device_cuda(&device, &options) == FALT_OK ? device : NULL;
}

/* ---- plans */

/* The filter's values where they are known at planning. What this processor does not run must not pack them. */
static void *values_of(const cli_case *one, const falt_problem *problem, const falt_device *device) {
  void *filter = NULL;
  const bool packs = strcmp(device->kind, "cpu") != 0 || falt_isa_runs(device->isa);
  const bool known = falt_problem_filter_when(problem) == FALT_FILTER_KNOWN;
  if (!packs || !known || falt_tensor_count(&problem->filter) > MOST_TAPS) return NULL;
  if (cli_filter_random(&filter, problem, 1) != CLI_DONE) return NULL;
  if (cli_case_taps(one, problem, filter) == CLI_DONE) return filter;
  free(filter);
  return NULL;
}

static void record(falt_device *device, const char *name, const cli_case *one) {
  char text[PLAN];
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  void *values = NULL;
  falt_status status = falt_problem_parse(&problem, &budget, one->line);
  if (status == FALT_OK) {
    values = values_of(one, &problem, device);
    if (!values) problem.filter_when = FALT_FILTER_AUTO;
    status = falt_plan_create(&plan, device, &problem, &budget, values);
  }
  if (status == FALT_OK) {
    falt_plan_print(plan, text, sizeof text);
    printf("plan | %s | %s | %s | %s | %.6g\n", name, one->suite, one->line, text, plan->cost.seconds);
  } else {
    printf("plan | %s | %s | %s | %s | 0\n", name, one->suite, one->line, falt_message());
  }
  falt_plan_destroy(&plan);
  free(values);
}

int main(int count, char **words) {
  cli_suite suite = {.count = 0};
  if (count < 4) {
    fprintf(stderr, "usage: record_plans LIMITS DEVICE SUITE...\n");
    return 2;
  }
  const char *name = words[2];
  falt_device *device = strncmp(name, "cuda:", 5) == 0 ? make_gpu(name + 5) : make_cpu(words[1], name);
  if (!device) {
    fprintf(stderr, "record_plans: %s: no such device; %s\n", name, falt_message());
    return 1;
  }
  for (int i = 3; i < count; i++)
    if (cli_suite_add(words[i], &suite) != CLI_DONE) return 1;
  for (int i = 0; i < suite.count; i++) record(device, name, &suite.cases[i]);
  cli_suite_free(&suite);
  falt_device_destroy(&device);
  return 0;
}
