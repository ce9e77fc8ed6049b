/* The rate of multiply-adds, from a kernel of chains in registers. */
#include "cuda/rate.h"

enum { ROUNDS = 8192, CHAINS = 8, THREADS = 256, BLOCKS = 8, LAUNCHES = 32, BATCHES = 5 }; /* BLOCKS: of an SM */

typedef struct burst {
  falt_gpu *gpu;
  falt_gpu_launch launch;
  void **parameters;
} burst;

static void start(void *context) {
  const burst *b = context;
  falt_gpu_start(b->gpu, &b->launch, b->parameters);
}

falt_cuda_kernel falt_gpu_rate_kernel(const char *type) {
  falt_cuda_kernel kernel = {.source = "rate.cu", .entry = "falt_rate"};
  falt_cuda_hole(&kernel, "REAL=%s", type);
  falt_cuda_hole(&kernel, "ROUNDS=%d", ROUNDS);
  falt_cuda_hole(&kernel, "CHAINS=%d", CHAINS);
  return kernel;
}

/* The shortest of several batches: what the machine can. The first warms up. */
static double least_seconds(burst *b) {
  double least = -1;
  for (int batch = -1; batch < BATCHES; batch++) {
    const double seconds = falt_gpu_time(b->gpu, NULL, start, b, LAUNCHES) / LAUNCHES;
    if (batch >= 0 && seconds > 0 && (least < 0 || seconds < least)) least = seconds;
  }
  return least;
}

void falt_gpu_rate(falt_gpu *gpu, const char *type, double *rate) {
  const falt_cuda_kernel kernel = falt_gpu_rate_kernel(type);
  const bool is_double = type[0] == 'd';
  void *never = NULL;
  float scale = 0.999f, step = 0.001f;
  double scale_double = 0.999, step_double = 0.001;
  void *parameters[] = {&never, is_double ? (void *)&scale_double : &scale, is_double ? (void *)&step_double : &step};
  burst b = {.gpu = gpu, .parameters = parameters};
  b.launch =
      (falt_gpu_launch){.blocks = (int64_t)BLOCKS * falt_gpu_about(gpu)->multiprocessors, .threads = {THREADS, 1}};
  if (falt_gpu_kernel(gpu, &kernel, &b.launch.function) != FALT_OK) return;
  const double seconds = least_seconds(&b);
  if (falt_gpu_trouble() != FALT_OK || !(seconds > 0)) return;
  *rate = 2.0 * ROUNDS * CHAINS * THREADS * (double)b.launch.blocks / seconds;
}
