/* A GPU as a device: name, limits, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/limits_file.h"
#include "api/verbose.h"
#include "core/clock.h"
#include "core/memory.h"
#include "cuda/gpu.h"
#include "cuda/rate.h"
#include "planner/wisdom.h"

/* Fractions of the peak rates by the clocks: of memory as copies reach it on an H200, of multiply-adds as filters do.
 */
static const double copy_share = 0.87, compute_share = 0.93;
static const double assumed_transfer = 2e10; /* bytes a second over the bus, until measured: PCIe 4.0 with 16 lanes */

void falt_cuda_options_default(falt_cuda_options *options) {
  if (options) *options = (falt_cuda_options){.ordinal = 0};
}

falt_status falt_cuda_count(int *count) {
  if (!count) return falt_fail(FALT_INVALID_ARGUMENT, "count: NULL; pass the address of an int");
  return falt_gpu_count(count);
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

/* The same for f16 on tensor cores, limited by power on the largest chips; none before the 16x8x16 MMA of sm_80, the
 * only one that the kernels use. */
static int f16_lanes(int major, int minor) {
  if (major < 8) return 0;
  if (major == 8) return minor == 0 ? 1024 : 512;
  return major == 9 || major == 10 ? 1400 : 512;
}

static falt_limits guess(const falt_gpu_facts *f) {
  const double clocks = 2e3 * f->clock_khz * f->multiprocessors * compute_share;
  const double copy = copy_share * 2e3 * f->memory_khz * f->bus_bits / 8;
  return (falt_limits){.copy_bytes_per_s = copy > 0 ? copy : 1e11, /* some GPUs do not tell their memory's clock */
                       .cache_bytes_per_s = copy > 0 ? 1.6 * copy : 1.6e11,
                       .f32_flops = clocks * f32_lanes(f->major, f->minor),
                       .f64_flops = clocks * f64_lanes(f->major, f->minor),
                       .f16_flops = clocks * f16_lanes(f->major, f->minor),
                       .in_bytes_per_s = assumed_transfer,
                       .out_bytes_per_s = assumed_transfer};
}

typedef struct copying {
  falt_gpu *gpu;
  char *memory;
  size_t bytes;
  falt_status status;
} copying;

static void copy_once(void *context) {
  copying *c = context;
  const falt_status status = falt_gpu_copy_within(c->gpu, c->memory, c->memory + c->bytes, c->bytes);
  if (c->status == FALT_OK) c->status = status;
}

/* Seconds of one copy, the shortest of several batches. */
static falt_status time_copy(falt_gpu *gpu, char *memory, size_t bytes, double *seconds) {
  enum { BATCHES = 5, COPIES = 8 };
  copying c = {gpu, memory, bytes, FALT_OK};
  *seconds = 1e9;
  for (int batch = -1; batch < BATCHES; batch++) { /* the first warms up */
    const double one = falt_gpu_time(gpu, NULL, copy_once, &c, COPIES) / COPIES;
    if (batch >= 0 && one > 0 && one < *seconds) *seconds = one;
  }
  return c.status;
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

/* Bytes a second of copies from pinned memory of the host, or into it. */
static falt_status time_transfer(falt_gpu *gpu, void *here, void *there, size_t bytes, bool in, double *rate) {
  enum { COPIES = 6 };
  double best = 1e9;
  for (int i = 0; i < COPIES; i++) {
    const double start = falt_seconds();
    FALT_TRY(in ? falt_gpu_send(gpu, there, here, bytes, NULL) : falt_gpu_receive(gpu, here, there, bytes, NULL));
    FALT_TRY(falt_gpu_synchronize(gpu));
    const double seconds = falt_seconds() - start;
    if (i > 0 && seconds < best) best = seconds; /* the first warms up */
  }
  *rate = (double)bytes / best;
  return FALT_OK;
}

static falt_status measure_transfers(falt_gpu *gpu, falt_limits *limits) {
  enum { BYTES = 64 << 20 };
  void *here = NULL, *there = NULL;
  falt_status status = falt_gpu_pin(gpu, &here, BYTES);
  if (status == FALT_OK) status = falt_gpu_allocate(gpu, &there, BYTES);
  if (status == FALT_OK) status = time_transfer(gpu, here, there, BYTES, true, &limits->in_bytes_per_s);
  if (status == FALT_OK) status = time_transfer(gpu, here, there, BYTES, false, &limits->out_bytes_per_s);
  falt_gpu_release(gpu, there);
  falt_gpu_unpin(gpu, here);
  return status;
}

/* The measured rate of a busy GPU is too low and would be stored for ever. The clocks give the rate closely enough to
 * reject a measurement below three quarters of it. */
static void measure_rates(falt_gpu *gpu, falt_limits *limits) {
  const falt_limits guessed = guess(falt_gpu_about(gpu));
  falt_gpu_rate(gpu, FALT_GPU_F32, &limits->f32_flops);
  falt_gpu_rate(gpu, FALT_GPU_F64, &limits->f64_flops);
  if (limits->f16_flops > 0) falt_gpu_rate(gpu, FALT_GPU_F16, &limits->f16_flops);
  limits->f32_flops = fmax(limits->f32_flops, 0.75 * guessed.f32_flops);
  limits->f64_flops = fmax(limits->f64_flops, 0.75 * guessed.f64_flops);
  limits->f16_flops = fmax(limits->f16_flops, 0.75 * guessed.f16_flops);
}

/* Everything is measured, but multiply-adds, where nothing can be compiled, are the clocks'. */
static falt_status measure_cuda(falt_device *device) {
  enum { MEMORY = 512 << 20 };
  falt_limits limits = device->limits;
  FALT_TRY(measure_copy(device->gpu, MEMORY, &limits.copy_bytes_per_s));
  FALT_TRY(measure_copy(device->gpu, device->caches.l2 / 2, &limits.cache_bytes_per_s));
  if (limits.cache_bytes_per_s < limits.copy_bytes_per_s) limits.cache_bytes_per_s = limits.copy_bytes_per_s;
  FALT_TRY(measure_transfers(device->gpu, &limits));
  measure_rates(device->gpu, &limits);
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

static bool reaches(falt_device *device, const void *memory) {
  return falt_gpu_locate(device->gpu, memory) != FALT_GPU_FOREIGN;
}

/* ---- queues: streams, with events for marks */

static falt_status room(falt_device *device, size_t *bytes) {
  return falt_gpu_room(device->gpu, bytes);
}

static falt_status pin(falt_device *device, void **memory, size_t bytes) {
  return falt_gpu_pin(device->gpu, memory, bytes);
}

static void unpin(falt_device *device, void *memory) {
  falt_gpu_unpin(device->gpu, memory);
}

static bool pinned(falt_device *device, const void *memory) {
  return falt_gpu_locate(device->gpu, memory) == FALT_GPU_PINNED;
}

static falt_status open_queue(falt_device *device, void **queue) {
  return falt_gpu_stream(device->gpu, queue);
}

static void close_queue(falt_device *device, void *queue) {
  falt_gpu_stream_close(device->gpu, queue);
}

static falt_status make_mark(falt_device *device, void **mark) {
  return falt_gpu_event(device->gpu, mark);
}

static void free_mark(falt_device *device, void *mark) {
  falt_gpu_event_close(device->gpu, mark);
}

static falt_status send(falt_device *device, void *to, const void *from, size_t bytes, void *queue) {
  return falt_gpu_send(device->gpu, to, from, bytes, queue);
}

static falt_status receive(falt_device *device, void *to, const void *from, size_t bytes, void *queue) {
  return falt_gpu_receive(device->gpu, to, from, bytes, queue);
}

static falt_status set_mark(falt_device *device, void *mark, void *queue) {
  return falt_gpu_record(device->gpu, mark, queue);
}

static falt_status follow(falt_device *device, void *queue, void *mark) {
  return falt_gpu_follow(device->gpu, queue, mark);
}

static falt_status wait_for(falt_device *device, void *mark) {
  return falt_gpu_wait(device->gpu, mark);
}

static double between(falt_device *device, void *begin, void *end) {
  return falt_gpu_between(device->gpu, begin, end);
}

static double time_calls(falt_device *device, void *stream, void (*body)(void *), void *context, long iterations) {
  return falt_gpu_time(device->gpu, stream, body, context, iterations);
}

/* ---- a GPU that is described, not present */

static falt_status refuse(falt_device *device) {
  return falt_fail(FALT_NO_DEVICE, "device: %s, not present; its plans can be explained and compiled, not executed",
                   device->name);
}

static falt_status refuse_allocate(falt_device *device, void **memory, size_t bytes) {
  (void)bytes;
  *memory = NULL;
  return refuse(device);
}

static void refuse_release(falt_device *device, void *memory) {
  (void)device, (void)memory;
}

static falt_status refuse_copy(falt_device *device, void *to, const void *from, size_t bytes) {
  (void)to, (void)from, (void)bytes;
  return refuse(device);
}

static falt_status refuse_trouble(falt_device *device) {
  falt_gpu_trouble();
  return refuse(device);
}

static void furnish_described(falt_device *device, const char *name) {
  static const falt_device_memory memory = {.allocate = refuse_allocate,
                                            .release = refuse_release,
                                            .copy_in = refuse_copy,
                                            .copy_out = refuse_copy,
                                            .synchronize = refuse,
                                            .trouble = refuse_trouble};
  const falt_gpu_facts *facts = falt_gpu_about(device->gpu);
  device->described = true;
  device->memory = &memory;
  device->queues = NULL;
  device->measure = refuse;
  snprintf(device->name, sizeof device->name, "cuda:%.20s %.40s %s, described", name, facts->name, facts->arch);
}

/* ---- the device */

static void destroy_cuda(falt_device *device) {
  falt_device_steady_free(device);
  falt_gpu_close(device->gpu);
  falt_threads_destroy(device->threads);
  falt_wisdom_destroy(device->wisdom);
  falt_free(device);
}

/* Copying through pinned memory takes several of the host's threads to keep up with the bus. */
static falt_status choose_threads(const falt_cuda_options *options, int *threads) {
  enum { ENOUGH = 16, MOST = 4096 };
  const char *text = getenv("FALTUNG_THREADS");
  int64_t value = falt_min(falt_cores_available(), ENOUGH);
  *threads = options->threads;
  if (*threads < 0 || *threads > MOST)
    return falt_fail(FALT_INVALID_ARGUMENT, "options.threads: %d; use 1 to %d, or 0", *threads, MOST);
  if (*threads > 0) return FALT_OK;
  if (text && *text && (!falt_read_int(text, strlen(text), &value) || value < 1 || value > MOST))
    return falt_fail(FALT_INVALID_ARGUMENT, "FALTUNG_THREADS: '%s'; use a number from 1 to %d", text, MOST);
  *threads = (int)value;
  return FALT_OK;
}

/* The tables name each function's place, as that of the driver in cuda/described.c does. */
static bool furnish(falt_device *device, int threads) {
  static const falt_device_memory memory = {.allocate = allocate,
                                            .release = release,
                                            .copy_in = copy_in,
                                            .copy_out = copy_out,
                                            .synchronize = synchronize,
                                            .trouble = trouble,
                                            .reaches = reaches,
                                            .time = time_calls};
  static const falt_device_queues queues = {.room = room,
                                            .pin = pin,
                                            .unpin = unpin,
                                            .pinned = pinned,
                                            .open = open_queue,
                                            .close = close_queue,
                                            .make_mark = make_mark,
                                            .free_mark = free_mark,
                                            .copy_in = send,
                                            .copy_out = receive,
                                            .mark = set_mark,
                                            .follow = follow,
                                            .wait = wait_for,
                                            .between = between};
  const falt_gpu_facts *facts = falt_gpu_about(device->gpu);
  device->kind = "cuda";
  device->isa = FALT_ISA_PORTABLE;
  device->destroy = destroy_cuda;
  device->measure = measure_cuda;
  device->memory = &memory;
  device->queues = &queues;
  device->caches = falt_cpu_caches();
  device->caches.l2 = facts->l2_bytes > 0 ? (size_t)facts->l2_bytes / 2 : (size_t)1 << 20;
  device->limits = guess(facts);
  device->threads = falt_threads_create(threads, NULL, NULL);
  device->wisdom = falt_wisdom_create();
  snprintf(device->name, sizeof device->name, "cuda:%d %s %s", facts->ordinal, facts->name, facts->arch);
  snprintf(device->model, sizeof device->model, "%.40s, %d SM", facts->name, facts->multiprocessors);
  return device->threads && device->wisdom;
}

static falt_status open_gpu(falt_gpu **gpu, const falt_cuda_options *options) {
  if (!memchr(options->described, '\0', sizeof options->described))
    return falt_fail(FALT_INVALID_ARGUMENT, "options.described: not terminated; end the name with a NUL");
  if (options->described[0]) return falt_gpu_open_described(gpu, options->described, options->compile);
  return falt_gpu_open(gpu, options->ordinal, options->context);
}

falt_status falt_device_cuda(falt_device **device, const falt_cuda_options *options) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; pass the address of a falt_device pointer");
  *device = NULL;
  falt_cuda_options defaults;
  falt_cuda_options_default(&defaults);
  if (!options) options = &defaults;
  falt_gpu *gpu;
  unsigned verbose;
  int threads;
  FALT_TRY(falt_verbose_read(&verbose));
  FALT_TRY(FALT_CHECK_RESERVED(options, "falt_cuda_options_default"));
  FALT_TRY(choose_threads(options, &threads));
  FALT_TRY(open_gpu(&gpu, options));
  falt_device *cuda = falt_alloc_zero(sizeof *cuda);
  if (!cuda) {
    falt_gpu_close(gpu);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  cuda->gpu = gpu;
  cuda->verbose = verbose;
  cuda->max_memory = options->max_memory;
  if (!furnish(cuda, threads)) {
    destroy_cuda(cuda);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  if (options->described[0]) furnish_described(cuda, options->described);
  const falt_limits guessed = cuda->limits;
  if (!falt_device_steady_make(cuda, &guessed)) {
    destroy_cuda(cuda);
    return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  }
  falt_limits_load(cuda);
  *device = cuda;
  return FALT_OK;
}
