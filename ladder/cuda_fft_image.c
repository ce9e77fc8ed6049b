/* The GPU steps for an image by transforms (overlap-save): kernels and blocks. */
#include "ladder/cuda.h"
#include "ladder/fft.h"

enum { H = 1, W = 2, MOST_BLOCK = 512 };

static const char *launch(const ladder_task *k, ladder_launch *l, int levels, int tiles, int threads, int64_t blocks) {
  const char *reason = ladder_fft_tile_refusal(k);
  if (reason) return reason;
  l->blocks[0] = blocks;
  l->threads[0] = threads;
  falt_cuda_define(&l->kernel, "TAPS_Y=%d", (int)k->taps[H]);
  falt_cuda_define(&l->kernel, "TAPS_X=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "SIDE=%d", LADDER_FFT_SIDE);
  falt_cuda_define(&l->kernel, "POINTS=%d", LADDER_FFT_TILE);
  falt_cuda_define(&l->kernel, "THREADS=%d", threads);
  falt_cuda_define(&l->kernel, "TILES=%d", tiles);
  falt_cuda_define(&l->kernel, "LEVELS=%d", levels);
  return NULL;
}

static const char *shape_direct(const ladder_task *k, ladder_launch *l) {
  enum { THREADS = 256 };
  l->blocks[1] = k->size[H];
  return launch(k, l, 0, 1, THREADS, (k->size[W] + THREADS - 1) / THREADS);
}

/* `levels` of radix 2 that a thread does in registers, 0: the definition; `tiles` of one block. */
static const char *shape(const ladder_task *k, ladder_launch *l, int levels, int tiles, int64_t blocks) {
  const int places = levels == 3 ? LADDER_FFT_TILE + LADDER_FFT_TILE / 16 : LADDER_FFT_TILE;
  l->shared_bytes = 2 * (int64_t)sizeof(float) * places;
  return launch(k, l, levels, tiles, MOST_BLOCK, blocks);
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
static const char *tiles_by_definition(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 0, 1, ladder_fft_tiles(k));
}
static const char *tiles_by_radix_2(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 1, 1, ladder_fft_tiles(k));
}
static const char *tiles_by_radix_8(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 3, 1, ladder_fft_tiles(k));
}
static const char *pairs_by_radix_8(const ladder_task *k, ladder_launch *l) {
  return shape(k, l, 3, 2, (ladder_fft_tiles(k) + 1) / 2);
}

static const ladder_kernel direct = {"fft_image.cu", "fft_image_direct", 1, shape_direct, false, false, LADDER_X_TO_Y};
/* By level: the filter's spectrum, the tiles' spectra, products and inverses. */
static const ladder_kernel by_definition[] = {
    {"fft_image.cu", "fft_image_filter", 2, filter_by_definition, false, false, LADDER_W_TO_BETWEEN},
    {"fft_image.cu", "fft_image_forward", 3, tiles_by_definition, false, false, LADDER_X_TO_BETWEEN},
    {"fft_image.cu", "fft_image_inverse", 4, tiles_by_definition, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel by_radix_2[] = {
    {"fft_image.cu", "fft_image_filter", 2, filter_by_radix_2, false, false, LADDER_W_TO_BETWEEN},
    {"fft_image.cu", "fft_image_forward", 3, tiles_by_radix_2, false, false, LADDER_X_TO_BETWEEN},
    {"fft_image.cu", "fft_image_inverse", 4, tiles_by_radix_2, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel by_radix_8[] = {
    {"fft_image.cu", "fft_image_filter", 2, filter_by_radix_8, false, false, LADDER_W_TO_BETWEEN},
    {"fft_image.cu", "fft_image_forward", 3, tiles_by_radix_8, false, false, LADDER_X_TO_BETWEEN},
    {"fft_image.cu", "fft_image_inverse", 4, tiles_by_radix_8, false, false, LADDER_BETWEEN_TO_Y},
};
static const ladder_kernel fused = {"fft_image.cu", "fft_image_fused",    5, tiles_by_radix_8, false,
                                    false,          LADDER_X_BETWEEN_TO_Y},
                           paired = {"fft_image.cu", "fft_image_fused",    5, pairs_by_radix_8, false,
                                     false,          LADDER_X_BETWEEN_TO_Y};

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
     .kernel = {&direct}},
    {.name = "dft",
     .idea = "tiles' spectra by the DFT's definition, columns and rows: 16 P^3 each",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_definition,
     .kernel = {&by_definition[0], &by_definition[1], &by_definition[2]}},
    {.name = "shared",
     .idea = "radix 2 in shared memory: 5 P^2 log2 P^2, a barrier a level",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_2[0], &by_radix_2[1], &by_radix_2[2]}},
    {.name = "registers",
     .idea = "three levels in registers between two barriers: radix 8",
     .bytes_per_output = apart_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_8[0], &by_radix_8[1], &by_radix_8[2]}},
    {.name = "fused",
     .idea = "one kernel: spectra never leave shared memory",
     .bytes_per_output = fused_bytes,
     .operations_per_output = ladder_fft_tile_by_fft,
     .kernel = {&by_radix_8[0], &fused}},
    {.name = "paired",
     .idea = "two tiles as real and imaginary part of one",
     .bytes_per_output = paired_bytes,
     .operations_per_output = ladder_fft_tile_by_pairs,
     .kernel = {&by_radix_8[0], &paired}},
    {.name = "engine", .idea = "what the library's transforms do", .solver = "cuda-fft"},
    {.name = NULL},
};
