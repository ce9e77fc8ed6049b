/* A GPU as a device: its name, its limits, its memory. */
#include <stdio.h>
#include <string.h>

#include "api/limits_file.h"
#include "api/verbose.h"
#include "core/clock.h"
#include "core/memory.h"
#include "cuda/gpu.h"
#include "planner/wisdom.h"

/* Shares of what the clocks promise: of memory as copies reach it on an H200, of multiply-adds as filters do. */
static const double copy_share = 0.87, compute_share = 0.93;

void falt_cuda_options_default(falt_cuda_options *options) {
  *options = (falt_cuda_options){.ordinal = 0};
}

/* ---- limits */

/* Multiply-adds of one multiprocessor a clock. */
static int f32_lanes(int major, int minor) {
  return major == 7 || (major == 8 && minor == 0) || (major == 6 && minor == 0) ? 64 : 128;
}

static int f64_lanes(int major, int minor) {
  if (major == 9 || (major == 10 && minor == 0)) return 64;
  return (major == 7 && minor == 0) || (major == 8 && minor == 0) || (major == 6 && minor == 0) ? 32 : 2;
}

static falt_limits guess(const falt_gpu_facts *f) {
  const double clocks = 2e3 * f->clock_khz * f->multiprocessors * compute_share;
  const double copy = copy_share * 2e3 * f->memory_khz * f->bus_bits / 8;
  return (falt_limits){.copy_bytes_per_s = copy > 0 ? copy : 1e11, /* some GPUs do not tell their memory's clock */
                       .cache_bytes_per_s = copy > 0 ? 1.6 * copy : 1.6e11,
                       .f32_flops = clocks * f32_lanes(f->major, f->minor),
                       .f64_flops = clocks * f64_lanes(f->major, f->minor)};
}

/* Seconds of one copy, the shortest of several batches. */
static falt_status time_copy(falt_gpu *gpu, char *memory, size_t bytes, double *seconds) {
  enum { BATCHES = 5, COPIES = 8 };
  *seconds = 1e9;
  for (int batch = -1; batch < BATCHES; batch++) { /* the first warms up */
    const double start = falt_seconds();
    for (int i = 0; i < COPIES; i++) FALT_TRY(falt_gpu_copy_within(gpu, memory, memory + bytes, bytes));
    FALT_TRY(falt_gpu_synchronize(gpu));
    const double one = (falt_seconds() - start) / COPIES;
    if (batch >= 0 && one < *seconds) *seconds = one;
  }
  return FALT_OK;
}

/* Read plus written bytes a second of copies of this size. */
static falt_status measure_copy(falt_gpu *gpu, size_t bytes, double *rate) {
  void *memory;
  double seconds;
  FALT_TRY(falt_gpu_allocate(gpu, &memory, 2 * bytes));
  const falt_status status = time_copy(gpu, memory, bytes, &seconds);
  falt_gpu_release(gpu, memory);
  if (status == FALT_OK) *rate = 2 * (double)bytes / seconds;
  return status;
}

/* Bandwidths are measured; multiply-adds are the clocks'. */
static falt_status measure_cuda(falt_device *device) {
  enum { MEMORY = 512 << 20 };
  falt_limits limits = device->limits;
  FALT_TRY(measure_copy(device->gpu, MEMORY, &limits.copy_bytes_per_s));
  FALT_TRY(measure_copy(device->gpu, device->caches.l2 / 2, &limits.cache_bytes_per_s));
  if (limits.cache_bytes_per_s < limits.copy_bytes_per_s) limits.cache_bytes_per_s = limits.copy_bytes_per_s;
  limits.measured = true;
  device->limits = limits;
  falt_limits_store(device); /* without a cache they hold for this device only */
  return FALT_OK;
}

/* ---- memory */

static falt_status allocate(falt_device *device, void **memory, size_t bytes) {
  return falt_gpu_allocate(device->gpu, memory, bytes);
}

static void release(falt_device *device, void *memory) {
  falt_gpu_release(device->gpu, memory);
}

static falt_status copy_in(falt_device *device, void *to, const void *from, size_t bytes) {
  return falt_gpu_copy_in(device->gpu, to, from, bytes);
}

static falt_status copy_out(falt_device *device, void *to, const void *from, size_t bytes) {
  return falt_gpu_copy_out(device->gpu, to, from, bytes);
}

static falt_status synchronize(falt_device *device) {
  return falt_gpu_synchronize(device->gpu);
}

static falt_status trouble(falt_device *device) {
  (void)device;
  return falt_gpu_trouble();
}

/* ---- the device */

static void destroy_cuda(falt_device *device) {
  falt_gpu_close(device->gpu);
  falt_threads_destroy(device->threads);
  falt_wisdom_destroy(device->wisdom);
  falt_free(device);
}

static bool furnish(falt_device *device) {
  static const falt_device_memory memory = {allocate, release, copy_in, copy_out, synchronize, trouble};
  const falt_gpu_facts *facts = falt_gpu_about(device->gpu);
  device->kind = "cuda";
  device->isa = FALT_ISA_PORTABLE;
  device->destroy = destroy_cuda;
  device->measure = measure_cuda;
  device->memory = &memory;
  device->caches = falt_cpu_caches();
  device->caches.l2 = facts->l2_bytes > 0 ? (size_t)facts->l2_bytes / 2 : (size_t)1 << 20;
  device->limits = guess(facts);
  device->threads = falt_threads_create(1, NULL, NULL);
  device->wisdom = falt_wisdom_create();
  snprintf(device->name, sizeof device->name, "cuda:%d %s %s", facts->ordinal, facts->name, facts->arch);
  snprintf(device->model, sizeof device->model, "%.40s, %d SM", facts->name, facts->multiprocessors);
  return device->threads && device->wisdom;
}

falt_status falt_device_cuda(falt_device **device, const falt_cuda_options *options) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; pass the address of a falt_device pointer");
  *device = NULL;
  falt_cuda_options defaults;
  falt_cuda_options_default(&defaults);
  const falt_cuda_options *o = options ? options : &defaults;
  falt_gpu *gpu;
  unsigned verbose;
  FALT_TRY(falt_verbose_read(&verbose));
  FALT_TRY(falt_gpu_open(&gpu, o->ordinal, o->context));
  falt_device *cuda = falt_alloc_zero(sizeof *cuda);
  if (!cuda) {
    falt_gpu_close(gpu);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  cuda->gpu = gpu;
  cuda->verbose = verbose;
  if (!furnish(cuda)) {
    destroy_cuda(cuda);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  falt_limits_load(cuda);
  *device = cuda;
  return FALT_OK;
}
