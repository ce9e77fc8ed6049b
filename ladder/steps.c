/* Helpers of all steps: counts on paper, the clock, and the division of work among threads. */
#include <math.h>
#include <pthread.h>

#include "ladder/cuda.h"
#include "ladder/timing.h"

double ladder_operations(const ladder_task *k, bool is_layer) {
  const double taps = (double)k->taps[0] * (double)k->taps[1] * (double)k->taps[2];
  const double outputs = is_layer ? (double)(k->images * k->filters) * (double)(k->out[0] * k->out[1])
                                  : (double)k->size[0] * (double)k->size[1] * (double)k->size[2];
  return 2 * outputs * taps * (double)k->channels;
}

static double product_of(const int64_t taps[3]) {
  return (double)taps[0] * (double)taps[1] * (double)taps[2];
}

/* A tile's inputs are read once, and taps that are cached not at all. */
static ladder_counts count(const ladder_task *task, const ladder_kernel *kernel, const ladder_launch *l) {
  const double taps = product_of(task->taps), inputs_per_output = l->tile_inputs / l->tile_outputs;
  ladder_counts c = {.blocks = l->blocks[0] * l->blocks[1] * l->blocks[2],
                     .block_threads = l->threads[0] * l->threads[1] * l->threads[2],
                     .shared_bytes = (int)l->shared_bytes,
                     .reads_saved = 1};
  if (l->tile_inputs > 0) {
    c.reads_saved = taps / inputs_per_output;
    c.operations_per_byte = 2 * taps / (4 * inputs_per_output);
  } else {
    c.operations_per_byte = 2 / (kernel->taps_as_argument ? 4.0 : 8.0);
  }
  return c;
}

/* Steps by transforms make other operations than the definition's, and say what they read. */
static void count_own(const ladder_step *step, const ladder_task *task, ladder_counts *c) {
  const double bytes = step->bytes_per_output(task), operations = step->operations_per_output(task);
  c->operations = operations * product_of(task->size);
  c->operations_per_byte = operations / bytes;
  c->reads_saved = 8 * product_of(task->taps) / bytes; /* the definition reads a sample and a tap a product */
}

const char *ladder_refusal(const ladder_step *step, const ladder_task *task, ladder_counts *counts) {
  if (step->run) {
    *counts = (ladder_counts){.reads_saved = 1};
    counts->operations_per_byte = 2 * product_of(task->taps) / step->bytes_per_output(task);
    const char *reason = step->missing ? step->missing(task) : NULL;
    if (step->operations_per_output && !reason) count_own(step, task, counts);
    return reason;
  }
  for (int i = 0; i < 3 && step->kernel[i]; i++) {
    ladder_launch launch;
    const char *reason = ladder_launch_make(step->kernel[i], task, &launch);
    if (reason) return reason;
    if (i == 0 || step->operations_per_output) *counts = count(task, step->kernel[i], &launch);
  }
  if (step->operations_per_output) count_own(step, task, counts);
  return NULL;
}

/* ---- time */

typedef struct call {
  const ladder_step *step;
  const ladder_task *task;
} call;

static void run_on_cpu(void *context, long runs) {
  const call *c = context;
  for (long i = 0; i < runs; i++) c->step->run(c->task);
}

falt_status ladder_time(const ladder_step *step, const ladder_task *task, double seconds, double *least) {
  if (!step->run) return ladder_cuda_time(step, task, seconds, least);
  call c = {step, task};
  *least = ladder_least_time(run_on_cpu, &c, seconds);
  return FALT_OK;
}

/* ---- threads */

enum { MOST_THREADS = 64 };

typedef struct share {
  const ladder_task *task;
  void (*run)(const ladder_task *task, int64_t begin, int64_t end);
  int64_t begin, end;
} share;

static void *run_share(void *argument) {
  const share *s = argument;
  s->run(s->task, s->begin, s->end);
  return NULL;
}

void ladder_share(const ladder_task *task, int64_t items, void (*run)(const ladder_task *, int64_t, int64_t)) {
  int64_t count = task->threads < MOST_THREADS ? task->threads : MOST_THREADS;
  count = count < items ? count : items;
  if (count < 1) count = 1;
  pthread_t threads[MOST_THREADS];
  share shares[MOST_THREADS];
  int started = 0;
  for (int i = 0; i < count; i++) shares[i] = (share){task, run, items * i / count, items * (i + 1) / count};
  while (started < count - 1 && !pthread_create(&threads[started], NULL, run_share, &shares[started])) started++;
  for (int i = started; i < count; i++) run_share(&shares[i]); /* the caller's part, and parts without a thread */
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
