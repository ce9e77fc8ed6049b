/* Measures the multiply-add rates of a GPU by kernels of chains in registers. */
#include "cuda/rate.h"

enum { CHAINS = 8, THREADS = 256, LAUNCHES = 32, BATCHES = 5 };

static const struct {
  const char *source, *type;
  int rounds, blocks; /* of a chain; of a multiprocessor, all at once */
  double flops;       /* of a thread in a round of a chain */
} probes[FALT_GPU_RATES] = {[FALT_GPU_F32] = {"rate.cu", "float", 8192, 8, 2},
                            [FALT_GPU_F64] = {"rate.cu", "double", 4096, 8, 2},
                            [FALT_GPU_F16] = {"rate_products.cu", "float", 1024, 4, 2.0 * 16 * 8 * 16 / 32}};

typedef struct burst {
  falt_gpu *gpu;
  falt_gpu_launch launch;
  void **parameters;
} burst;

static void start(void *context) {
  const burst *b = context;
  falt_gpu_start(b->gpu, &b->launch, b->parameters);
}

falt_cuda_kernel falt_gpu_rate_kernel(falt_gpu_rates which) {
  falt_cuda_kernel kernel = {.source = probes[which].source, .entry = "falt_rate"};
  falt_cuda_define(&kernel, "REAL=%s", probes[which].type);
  falt_cuda_define(&kernel, "ROUNDS=%d", probes[which].rounds);
  falt_cuda_define(&kernel, "CHAINS=%d", CHAINS);
  return kernel;
}

/* The shortest of several batches; the first is a warm-up. */
static double least_seconds(burst *b) {
  double least = -1;
  for (int batch = -1; batch < BATCHES; batch++) {
    const double seconds = falt_gpu_time(b->gpu, NULL, start, b, LAUNCHES) / LAUNCHES;
    if (batch >= 0 && seconds > 0 && (least < 0 || seconds < least)) least = seconds;
  }
  return least;
}

void falt_gpu_rate(falt_gpu *gpu, falt_gpu_rates which, double *rate) {
  const falt_cuda_kernel kernel = falt_gpu_rate_kernel(which);
  const bool is_double = which == FALT_GPU_F64;
  void *never = NULL;
  float scale = 0.999f, step = 0.001f;
  double scale_double = 0.999, step_double = 0.001;
  void *parameters[] = {&never, is_double ? (void *)&scale_double : &scale, is_double ? (void *)&step_double : &step};
  burst b = {.gpu = gpu, .parameters = parameters};
  b.launch = (falt_gpu_launch){.blocks = (int64_t)probes[which].blocks * falt_gpu_about(gpu)->multiprocessors,
                               .threads = {THREADS, 1}};
  if (falt_gpu_kernel(gpu, &kernel, &b.launch.function) != FALT_OK) return;
  const double seconds = least_seconds(&b);
  if (falt_gpu_trouble() != FALT_OK || !(seconds > 0)) return;
  *rate = probes[which].flops * probes[which].rounds * CHAINS * THREADS * (double)b.launch.blocks / seconds;
}
