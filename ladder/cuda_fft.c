/* The GPU steps for a signal by transforms (overlap-save): kernels and blocks. */
#include "ladder/cuda.h"
#include "ladder/fft.h"

enum { W = 2, MOST_BLOCK = 512 };

static const char *launch(const ladder_task *k, ladder_launch *l, int threads, int64_t blocks) {
  const char *reason = ladder_fft_refusal(k);
  const ladder_transform *transform = (const ladder_transform *)l->of;
  if (reason) return reason;
  l->blocks[0] = blocks;
  l->threads[0] = threads;
  falt_cuda_define(&l->kernel, "TAPS=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "POINTS=%d", ladder_fft_points(k));
  falt_cuda_define(&l->kernel, "THREADS=%d", threads);
  falt_cuda_define(&l->kernel, "SEGMENTS=%d", transform->pieces > 1 ? transform->pieces : 1);
  falt_cuda_define(&l->kernel, "LEVELS=%d", transform->levels);
  return NULL;
}

static const char *shape_direct(const ladder_task *k, ladder_launch *l) {
  enum { THREADS = 256 };
  return launch(k, l, THREADS, (k->size[W] + THREADS - 1) / THREADS);
}

/* A block for each segment or pair of them; one for the filter. */
static const char *shape(const ladder_task *k, ladder_launch *l) {
  const ladder_transform *transform = (const ladder_transform *)l->of;
  const int levels = transform->levels, pieces = transform->pieces;
  const int points = ladder_fft_points(k), share = points >> (levels ? levels : 1);
  const int places = levels == 3 ? points + points / 16 : points;
  l->shared_bytes = 2 * (int64_t)sizeof(float) * places;
  return launch(k, l, share < MOST_BLOCK ? share : MOST_BLOCK,
                pieces ? (ladder_fft_segments(k) + pieces - 1) / pieces : 1);
}

static const ladder_transform direct = {{"fft.cu", "fft_direct", 1, shape_direct, false, false, LADDER_X_TO_Y}, 0, 0};
/* By level: the filter's spectrum, the segments' spectra, products and inverses. */
static const ladder_transform by_definition[] = {
    {{"fft.cu", "fft_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 0, 0},
    {{"fft.cu", "fft_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 0, 1},
    {{"fft.cu", "fft_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 0, 1},
};
static const ladder_transform by_radix_2[] = {
    {{"fft.cu", "fft_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 1, 0},
    {{"fft.cu", "fft_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 1, 1},
    {{"fft.cu", "fft_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 1, 1},
};
static const ladder_transform by_radix_8[] = {
    {{"fft.cu", "fft_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 3, 0},
    {{"fft.cu", "fft_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 3, 1},
    {{"fft.cu", "fft_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 3, 1},
};
static const ladder_transform fused = {{"fft.cu", "fft_fused", 5, shape, false, false, LADDER_X_BETWEEN_TO_Y}, 3, 1},
                              paired = {{"fft.cu", "fft_fused", 5, shape, false, false, LADDER_X_BETWEEN_TO_Y}, 3, 2};

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
     .kernel = {&direct.kernel}},
    {.name = "dft",
     .idea = "segments' spectra by the definition of the DFT: 8 P^2 each",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_definition,
     .kernel = {&by_definition[0].kernel, &by_definition[1].kernel, &by_definition[2].kernel}},
    {.name = "shared",
     .idea = "radix 2 in shared memory: 5 P log2 P, a barrier a level",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_2[0].kernel, &by_radix_2[1].kernel, &by_radix_2[2].kernel}},
    {.name = "registers",
     .idea = "three levels in registers between two barriers: radix 8",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_8[0].kernel, &by_radix_8[1].kernel, &by_radix_8[2].kernel}},
    {.name = "fused",
     .idea = "one kernel: spectra never leave shared memory",
     .bytes_per_output = fused_bytes,
     .operations_per_output = ladder_fft_by_fft,
     .kernel = {&by_radix_8[0].kernel, &fused.kernel}},
    {.name = "paired",
     .idea = "two segments as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_by_pairs,
     .kernel = {&by_radix_8[0].kernel, &paired.kernel}},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "cuda-fft"},
    {.name = NULL},
};
