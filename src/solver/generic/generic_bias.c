/* Bias gradients: db[g,k] = sum of dy over batch and positions, in double, a block of channels for each thread. */
#include "solver/generic/generic.h"

enum { BLOCK = 16, CHUNK = 256 };

typedef struct block {
  const falt_generic_run *run;
  int64_t g, k, channels;
  double totals[BLOCK];
} block;

static void load_doubles(const block *b, double *to, int64_t index, int64_t stride, int64_t n) {
  const falt_type type = b->run->plan->p.output.type;
  const char *from = (const char *)b->run->operands->output + index * (int64_t)falt_type_size(type);
  b->run->plan->convert->load[FALT_LANE_F64][type](to, from, stride, n);
}

static void add_along_width(block *b, int64_t row) {
  const falt_tensor *y = &b->run->plan->p.output;
  double v[CHUNK];
  for (int64_t c = 0; c < b->channels; c++)
    for (int64_t w = 0; w < y->size[FALT_W]; w += CHUNK) {
      const int64_t n = falt_min(CHUNK, y->size[FALT_W] - w);
      load_doubles(b, v, row + c * y->stride[FALT_C] + w * y->stride[FALT_W], y->stride[FALT_W], n);
      for (int64_t i = 0; i < n; i++) b->totals[c] += v[i];
    }
}

static void add_along_channels(block *b, int64_t row) {
  const falt_tensor *y = &b->run->plan->p.output;
  double v[BLOCK];
  for (int64_t w = 0; w < y->size[FALT_W]; w++) {
    load_doubles(b, v, row + w * y->stride[FALT_W], y->stride[FALT_C], b->channels);
    for (int64_t c = 0; c < b->channels; c++) b->totals[c] += v[c];
  }
}

static void run_block(void *context, int64_t index) {
  block b = {.run = context};
  const falt_problem *p = &b.run->plan->p;
  const falt_tensor *y = &p->output;
  b.k = falt_generic_digit(&index, falt_ceil_div(y->size[FALT_C], BLOCK)) * BLOCK;
  b.g = index;
  b.channels = falt_min(BLOCK, y->size[FALT_C] - b.k);
  for (int64_t n = 0; n < y->size[FALT_N]; n++)
    for (int64_t d = 0; d < y->size[FALT_D]; d++)
      for (int64_t h = 0; h < y->size[FALT_H]; h++) {
        const int64_t row = falt_tensor_at(y, n, b.g, b.k, d, h, 0);
        if (b.run->plan->way == FALT_GENERIC_ROWS)
          add_along_width(&b, row);
        else
          add_along_channels(&b, row);
      }
  for (int64_t c = 0; c < b.channels; c++)
    falt_store(b.run->operands->bias, falt_type_real(y->type), b.g * y->size[FALT_C] + b.k + c, b.totals[c]);
}

void falt_generic_bias(const falt_generic_run *run) {
  const falt_tensor *y = &run->plan->p.output;
  const int64_t jobs = y->size[FALT_G] * falt_ceil_div(y->size[FALT_C], BLOCK);
  falt_parallel_for(run->plan->base.device->threads, jobs, run_block, (void *)run);
}
