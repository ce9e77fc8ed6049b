/* The CPU as a device: instruction set, threads, limits. Only this file reads the environment, when a device is
 * created. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/limits_file.h"
#include "api/verbose.h"
#include "core/memory.h"
#include "cpu/limits.h"
#include "planner/wisdom.h"

enum { MAX_THREADS = 4096 };
static const char isa_names[] = "portable, neon, avx2, avx512, vnni, bf16, amx";

void falt_cpu_options_default(falt_cpu_options *options) {
  if (options) *options = (falt_cpu_options){.threads = 0};
}

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* The highest level up to the cap that this processor runs: a script's cap should not fail on an older machine. */
static falt_isa capped(int cap) {
  falt_isa isa = (falt_isa)cap;
  while (isa > FALT_ISA_PORTABLE && !falt_isa_runs(isa)) isa--;
  return isa;
}

static falt_status choose_isa(const falt_cpu_options *options, falt_isa *isa) {
  if (!memchr(options->isa, '\0', sizeof options->isa))
    return falt_fail(FALT_INVALID_ARGUMENT, "options.isa: not terminated; use one of %s", isa_names);
  const char *name = options->isa[0] ? options->isa : environment("FALTUNG_ISA");
  int cap = name ? falt_isa_find(name) : (int)falt_isa_best();
  if (cap < 0)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s: no instruction set is called '%s'; use one of %s",
                     options->isa[0] ? "options.isa" : "FALTUNG_ISA", name, isa_names);
  *isa = capped(cap);
  return FALT_OK;
}

static falt_status choose_threads(const falt_cpu_options *options, int *threads) {
  *threads = options->threads;
  if (*threads < 0 || *threads > MAX_THREADS)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.threads: %d; use 1 to %d, or 0 for one per core", *threads,
                     MAX_THREADS);
  if (*threads > 0) return FALT_OK;
  const char *text = environment("FALTUNG_THREADS");
  int64_t value = falt_cores_available();
  if (text && (!falt_read_int(text, strlen(text), &value) || value < 1 || value > MAX_THREADS))
    return falt_fail(FALT_INVALID_ARGUMENT, "FALTUNG_THREADS: '%s'; use a number from 1 to %d", text, MAX_THREADS);
  *threads = (int)value;
  return FALT_OK;
}

static bool is_cuda(const char *name) {
  int64_t number;
  if (strncmp(name, "cuda", 4) != 0) return false;
  return !name[4] || (name[4] == ':' && falt_read_int(name + 5, strlen(name + 5), &number) && number >= 0);
}

/* FALTUNG_DEVICE chooses where nobody else does; a caller with options has chosen the CPU. */
static falt_status check_device_name(bool chosen) {
  const char *name = environment("FALTUNG_DEVICE");
  if (!name || strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0) return FALT_OK;
  if (!is_cuda(name))
    return falt_fail(FALT_INVALID_ARGUMENT, "FALTUNG_DEVICE: no device is called '%s'; use auto, cpu or cuda[:N]",
                     name);
  if (chosen) return FALT_OK;
  return falt_fail(FALT_NO_DEVICE, "FALTUNG_DEVICE: '%s' is not a CPU; make it with falt_device_cuda, or unset it",
                   name);
}

static void destroy_cpu(falt_device *device) {
  falt_device_steady_free(device);
  falt_threads_destroy(device->threads);
  falt_wisdom_destroy(device->wisdom);
  falt_free(device);
}

static falt_status measure_cpu(falt_device *device) {
  FALT_TRY(falt_limits_measure(&device->limits, device->isa, &device->caches, device->threads));
  falt_limits_store(device); /* without a cache they hold for this device only */
  return FALT_OK;
}

/* Everything that the options and the environment decide. */
typedef struct choice {
  falt_isa isa;
  int threads;
  unsigned verbose;
} choice;

static falt_status choose(const falt_cpu_options *options, bool by_caller, choice *made) {
  FALT_TRY(FALT_CHECK_RESERVED(options, "falt_cpu_options_default"));
  FALT_TRY(choose_isa(options, &made->isa));
  FALT_TRY(choose_threads(options, &made->threads));
  FALT_TRY(check_device_name(by_caller));
  return falt_verbose_read(&made->verbose);
}

static bool furnish(falt_device *device, const falt_cpu_options *options, const choice *made) {
  device->kind = "cpu";
  device->isa = made->isa;
  device->verbose = made->verbose;
  device->destroy = destroy_cpu;
  device->measure = measure_cpu;
  device->caches = falt_cpu_caches();
  device->limits = falt_limits_guess(made->isa, made->threads);
  device->threads = falt_threads_create(made->threads, options->pool, options->pool_data);
  device->wisdom = falt_wisdom_create();
  snprintf(device->name, sizeof device->name, "cpu %s threads=%d", falt_isa_name(made->isa), made->threads);
  falt_cpu_model(device->model, sizeof device->model);
  const falt_limits alone = falt_limits_guess(made->isa, 1);
  return device->threads && device->wisdom && falt_device_steady_make(device, &alone);
}

falt_status falt_device_cpu(falt_device **device, const falt_cpu_options *options) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; pass the address of a falt_device pointer");
  *device = NULL;
  falt_cpu_options defaults;
  falt_cpu_options_default(&defaults);
  choice made = {.threads = 1};
  FALT_TRY(choose(options ? options : &defaults, options != NULL, &made));
  falt_device *cpu = falt_alloc_zero(sizeof *cpu);
  if (!cpu) return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  if (!furnish(cpu, options ? options : &defaults, &made)) {
    destroy_cpu(cpu);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  falt_limits_load(cpu);
  *device = cpu;
  return FALT_OK;
}
