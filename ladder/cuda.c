/* Launches the ladder's kernels: from a description and a task to a compiled function, its blocks and its arguments. */
#include "ladder/cuda.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "cuda/gpu.h"
#include "ladder/timing.h"

struct ladder_gpu {
  falt_gpu *gpu;
};

extern const falt_cuda_source ladder_sources[];

falt_status ladder_gpu_open(ladder_gpu **gpu, int ordinal) {
  *gpu = falt_alloc_zero(sizeof **gpu);
  if (!*gpu) return falt_fail(FALT_NO_MEMORY, "ladder: memory ran out");
  const falt_status status = falt_gpu_open(&(*gpu)->gpu, ordinal, NULL);
  if (status != FALT_OK) {
    falt_free(*gpu);
    *gpu = NULL;
  }
  return status;
}

void ladder_gpu_close(ladder_gpu *gpu) {
  if (!gpu) return;
  falt_gpu_close(gpu->gpu);
  falt_free(gpu);
}

/* Kernels count in 32 bits along each axis, but for a signal's. */
static bool too_long(const ladder_kernel *kernel, const ladder_task *k) {
  const bool is_signal = !kernel->is_layer && k->size[0] * k->size[1] == 1 && k->taps[0] * k->taps[1] == 1;
  return k->size[0] > INT32_MAX / 2 || k->size[1] > INT32_MAX / 2 ||
         (!is_signal && k->size[2] > INT32_MAX / 2 / (kernel->is_layer ? 1 : k->channels));
}

const char *ladder_launch_make(const ladder_kernel *kernel, const ladder_task *task, ladder_launch *l) {
  enum { MOST_SHARED = 48 << 10, MOST_THREADS = 1024, MOST_BLOCKS_YZ = 65535 };
  if (too_long(kernel, task)) return "an axis of over 2^31 elements";
  *l = (ladder_launch){.of = kernel,
                       .kernel = {.source = kernel->source, .entry = kernel->entry, .sources = ladder_sources},
                       .blocks = {1, 1, 1},
                       .threads = {1, 1, 1}};
  falt_cuda_define(&l->kernel, "STEP=%d", kernel->step);
  const char *reason = kernel->shape(task, l);
  return reason                                                           ? reason
         : l->threads[0] * l->threads[1] * l->threads[2] > MOST_THREADS   ? "its block would have over 1024 threads"
         : l->shared_bytes > MOST_SHARED                                  ? "its tile does not fit in shared memory"
         : l->blocks[1] > MOST_BLOCKS_YZ || l->blocks[2] > MOST_BLOCKS_YZ ? "more rows or planes than a grid has"
         : l->blocks[0] > INT32_MAX                                       ? "more blocks than a grid has"
                                                                          : NULL;
}

/* ---- one kernel with its arguments */

typedef struct ready {
  falt_gpu_launch launch;
  int blocks_yz[2], threads_z;
  const float *x, *w;
  float *y;
  ladder_size size;
  ladder_layer_size layer;
  const ladder_kernel *kernel;
  void *arguments[4]; /* x, y, size, taps */
} ready;

static ladder_size size_of(const ladder_task *k) {
  return (ladder_size){(int)k->size[0], (int)k->size[1], k->size[2], k->pitch};
}

static ladder_layer_size layer_of(const ladder_task *k) {
  return (ladder_layer_size){.channels = (int)k->channels,
                             .height = (int)k->size[1],
                             .width = (int)k->size[2],
                             .filters = (int)k->filters,
                             .out_height = (int)k->out[0],
                             .out_width = (int)k->out[1],
                             .pooled_height = (int)k->pooled[0],
                             .pooled_width = (int)k->pooled[1],
                             .count = k->images * k->filters * k->out[0] * k->out[1]};
}

static falt_status make_ready(const ladder_kernel *kernel, const ladder_task *task, ready *r) {
  ladder_launch l;
  const char *reason = ladder_launch_make(kernel, task, &l);
  if (reason)
    return falt_fail(FALT_INTERNAL, "ladder: %s was started where it does not serve: %s", l.kernel.entry, reason);
  const bool from_between = kernel->operands == LADDER_BETWEEN || kernel->operands == LADDER_BETWEEN_TO_Y;
  const bool to_between = kernel->operands == LADDER_BETWEEN || kernel->operands == LADDER_X_TO_BETWEEN ||
                          kernel->operands == LADDER_W_TO_BETWEEN;
  *r = (ready){.launch = {.blocks = l.blocks[0], .threads = {l.threads[0], l.threads[1]}},
               .blocks_yz = {(int)l.blocks[1], (int)l.blocks[2]},
               .threads_z = l.threads[2],
               .x = from_between                              ? task->between
                    : kernel->operands == LADDER_W_TO_BETWEEN ? task->w
                                                              : task->x,
               .w = kernel->operands == LADDER_X_BETWEEN_TO_Y ? task->between : task->w,
               .y = to_between ? task->between : task->y,
               .size = size_of(task),
               .layer = layer_of(task),
               .kernel = kernel};
  r->arguments[0] = &r->x;
  r->arguments[1] = &r->y;
  r->arguments[2] = kernel->is_layer ? (void *)&r->layer : (void *)&r->size;
  r->arguments[3] = kernel->taps_as_argument ? (void *)(uintptr_t)task->host_taps : (void *)&r->w;
  return falt_gpu_kernel(task->gpu->gpu, &l.kernel, &r->launch.function);
}

/* ---- a step */

typedef struct sequence {
  falt_gpu *gpu;
  ready kernel[3];
  int count;
  falt_status status;
} sequence;

static void run_on_gpu(void *context, long runs) {
  sequence *s = context;
  for (long i = 0; i < runs; i++)
    for (int k = 0; k < s->count; k++) {
      ready *r = &s->kernel[k];
      falt_gpu_start_grid(s->gpu, &r->launch, r->blocks_yz, r->threads_z, r->arguments);
    }
  const falt_status done = falt_gpu_synchronize(s->gpu), started = falt_gpu_trouble();
  if (s->status == FALT_OK) s->status = done != FALT_OK ? done : started;
}

falt_status ladder_cuda_time(const ladder_step *step, const ladder_task *task, double seconds, double *least) {
  sequence s = {.gpu = task->gpu->gpu};
  for (; s.count < 3 && step->kernel[s.count]; s.count++)
    FALT_TRY(make_ready(step->kernel[s.count], task, &s.kernel[s.count]));
  run_on_gpu(&s, 1);
  if (s.status == FALT_OK) *least = ladder_least_time(run_on_gpu, &s, seconds);
  return s.status;
}
