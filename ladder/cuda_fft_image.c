/* The GPU steps for an image by transforms (overlap-save): kernels and blocks. The tables have the lines of those of
 * cuda_fft.c: each ladder is read on its own. */
#include "ladder/cuda.h"
#include "ladder/fft.h"

enum { H = 1, W = 2, MOST_BLOCK = 512 };

static const char *launch(const ladder_task *k, ladder_launch *l, int threads, int64_t blocks) {
  const char *reason = ladder_fft_tile_refusal(k);
  const ladder_transform *transform = (const ladder_transform *)l->of;
  if (reason) return reason;
  l->blocks[0] = blocks;
  l->threads[0] = threads;
  falt_cuda_define(&l->kernel, "TAPS_Y=%d", (int)k->taps[H]);
  falt_cuda_define(&l->kernel, "TAPS_X=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "SIDE=%d", LADDER_FFT_SIDE);
  falt_cuda_define(&l->kernel, "POINTS=%d", LADDER_FFT_TILE);
  falt_cuda_define(&l->kernel, "THREADS=%d", threads);
  falt_cuda_define(&l->kernel, "TILES=%d", transform->pieces > 1 ? transform->pieces : 1);
  falt_cuda_define(&l->kernel, "LEVELS=%d", transform->levels);
  return NULL;
}

static const char *shape_direct(const ladder_task *k, ladder_launch *l) {
  enum { THREADS = 256 };
  l->blocks[1] = k->size[H];
  return launch(k, l, THREADS, (k->size[W] + THREADS - 1) / THREADS);
}

/* A block for each tile or pair of them; one for the filter. */
static const char *shape(const ladder_task *k, ladder_launch *l) {
  const ladder_transform *transform = (const ladder_transform *)l->of;
  const int places = transform->levels == 3 ? LADDER_FFT_TILE + LADDER_FFT_TILE / 16 : LADDER_FFT_TILE;
  const int pieces = transform->pieces;
  l->shared_bytes = 2 * (int64_t)sizeof(float) * places;
  return launch(k, l, MOST_BLOCK, pieces ? (ladder_fft_tiles(k) + pieces - 1) / pieces : 1);
}

static const ladder_transform direct = {
    {"fft_image.cu", "fft_image_direct", 1, shape_direct, false, false, LADDER_X_TO_Y}, 0, 0};
/* By level: the filter's spectrum, the tiles' spectra, products and inverses. */
static const ladder_transform by_definition[] = {
    {{"fft_image.cu", "fft_image_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 0, 0},
    {{"fft_image.cu", "fft_image_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 0, 1},
    {{"fft_image.cu", "fft_image_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 0, 1},
};
static const ladder_transform by_radix_2[] = {
    {{"fft_image.cu", "fft_image_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 1, 0},
    {{"fft_image.cu", "fft_image_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 1, 1},
    {{"fft_image.cu", "fft_image_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 1, 1},
};
static const ladder_transform by_radix_8[] = {
    {{"fft_image.cu", "fft_image_filter", 2, shape, false, false, LADDER_W_TO_BETWEEN}, 3, 0},
    {{"fft_image.cu", "fft_image_forward", 3, shape, false, false, LADDER_X_TO_BETWEEN}, 3, 1},
    {{"fft_image.cu", "fft_image_inverse", 4, shape, false, false, LADDER_BETWEEN_TO_Y}, 3, 1},
};
static const ladder_transform
    fused = {{"fft_image.cu", "fft_image_fused", 5, shape, false, false, LADDER_X_BETWEEN_TO_Y}, 3, 1},
    paired = {{"fft_image.cu", "fft_image_fused", 5, shape, false, false, LADDER_X_BETWEEN_TO_Y}, 3, 2};

/* ---- reads of memory for an output, in bytes: pixels are f32, points complex */

static double of_tile(const ladder_task *k, double bytes_per_point) {
  return bytes_per_point * LADDER_FFT_TILE / ladder_fft_tile_outputs(k);
}
static double direct_bytes(const ladder_task *k) {
  return 8.0 * (double)k->taps[H] * (double)k->taps[W];
}
/* Pixels once; a tile's spectrum and the filter's before the inverse. */
static double apart_bytes(const ladder_task *k) {
  return of_tile(k, 4 + 8 + 8);
}
static double fused_bytes(const ladder_task *k) {
  return of_tile(k, 4 + 8);
}
static double paired_bytes(const ladder_task *k) {
  return of_tile(k, 4 + 4);
}

const ladder_step ladder_cuda_fft_image[] = {
    {.name = "direct",
     .idea = "the definition of the convolution",
     .book = "7.2, figure 7.7",
     .bytes_per_output = direct_bytes,
     .operations_per_output = ladder_fft_tile_direct,
     .kernel = {&direct.kernel}},
    {.name = "dft",
     .idea = "tiles' spectra by the DFT's definition, columns and rows: 16 P^3 each",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_definition,
     .kernel = {&by_definition[0].kernel, &by_definition[1].kernel, &by_definition[2].kernel}},
    {.name = "shared",
     .idea = "radix 2 in shared memory: 5 P^2 log2 P^2, a barrier a level",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_2[0].kernel, &by_radix_2[1].kernel, &by_radix_2[2].kernel}},
    {.name = "registers",
     .idea = "three levels in registers between two barriers: radix 8",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_8[0].kernel, &by_radix_8[1].kernel, &by_radix_8[2].kernel}},
    {.name = "fused",
     .idea = "one kernel: spectra never leave shared memory",
     .bytes_per_output = fused_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_8[0].kernel, &fused.kernel}},
    {.name = "paired",
     .idea = "two tiles as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_tile_by_pairs,
     .kernel = {&by_radix_8[0].kernel, &paired.kernel}},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "cuda-fft"},
    {.name = NULL},
};
