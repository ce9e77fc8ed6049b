/* Arrays of the host through the GPU: slabs against a CPU's result for every boundary and several shapes, then the rate
 * of large arrays beside that of the bus, one JSON object a line. transfer [quick] */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

static int failures;

typedef struct arrays {
  falt_problem problem;
  void *x, *w, *expected, *got;
  size_t x_bytes, y_bytes;
} arrays;

static bool open_arrays(arrays *a, const char *line) {
  *a = (arrays){.x = NULL};
  if (falt_problem_parse(&a->problem, NULL, line) != FALT_OK) return false;
  const falt_problem *p = &a->problem;
  a->x_bytes = (size_t)falt_tensor_span(&p->input) * falt_type_size(p->input.type);
  a->y_bytes = (size_t)falt_tensor_span(&p->output) * falt_type_size(p->output.type);
  a->x = malloc(a->x_bytes);
  a->w = malloc((size_t)falt_tensor_span(&p->filter) * falt_type_size(p->filter.type));
  a->expected = calloc(1, a->y_bytes);
  a->got = calloc(1, a->y_bytes);
  falt_random_fill(a->x, p->input.type, falt_tensor_span(&p->input), 1);
  falt_random_fill(a->w, p->filter.type, falt_tensor_span(&p->filter), 2);
  return a->x && a->w && a->expected && a->got;
}

static void close_arrays(arrays *a) {
  free(a->x);
  free(a->w);
  free(a->expected);
  free(a->got);
}

/* Integers exactly, floats but for rounding. */
static bool agree(const arrays *a) {
  const float *e = a->expected, *g = a->got;
  if (a->problem.output.type != FALT_F32) return memcmp(a->expected, a->got, a->y_bytes) == 0;
  for (size_t i = 0; i < a->y_bytes / sizeof *e; i++)
    if (!(fabsf(e[i] - g[i]) <= 1e-4f * (1 + fabsf(e[i])))) return false;
  return true;
}

static bool run(falt_device *device, const arrays *a, void *result, int times, falt_stages *best) {
  falt_plan *plan = NULL;
  falt_stages stages;
  const falt_operands set = {.input = a->x, .filter = a->w, .output = result};
  bool fine = falt_plan_create(&plan, device, &a->problem, NULL, a->w) == FALT_OK;
  best->seconds = INFINITY;
  for (int i = 0; i < times && fine; i++) {
    fine = falt_execute_stages(plan, &set, &stages) == FALT_OK;
    if (stages.seconds < best->seconds) *best = stages;
  }
  falt_plan_destroy(&plan);
  return fine;
}

static void compare(falt_device *cpu, falt_device *cuda, const char *line, int64_t least) {
  arrays a;
  falt_stages stages = {0};
  bool fine = open_arrays(&a, line) && run(cpu, &a, a.expected, 1, &stages) && run(cuda, &a, a.got, 2, &stages);
  fine = fine && agree(&a) && stages.slabs >= least;
  if (!fine) printf("FAILED %s: %lld slabs; %s\n", line, (long long)stages.slabs, falt_message());
  failures += !fine;
  close_arrays(&a);
}

static void compare_all(falt_device *cpu, falt_device *cuda) {
  static const char *const shapes[] = {"correlate h=997 w=640 r=5 s=5", "correlate h=700 w=333 pixel=3 r=7 s=7 type=u8",
                                       "convolve w=1000003 s=9 type=s16", "correlate d=61 h=70 w=80 t=3 r=3 s=3",
                                       "correlate n=3 c=4 h=400 w=100 r=3 s=9"};
  static const char *const boundaries[] = {"constant",   "constant=2", "edge",           "symmetric",
                                           "reflect101", "wrap",       "wrap:constant=3"};
  char line[256];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t b = 0; b < sizeof boundaries / sizeof *boundaries; b++) {
      snprintf(line, sizeof line, "%s boundary=%s", shapes[i], boundaries[b]);
      compare(cpu, cuda, line, 3);
    }
  compare(cpu, cuda, "forward n=33 c=16 h=28 w=28 k=8 r=3 s=3 pad=1 bias=0 act=relu", 2);
}

/* Makes the arrays pinned, as callers may have theirs, by the driver itself in the GPU's primary context. */
static bool pin(const arrays *a) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  int (*retain)(void **, int), (*push)(void *), (*enlist)(void *, size_t, unsigned);
  void *entry[] = {dlsym(driver, "cuDevicePrimaryCtxRetain"), dlsym(driver, "cuCtxPushCurrent_v2"),
                   dlsym(driver, "cuMemHostRegister_v2")};
  memcpy(&retain, &entry[0], sizeof entry[0]);
  memcpy(&push, &entry[1], sizeof entry[0]);
  memcpy(&enlist, &entry[2], sizeof entry[0]);
  return retain(&context, 0) == 0 && push(context) == 0 && enlist(a->x, a->x_bytes, 0) == 0 &&
         enlist(a->got, a->y_bytes, 0) == 0;
}

static void time_line(falt_device *cuda, const char *line, bool pinned) {
  arrays a;
  falt_stages s = {0};
  falt_limits limits;
  falt_device_limits(cuda, &limits);
  if (!open_arrays(&a, line) || (pinned && !pin(&a)) || !run(cuda, &a, a.got, 5, &s)) {
    printf("FAILED %s: %s\n", line, falt_message());
    failures++;
  } else {
    const double bus = fmax(s.bytes_in / limits.in_bytes_per_s, s.bytes_out / limits.out_bytes_per_s);
    printf(
        "{\"benchmark\": \"transfer\", \"problem\": \"%s\", \"pinned\": %s, \"seconds\": %.4g, \"bus_share\": %.3f, "
        "\"slabs\": %lld, \"in_gbytes_per_s\": %.1f, \"copy_in\": %.4g, \"compute\": %.4g, \"copy_out\": %.4g, "
        "\"staging\": %.4g}\n",
        line, pinned ? "true" : "false", s.seconds, bus / s.seconds, (long long)s.slabs, s.bytes_in / s.seconds * 1e-9,
        s.copy_in, s.compute, s.copy_out, s.staging);
    fflush(stdout);
  }
  if (!pinned) close_arrays(&a); /* pinned memory stays to the end of the process */
}

int main(int argc, char **argv) {
  const bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
  falt_device *cpu = NULL, *cuda = NULL, *small = NULL;
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  options.max_memory = 600 << 10;
  if (falt_device_cuda(&cuda, NULL) != FALT_OK || falt_device_cuda(&small, &options) != FALT_OK ||
      falt_device_cpu(&cpu, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 3;
  }
  compare_all(cpu, small);
  if (!quick && falt_device_measure(cuda) == FALT_OK) {
    falt_limits limits;
    falt_device_limits(cuda, &limits);
    printf("{\"benchmark\": \"bus\", \"in_gbytes_per_s\": %.1f, \"out_gbytes_per_s\": %.1f}\n",
           limits.in_bytes_per_s * 1e-9, limits.out_bytes_per_s * 1e-9);
    compare(cpu, cuda, "correlate h=8192 w=8192 r=5 s=5 boundary=symmetric", 2);
    time_line(cuda, "correlate h=512 w=512 r=5 s=5 boundary=symmetric", false);
    time_line(cuda, "correlate h=8192 w=8192 r=5 s=5 boundary=symmetric", false);
    time_line(cuda, "correlate h=8192 w=8192 r=5 s=5 boundary=wrap type=u8", false);
    time_line(cuda, "correlate h=8192 w=8192 r=5 s=5 boundary=symmetric", true);
    time_line(cuda, "correlate d=512 h=512 w=512 t=3 r=3 s=3 boundary=edge", false);
    time_line(cuda, "correlate w=134217728 s=7 boundary=edge", false);
  }
  falt_device_destroy(&small);
  falt_device_destroy(&cuda);
  falt_device_destroy(&cpu);
  printf("transfer: %d failed\n", failures);
  return failures != 0;
}
