/* The roofline model: time is the larger of work over peak and bytes over bandwidth. S. Williams, A. Waterman, D.
 * Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009. */
#include "planner/cost.h"

#include <math.h>

/* Data that fits into the private caches of all threads moves at cache speed, other data at memory speed. A call costs
 * about a microsecond and waking the other threads about five more, so small work runs on one thread. */

static const double call_seconds = 1e-6;
static const double wake_seconds = 5e-6;
static const double near_threads = 2; /* with so many, reading a filter again costs nothing that was measured */

static const double loop_seconds = 3e-6;  /* fitted to gradients of bf16 on 16 threads of a Xeon */
static const double far_seconds = 0.7e-9; /* a byte from the cache of another core, which has written it */
static const double shared_part =
    0.12; /* of far_seconds, for bytes that every thread loads: they are in a shared cache */

static double peak(const falt_device *device, falt_type type) {
  return type == FALT_F64 ? device->limits.f64_flops : device->limits.f32_flops;
}

static double thread_count(const falt_device *device) {
  return device->threads ? falt_threads_count(device->threads) : 1;
}

/* A GPU's cache is one for all; its threads are the host's. */
static double bandwidth(const falt_device *device, double bytes) {
  const double cached = (double)device->caches.l2 * (device->gpu ? 1 : thread_count(device));
  return bytes <= cached ? device->limits.cache_bytes_per_s : device->limits.copy_bytes_per_s;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

double falt_roofline(const falt_device *device, falt_type type, double flops, double efficiency, double bytes) {
  double together = larger(flops / (efficiency * peak(device, type)), bytes / bandwidth(device, bytes));
  double alone = together * thread_count(device);
  double woken = together + wake_seconds;
  return call_seconds + (alone < woken ? alone : woken);
}

/* Four L2 caches, as on Xeons with 2 MB each. On Zen 4 with 1 MB of L2 and 32 MB of L3, calls of 6 MB took up to twice
 * as long past the caches (bench/results/epyc-2cores-bypass-time.txt). */
bool falt_bypasses_caches(const falt_device *device, double bytes) {
  const double shared = (double)device->caches.l3 / 2, most = 8 << 20;
  return bytes > larger(4 * (double)device->caches.l2, shared < most ? shared : most);
}

double falt_halves_speed(const falt_device *device, double expected) {
  const falt_limits *l = &device->limits;
  const double found = l->measured && l->f16_flops > 0 ? l->f16_flops / l->f32_flops : expected;
  return found < expected ? found : expected;
}

double falt_load_imbalance(const falt_device *device, int64_t tasks) {
  const double threads = thread_count(device), rounds = ceil((double)tasks / threads);
  return tasks < 1 ? 1 : rounds * threads / (double)tasks;
}

bool falt_caches_are_far(const falt_device *device) {
  return thread_count(device) > near_threads;
}

/* Measured on 16 threads of a Xeon: Winograd layers of 7x7 and 14x14, in which each thread reads the whole filter. */
double falt_filter_loads(const falt_device *device, double bytes, int64_t blocks, int64_t chunks) {
  const bool stays = bytes / (double)chunks <= (double)device->caches.l2 / 2;
  return stays || !falt_caches_are_far(device) ? 0 : (double)blocks * bytes / device->limits.copy_bytes_per_s;
}

double falt_far_imbalance(const falt_device *device, int64_t tasks) {
  return falt_caches_are_far(device) ? falt_load_imbalance(device, tasks) : 1;
}

/* Measured on 16 threads of a Xeon: 0.6 to 0.9 microseconds a KB, one line after the other. */
double falt_load_written(const falt_device *device, double bytes) {
  return falt_caches_are_far(device) ? bytes * far_seconds : 0;
}

double falt_load_shared(const falt_device *device, double bytes) {
  return shared_part * falt_load_written(device, bytes);
}

double falt_loop_starts(const falt_device *device, int64_t loops) {
  return falt_caches_are_far(device) ? loop_seconds * (double)loops : 0;
}

/* Below this size work is not distributed over threads. */
double falt_roofline_alone(const falt_device *device, double seconds) {
  const double threads = thread_count(device), work = seconds - call_seconds;
  if (threads == 1 || work <= wake_seconds * threads / (threads - 1)) return seconds;
  return call_seconds + (work - wake_seconds) * threads;
}

/* Multiply-adds that no known algorithm avoids: a filter of known rank needs only its lines, one after the other. */
static double least_flops(const falt_problem *problem, double flops) {
  double taps = 1, lines = 0;
  for (int i = FALT_D; i <= FALT_W; i++) {
    double line = (double)problem->filter.size[i];
    taps *= line;
    lines += line > 1 ? line : 0;
  }
  double separable = problem->rank * lines / taps;
  return problem->rank > 0 && separable > 0 && separable < 1 ? flops * separable : flops;
}

/* Of the problem's products, by whichever unit does them fastest without giving up precision. */
static double product_peak(const falt_device *device, const falt_problem *problem) {
  const falt_type x = problem->input.type, w = problem->filter.type;
  const bool halves = problem->accumulator == FALT_F32 && falt_type_is_half(x) && falt_type_is_half(w);
  const bool bytes = falt_type_is_byte(x) && falt_type_is_byte(w);
  const double usual = peak(device, problem->accumulator);
  const double unit = halves ? device->limits.f16_flops : bytes ? device->limits.s8_flops : 0;
  return !falt_is_pooling(problem->operation) && unit > usual ? unit : usual;
}

falt_limit falt_problem_limit(const falt_device *device, const falt_problem *problem) {
  falt_limit limit = {.flops = falt_problem_flops(problem), .bytes = falt_problem_bytes(problem)};
  limit.compute_seconds = least_flops(problem, limit.flops) / product_peak(device, problem);
  limit.memory_seconds = limit.bytes / bandwidth(device, limit.bytes);
  limit.seconds = larger(limit.compute_seconds, limit.memory_seconds);
  return limit;
}

const char *falt_limit_bound(const falt_limit *limit) {
  return limit->compute_seconds > limit->memory_seconds ? "compute" : "memory";
}
