/* The GPU steps for signals, images and volumes: kernels and blocks. */
#include "ladder/cuda.h"

enum { D, H, W };
/* Windows of more taps a row would not stay in registers. */
enum { MOST_WINDOW = 96 };
static const char too_many_taps[] = "a kernel's arguments hold 1000 taps",
                  too_wide[] = "its window leaves the registers";

static int64_t ceil_of(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static bool taps_fit(const ladder_task *k) {
  return k->taps[D] <= LADDER_MOST_TAPS && k->taps[H] <= LADDER_MOST_TAPS && k->taps[W] <= LADDER_MOST_TAPS &&
         k->taps[D] * k->taps[H] * k->taps[W] <= LADDER_MOST_TAPS;
}

/* A block of these outputs a tile of inputs; the grid covers the task. `elements` are a row's outputs. */
static void cover(const ladder_task *k, ladder_launch *l, const int tile[3], int64_t elements) {
  l->blocks[0] = ceil_of(elements, tile[W]);
  l->blocks[1] = ceil_of(k->size[H], tile[H]);
  l->blocks[2] = ceil_of(k->size[D], tile[D]);
}

static void share_tile(ladder_launch *l, const int64_t in[3], const int out[3]) {
  l->tile_inputs = (double)in[D] * (double)in[H] * (double)in[W];
  l->tile_outputs = (double)out[D] * out[H] * out[W];
  l->shared_bytes = 4 * in[D] * in[H] * in[W];
}

static void with_halo(const ladder_task *k, const int out[3], int64_t in[3]) {
  for (int a = 0; a < 3; a++) in[a] = out[a] + k->taps[a] - 1;
}

static void set_threads(ladder_launch *l, int x, int y, int z) {
  l->threads[0] = x;
  l->threads[1] = y;
  l->threads[2] = z;
}

/* ---- signals */

enum { SIGNAL_TILE = 256, SIGNAL_EACH = 4 };

static const char *shape_signal(const ladder_task *k, ladder_launch *l, int each) {
  static const int tile[3] = {1, 1, SIGNAL_TILE};
  const int span[3] = {1, 1, SIGNAL_TILE * each};
  if (!taps_fit(k)) return too_many_taps;
  cover(k, l, each > 1 ? span : tile, k->size[W]);
  set_threads(l, SIGNAL_TILE, 1, 1);
  falt_cuda_define(&l->kernel, "TAPS=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "TILE=%d", SIGNAL_TILE);
  falt_cuda_define(&l->kernel, "EACH=%d", SIGNAL_EACH);
  return NULL;
}

static const char *signal_plain(const ladder_task *k, ladder_launch *l) {
  return shape_signal(k, l, 1);
}

static const char *signal_tiled(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, 1, SIGNAL_TILE};
  int64_t in[3];
  with_halo(k, out, in);
  share_tile(l, in, out);
  return shape_signal(k, l, 1);
}

/* The halo costs a cache's read, not memory's. */
static const char *signal_cached(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, 1, SIGNAL_TILE};
  static const int64_t in[3] = {1, 1, SIGNAL_TILE};
  share_tile(l, in, out);
  return shape_signal(k, l, 1);
}

static const char *signal_registers(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, 1, SIGNAL_TILE * SIGNAL_EACH};
  int64_t in[3];
  if (k->taps[W] > MOST_WINDOW) return too_wide;
  with_halo(k, out, in);
  share_tile(l, in, out);
  return shape_signal(k, l, SIGNAL_EACH);
}

static const ladder_kernel signal_kernel[] = {
    {"signal.cu", "signal_basic", 1, signal_plain, false, false, LADDER_X_TO_Y},
    {"signal.cu", "signal_constant", 2, signal_plain, true, false, LADDER_X_TO_Y},
    {"signal.cu", "signal_tiled", 3, signal_tiled, true, false, LADDER_X_TO_Y},
    {"signal.cu", "signal_cached", 4, signal_cached, true, false, LADDER_X_TO_Y},
    {"signal.cu", "signal_registers", 5, signal_registers, true, false, LADDER_X_TO_Y},
};

const ladder_step ladder_cuda_signal[] = {
    {.name = "global",
     .idea = "the definition, taps in global memory",
     .book = "7.2, figure 7.7",
     .kernel = {&signal_kernel[0]}},
    {.name = "constant", .idea = "taps in constant memory", .book = "7.3, figure 7.9", .kernel = {&signal_kernel[1]}},
    {.name = "tiled",
     .idea = "samples and both halos in shared memory",
     .book = "7.4, figure 7.12",
     .kernel = {&signal_kernel[2]}},
    {.name = "cached-halo",
     .idea = "the halo is left to the caches",
     .book = "7.5, figure 7.15",
     .kernel = {&signal_kernel[3]}},
    {.name = "registers",
     .idea = "a thread makes 4 outputs from a window in registers",
     .book = "6.3",
     .kernel = {&signal_kernel[4]}},
    {.name = NULL},
};

/* ---- images: the tile of a block in pixels; the last step's in elements of a row */

enum { IMAGE_TILE = 32, PLAIN_ROWS = 8, REGISTER_WIDTH = 128, REGISTER_ROWS = 4, REGISTER_THREADS_Y = 8 };

static const char *shape_image(const ladder_task *k, ladder_launch *l, const int tile[3], int64_t elements) {
  if (!taps_fit(k)) return too_many_taps;
  cover(k, l, tile, elements);
  falt_cuda_define(&l->kernel, "TAPS_R=%d", (int)k->taps[H]);
  falt_cuda_define(&l->kernel, "TAPS_S=%d", (int)k->taps[W]);
  falt_cuda_define(&l->kernel, "CHANNELS=%d", (int)k->channels);
  falt_cuda_define(&l->kernel, "TILE_H=%d", tile[H]);
  falt_cuda_define(&l->kernel, "TILE_W=%d", tile[W]);
  falt_cuda_define(&l->kernel, "EACH_H=%d", REGISTER_ROWS);
  return NULL;
}

static const char *image_plain(const ladder_task *k, ladder_launch *l) {
  static const int tile[3] = {1, PLAIN_ROWS, IMAGE_TILE};
  set_threads(l, IMAGE_TILE, PLAIN_ROWS, 1);
  return shape_image(k, l, tile, k->size[W]);
}

/* 32 x 32 inputs, and as many threads; the outputs are those without the halo. */
static const char *image_input_tile(const ladder_task *k, ladder_launch *l) {
  static const int64_t in[3] = {1, IMAGE_TILE, IMAGE_TILE};
  if (k->taps[H] > IMAGE_TILE || k->taps[W] > IMAGE_TILE) return "its tile of 32 x 32 inputs has no output";
  const int out[3] = {1, (int)(IMAGE_TILE - k->taps[H] + 1), (int)(IMAGE_TILE - k->taps[W] + 1)};
  set_threads(l, IMAGE_TILE, IMAGE_TILE, 1);
  share_tile(l, in, out);
  return shape_image(k, l, out, k->size[W]);
}

static const char *image_output_tile(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, IMAGE_TILE, IMAGE_TILE};
  int64_t in[3];
  with_halo(k, out, in);
  set_threads(l, IMAGE_TILE, IMAGE_TILE, 1);
  share_tile(l, in, out);
  return shape_image(k, l, out, k->size[W]);
}

static const char *image_cached(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, IMAGE_TILE, IMAGE_TILE};
  static const int64_t in[3] = {1, IMAGE_TILE, IMAGE_TILE};
  set_threads(l, IMAGE_TILE, IMAGE_TILE, 1);
  share_tile(l, in, out);
  return shape_image(k, l, out, k->size[W]);
}

static const char *image_registers(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {1, REGISTER_ROWS * REGISTER_THREADS_Y, REGISTER_WIDTH};
  const int64_t halo = (k->taps[W] - 1) * k->channels;
  if (halo > MOST_WINDOW) return too_wide;
  const int64_t in[3] = {1, out[H] + k->taps[H] - 1, (out[W] + halo + 3) / 4 * 4};
  set_threads(l, REGISTER_WIDTH / 4, REGISTER_THREADS_Y, 1);
  share_tile(l, in, out);
  l->tile_inputs = (double)in[H] * (double)(out[W] + halo);
  return shape_image(k, l, out, k->size[W] * k->channels);
}

static const ladder_kernel image_kernel[] = {
    {"image.cu", "image_basic", 1, image_plain, false, false, LADDER_X_TO_Y},
    {"image.cu", "image_constant", 2, image_plain, true, false, LADDER_X_TO_Y},
    {"image.cu", "image_input_tile", 3, image_input_tile, true, false, LADDER_X_TO_Y},
    {"image.cu", "image_output_tile", 4, image_output_tile, true, false, LADDER_X_TO_Y},
    {"image.cu", "image_cached", 5, image_cached, true, false, LADDER_X_TO_Y},
    {"image.cu", "image_registers", 6, image_registers, true, false, LADDER_X_TO_Y},
};

const ladder_step ladder_cuda_image[] = {
    {.name = "global",
     .idea = "the definition, taps in global memory",
     .book = "7.2, figure 7.7",
     .kernel = {&image_kernel[0]}},
    {.name = "constant", .idea = "taps in constant memory", .book = "7.3, figure 7.9", .kernel = {&image_kernel[1]}},
    {.name = "input-tile",
     .idea = "shared memory; the block is the input tile",
     .book = "7.4, figure 7.12",
     .kernel = {&image_kernel[2]}},
    {.name = "output-tile",
     .idea = "the block is the output tile: all threads compute",
     .book = "7.4",
     .kernel = {&image_kernel[3]}},
    {.name = "cached-halo",
     .idea = "the halo is left to the caches",
     .book = "7.5, figure 7.15",
     .kernel = {&image_kernel[4]}},
    {.name = "registers",
     .idea = "a thread makes 4 x 4 outputs from windows in registers",
     .book = "6.3",
     .kernel = {&image_kernel[5]}},
    {.name = NULL},
};

/* ---- volumes */

enum { CUBE = 8, SWEEP_WIDTH = 128, SWEEP_ROWS = 8, SWEEP_PLANES = 32 };

static const char *shape_volume(const ladder_task *k, ladder_launch *l, const int tile[3]) {
  if (!taps_fit(k)) return too_many_taps;
  cover(k, l, tile, k->size[W]);
  for (int a = 0; a < 3; a++) {
    falt_cuda_define(&l->kernel, "TAPS_%c=%d", "TRS"[a], (int)k -> taps[a]);
    falt_cuda_define(&l->kernel, "TILE_%c=%d", "DHW"[a], tile[a]);
  }
  return NULL;
}

static const char *volume_plain(const ladder_task *k, ladder_launch *l) {
  static const int tile[3] = {2, 4, 32};
  set_threads(l, tile[W], tile[H], tile[D]);
  return shape_volume(k, l, tile);
}

static const char *volume_tiled(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {CUBE, CUBE, CUBE};
  int64_t in[3];
  with_halo(k, out, in);
  set_threads(l, CUBE, CUBE, CUBE);
  share_tile(l, in, out);
  return shape_volume(k, l, out);
}

static const char *volume_sweep(const ladder_task *k, ladder_launch *l) {
  static const int out[3] = {SWEEP_PLANES, SWEEP_ROWS, SWEEP_WIDTH};
  int64_t in[3];
  if (4 * k->taps[D] + k->taps[W] > MOST_WINDOW) return too_wide;
  with_halo(k, out, in);
  set_threads(l, SWEEP_WIDTH / 4, SWEEP_ROWS, 1);
  share_tile(l, in, out);
  l->shared_bytes = 2 * 4 * in[H] * ((in[W] + 3) / 4 * 4); /* two planes at a time */
  return shape_volume(k, l, out);
}

static const ladder_kernel volume_kernel[] = {
    {"volume.cu", "volume_basic", 1, volume_plain, false, false, LADDER_X_TO_Y},
    {"volume.cu", "volume_constant", 2, volume_plain, true, false, LADDER_X_TO_Y},
    {"volume.cu", "volume_tiled", 3, volume_tiled, true, false, LADDER_X_TO_Y},
    {"volume.cu", "volume_sweep", 4, volume_sweep, true, false, LADDER_X_TO_Y},
};

const ladder_step ladder_cuda_volume[] = {
    {.name = "global",
     .idea = "the definition, taps in global memory",
     .book = "8.2, figure 8.6",
     .kernel = {&volume_kernel[0]}},
    {.name = "constant", .idea = "taps in constant memory", .book = "7.3", .kernel = {&volume_kernel[1]}},
    {.name = "tiled",
     .idea = "a cube and its halo in shared memory",
     .book = "8.3, figure 8.8",
     .kernel = {&volume_kernel[2]}},
    {.name = "plane-sweep",
     .idea = "one plane shared, unfinished sums in registers",
     .book = "8.4 and 8.5, figure 8.12",
     .kernel = {&volume_kernel[3]}},
    {.name = NULL},
};
