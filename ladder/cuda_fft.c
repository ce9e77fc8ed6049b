/* The GPU steps for a signal by transforms (overlap-save): kernels and blocks. */
#include "ladder/cuda.h"
#include "ladder/fft.h"

enum { W = 2, MOST_BLOCK = 512 };

static const char *launch(const ladder_task *k, ladder_launch *l, int levels, int segments, int threads,
                          int64_t blocks) {
  const char *reason = ladder_fft_refusal(k);
  if (reason) return reason;
  l->blocks[0] = blocks;
  l->threads[0] = threads;
  falt_cuda_define(&l->kernel, "TAPS=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "POINTS=%d", ladder_fft_points(k));
  falt_cuda_define(&l->kernel, "THREADS=%d", threads);
  falt_cuda_define(&l->kernel, "SEGMENTS=%d", segments);
  falt_cuda_define(&l->kernel, "LEVELS=%d", levels);
  return NULL;
}

static const char *shape_direct(const ladder_task *k, ladder_launch *l) {
  enum { THREADS = 256 };
  return launch(k, l, 0, 1, THREADS, (k->size[W] + THREADS - 1) / THREADS);
}

/* `levels` of radix 2 that a thread does in registers, 0: the definition; `segments` of one block. */
static const char *shape(const ladder_task *k, ladder_launch *l, int levels, int segments, int64_t blocks) {
  const int points = ladder_fft_points(k), share = points >> (levels ? levels : 1);
  const int places = levels == 3 ? points + points / 16 : points;
  l->shared_bytes = 2 * (int64_t)sizeof(float) * places;
  return launch(k, l, levels, segments, share < MOST_BLOCK ? share : MOST_BLOCK, blocks);
}

static const char *filter_by_definition(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 0, 1, 1);
}
static const char *filter_by_radix_2(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 1, 1, 1);
}
static const char *filter_by_radix_8(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 3, 1, 1);
}
static const char *segments_by_definition(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 0, 1, ladder_fft_segments(k));
}
static const char *segments_by_radix_2(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 1, 1, ladder_fft_segments(k));
}
static const char *segments_by_radix_8(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 3, 1, ladder_fft_segments(k));
}
static const char *pairs_by_radix_8(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 3, 2, (ladder_fft_segments(k) + 1) / 2);
}

static const ladder_kernel direct = {"fft.cu", "fft_direct", 1, shape_direct, false, false, LADDER_X_TO_Y};
/* By level: the filter's spectrum, the segments' spectra, products and inverses. */
static const ladder_kernel by_definition[] = {
    {"fft.cu", "fft_filter", 2, filter_by_definition, false, false, LADDER_W_TO_BETWEEN},
    {"fft.cu", "fft_forward", 3, segments_by_definition, false, false, LADDER_X_TO_BETWEEN},
    {"fft.cu", "fft_inverse", 4, segments_by_definition, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel by_radix_2[] = {
    {"fft.cu", "fft_filter", 2, filter_by_radix_2, false, false, LADDER_W_TO_BETWEEN},
    {"fft.cu", "fft_forward", 3, segments_by_radix_2, false, false, LADDER_X_TO_BETWEEN},
    {"fft.cu", "fft_inverse", 4, segments_by_radix_2, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel by_radix_8[] = {
    {"fft.cu", "fft_filter", 2, filter_by_radix_8, false, false, LADDER_W_TO_BETWEEN},
    {"fft.cu", "fft_forward", 3, segments_by_radix_8, false, false, LADDER_X_TO_BETWEEN},
    {"fft.cu", "fft_inverse", 4, segments_by_radix_8, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel fused = {"fft.cu", "fft_fused", 5, segments_by_radix_8, false, false, LADDER_X_BETWEEN_TO_Y},
                           paired = {"fft.cu", "fft_fused", 5, pairs_by_radix_8, false, false, LADDER_X_BETWEEN_TO_Y};

/* ---- reads of memory for an output, in bytes: samples are f32, points complex */

static double direct_bytes(const ladder_task *k) {
  return 8.0 * (double)k->taps[W];
}
/* Samples once; a segment's spectrum and the filter's before the inverse. */
static double apart_bytes(const ladder_task *k) {
  return (4.0 + 8 + 8) * ladder_fft_points(k) / (double)ladder_fft_kept(k);
}
static double fused_bytes(const ladder_task *k) {
  return (4.0 + 8) * ladder_fft_points(k) / (double)ladder_fft_kept(k);
}
static double paired_bytes(const ladder_task *k) {
  return (4.0 + 4) * ladder_fft_points(k) / (double)ladder_fft_kept(k);
}

const ladder_step ladder_cuda_fft[] = {
    {.name = "direct",
     .idea = "the definition of the convolution",
     .book = "7.2, figure 7.7",
     .bytes_per_output = direct_bytes,
     .operations_per_output = ladder_fft_direct,
     .kernel = {&direct}},
    {.name = "dft",
     .idea = "segments' spectra by the definition of the DFT: 8 P^2 each",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_definition,
     .kernel = {&by_definition[0], &by_definition[1], &by_definition[2]}},
    {.name = "shared",
     .idea = "radix 2 in shared memory: 5 P log2 P, a barrier a level",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_2[0], &by_radix_2[1], &by_radix_2[2]}},
    {.name = "registers",
     .idea = "three levels in registers between two barriers: radix 8",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_8[0], &by_radix_8[1], &by_radix_8[2]}},
    {.name = "fused",
     .idea = "one kernel: spectra never leave shared memory",
     .bytes_per_output = fused_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_8[0], &fused}},
    {.name = "paired",
     .idea = "two segments as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_by_pairs,
     .kernel = {&by_radix_8[0], &paired}},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "cuda-fft"},
    {.name = NULL},
};
