/* What a GPU costs beyond its kernels, one JSON object a line: opening the device, the first execution of a plan whose
 * kernel must be compiled and of one whose kernel is in the cache (each in a process of its own), and the time that one
 * falt_execute takes from the calling thread, beside that of the driver's launch alone. Run by `make gpu-bench`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faltung/faltung.h"

enum { BURST = 100, BURSTS = 200, TAPS = 25 };
static const char line[] = "correlate h=256 w=256 r=5 s=5 boundary=symmetric";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const char *what, double seconds) {
  printf("{\"benchmark\": \"latency\", \"what\": \"%s\", \"problem\": \"%s\", \"seconds\": %.4g}\n", what, line,
         seconds);
  fflush(stdout);
}

static int fail(void) {
  fprintf(stderr, "%s\n", falt_message());
  return 3;
}

typedef struct setting {
  falt_device *device;
  falt_plan *plan;
  falt_operands there;
} setting;

static falt_status open_device(setting *s) {
  const double start = now();
  const falt_status status = falt_device_cuda(&s->device, NULL);
  if (status == FALT_OK) report("open the device", now() - start);
  return status;
}

/* Plans, executes and waits. */
static falt_status first_execution(setting *s, const char *what) {
  float taps[TAPS];
  falt_problem problem;
  falt_random_fill(taps, FALT_F32, TAPS, 1);
  falt_status status = falt_problem_parse(&problem, NULL, line);
  const size_t bytes = (size_t)falt_tensor_span(&problem.input) * sizeof(float);
  if (status == FALT_OK) status = falt_device_alloc(s->device, &s->there.input, bytes);
  if (status == FALT_OK) status = falt_device_alloc(s->device, &s->there.output, bytes);
  const double start = now();
  if (status == FALT_OK) status = falt_plan_create(&s->plan, s->device, &problem, NULL, taps);
  if (status == FALT_OK) status = falt_execute(s->plan, &s->there);
  if (status == FALT_OK) status = falt_device_synchronize(s->device);
  if (status == FALT_OK) report(what, now() - start);
  return status;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef bool (*launch)(void *context);

/* The median of bursts, short enough that the stream's queue never fills. */
static bool repeated(falt_device *device, const char *what, launch once, void *context) {
  double sample[BURSTS];
  for (int i = 0; i < BURSTS; i++) {
    const double start = now();
    for (int j = 0; j < BURST; j++)
      if (!once(context)) return false;
    sample[i] = (now() - start) / BURST;
    if (falt_device_synchronize(device) != FALT_OK) return false;
  }
  qsort(sample, BURSTS, sizeof *sample, ascending);
  report(what, sample[BURSTS / 2]);
  return true;
}

static bool execute(void *context) {
  const setting *s = context;
  return falt_execute(s->plan, &s->there) == FALT_OK;
}

/* ---- the driver alone: an empty kernel with parameters of the same size */

typedef struct bare {
  void *function;
  int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, void *stream, void **parameters, void **extra);
} bare;

static bool launch_bare(void *context) {
  static char parameters[4096];
  void *addresses[] = {parameters};
  const bare *b = context;
  return b->launch(b->function, 64, 1, 1, 128, 1, 1, 0, NULL, addresses, NULL) == 0;
}

static bool repeated_bare(falt_device *device) {
  static const char text[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry empty(.param .align 8 .b8 p[4000]) { ret; }\n";
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
  bare b;
  int (*retain)(void **, int), (*push)(void *), (*load)(void **, const void *), (*find)(void **, void *, const char *);
  void *entry[] = {dlsym(driver, "cuDevicePrimaryCtxRetain"), dlsym(driver, "cuCtxPushCurrent_v2"),
                   dlsym(driver, "cuModuleLoadData"), dlsym(driver, "cuModuleGetFunction"),
                   dlsym(driver, "cuLaunchKernel")};
  memcpy(&retain, &entry[0], sizeof entry[0]);
  memcpy(&push, &entry[1], sizeof entry[0]);
  memcpy(&load, &entry[2], sizeof entry[0]);
  memcpy(&find, &entry[3], sizeof entry[0]);
  memcpy(&b.launch, &entry[4], sizeof entry[0]);
  return retain(&context, 0) == 0 && push(context) == 0 && load(&module, text) == 0 &&
         find(&b.function, module, "empty") == 0 &&
         repeated(device, "cuLaunchKernel of an empty kernel", launch_bare, &b);
}

static int child(const char *what, bool repeats) {
  setting s = {.device = NULL};
  falt_status status = open_device(&s);
  if (status == FALT_OK) status = first_execution(&s, what);
  if (status == FALT_OK && repeats && !repeated(s.device, "falt_execute", execute, &s)) status = FALT_INTERNAL;
  if (status == FALT_OK && repeats && !repeated_bare(s.device)) status = FALT_INTERNAL;
  const int result = status == FALT_OK ? 0 : fail();
  falt_plan_destroy(&s.plan);
  falt_device_free(s.device, &s.there.input);
  falt_device_free(s.device, &s.there.output);
  falt_device_destroy(&s.device);
  return result;
}

static int in_process(const char *what, bool repeats) {
  int status = 0;
  const pid_t pid = fork();
  if (pid == 0) _exit(child(what, repeats));
  if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status)) return 4;
  return WEXITSTATUS(status);
}

int main(void) {
  char cache[] = "/tmp/falt-latency-XXXXXX", command[64];
  if (!mkdtemp(cache) || setenv("FALTUNG_CACHE", cache, 1)) return 4;
  int status = in_process("first execution, compiled", false);
  for (int i = 0; i < 3 && !status; i++) status = in_process("first execution, from the cache", i == 2);
  snprintf(command, sizeof command, "rm -r %s", cache);
  if (system(command) != 0) return 4;
  return status;
}
