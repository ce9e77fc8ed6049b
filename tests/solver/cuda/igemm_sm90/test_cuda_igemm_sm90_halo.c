/* Tests of how the layers and gradients of cuda_igemm_sm90_halo.cu and cuda_wgrad_sm90_halo.cu are cut, which need no
 * GPU; its kernels compiled, where there is NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "core/memory.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_igemm_sm90_halo_problem volume(int64_t channels, int64_t results, int64_t size) {
  return (falt_igemm_sm90_halo_problem){.images = 2,
                                        .channels = channels,
                                        .results = results,
                                        .taps = {3, 3, 3},
                                        .in = {size, 2 * size, 2 * size},
                                        .out = {size, 2 * size, 2 * size},
                                        .corner = {-1, -1, -1},
                                        .y_bytes = 2};
}

/* Tiles and walks cover all results once, and what a block has in shared memory is there. */
static void check_tile(void *context, const void *candidate) {
  const falt_igemm_sm90_halo_tile *t = candidate;
  tally *sum = context;
  const falt_igemm_sm90_halo_problem *p = sum->problem;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  const int64_t height = falt_igemm_sm90_halo_tile_height(t), width = falt_igemm_sm90_halo_tile_width(t);
  assert_int_equal(height * width, 64 * t->consumers * t->blocks);
  assert_true(t->tiles[0] * height >= p->out[1] && (t->tiles[0] - 1) * height < p->out[1]);
  assert_true(t->tiles[1] * width >= p->out[2] && (t->tiles[1] - 1) * width < p->out[2]);
  assert_true((int64_t)t->walks * t->walk >= p->out[0] && (int64_t)(t->walks - 1) * t->walk < p->out[0]);
  assert_true((int64_t)t->column_tiles * t->channels >= p->results);
  assert_int_equal(t->items, p->images * t->walks * t->tiles[0] * t->tiles[1]);
  assert_true(t->grid >= t->column_tiles && t->grid <= h200.multiprocessors && t->grid % t->column_tiles == 0);
  assert_true(t->pixel / 2 * t->pieces >= p->channels && t->pixel / 2 * (t->pieces - 1) < p->channels);
  assert_true(t->stages >= 2);
  assert_true(t->columns >= p->taps[0] * t->channels && t->columns <= 256);
  const int64_t filter = p->taps[0] * p->taps[1] * p->taps[2] * t->channels * t->pixel * t->pieces;
  const int64_t window = (height + p->taps[1] - 1) * (width + p->taps[2] - 1) * t->pixel;
  const int64_t boxes = p->boxed ? 4 * t->consumers * 64 * t->channels : 0;
  assert_true(filter + t->stages * window + 16 * t->stages + boxes <= t->shared_bytes);
  assert_true(t->shared_bytes <= h200.arch->block_shared);
  assert_true(t->seconds > 0 && t->seconds < 3600);
}

static falt_igemm_sm90_halo_tile choose(const falt_igemm_sm90_halo_problem *p) {
  falt_igemm_sm90_halo_tile best;
  tally sum = {.problem = p};
  assert_null(falt_igemm_sm90_halo_refusal(p));
  falt_igemm_sm90_halo_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_igemm_sm90_halo_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static double flops_of(const falt_igemm_sm90_halo_problem *p) {
  double flops = 2.0 * (double)(p->images * p->channels * p->results);
  for (int i = 0; i < 3; i++) flops *= (double)(p->out[i] * p->taps[i]);
  return flops;
}

/* No estimate beats the tensor cores. */
static void test_tiles(UNUSED void **state) {
  static const int64_t layers[][3] = {{32, 64, 64}, {64, 32, 64}, {32, 32, 64}, {16, 16, 64}, {8, 16, 40},
                                      {24, 40, 33}, {64, 16, 17}, {1, 200, 5},  {32, 8, 1}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    falt_igemm_sm90_halo_problem p = volume(layers[i][0], layers[i][1], layers[i][2]);
    const falt_igemm_sm90_halo_tile two = choose(&p);
    assert_true(two.seconds > flops_of(&p) / 989e12);
    p.images = 32;
    assert_true(choose(&p).seconds > two.seconds);
  }
}

/* Rows as planes, images as rows. */
static void test_flat(UNUSED void **state) {
  falt_igemm_sm90_halo_problem p = {.images = 1,
                                    .channels = 64,
                                    .results = 64,
                                    .taps = {3, 1, 3},
                                    .in = {56, 256, 56},
                                    .out = {56, 256, 56},
                                    .corner = {-1, 0, -1},
                                    .y_bytes = 2};
  choose(&p);
  for (int taps = 1; taps <= 9; taps += 2) {
    p.taps[2] = taps;
    p.corner[2] = -taps / 2;
    choose(&p);
  }
}

/* NCHW output is stored by two adjacent blocks; partial sectors take longer. */
static void test_planar(UNUSED void **state) {
  falt_igemm_sm90_halo_problem p = volume(32, 64, 64);
  p.boxed = p.sectors = true;
  const falt_igemm_sm90_halo_tile whole = choose(&p);
  assert_true(whole.blocks == 2 && whole.blocks_w % 2 == 0);
  p.sectors = false;
  const falt_igemm_sm90_halo_tile parts = choose(&p);
  assert_true(parts.blocks == 2 && parts.blocks_w % 2 == 0 && parts.seconds > whole.seconds);
}

/* Every product of a tap and a pixel of dy is one of the layer's. */
static void check_axis(int64_t stride, int64_t taps, int64_t pad) {
  const falt_igemm_sm90_halo_axis a = falt_igemm_sm90_halo_axis_of(stride, taps, pad);
  assert_true(a.step == stride && a.shift >= 0 && a.shift < stride);
  assert_true(a.taps >= falt_ceil_div(taps, stride) && a.taps <= falt_ceil_div(taps, stride) + 1);
  for (int64_t pixel = 0; pixel < 3 * stride; pixel++)
    for (int64_t r = 0; r < taps; r++) {
      const int64_t ahead = pixel + pad - r + 100 * stride; /* not negative */
      if (ahead % stride) continue;
      const int64_t block = (pixel + a.shift) / stride, e = (pixel + a.shift) % stride;
      const int64_t tap = ahead / stride - 100 - block - a.corner;
      assert_true(tap >= 0 && tap < a.taps);
      assert_int_equal(a.first + e - tap * stride, r);
    }
}

/* Pixel steps of dgrad. */
static void test_axes(UNUSED void **state) {
  for (int64_t stride = 1; stride <= 5; stride++)
    for (int64_t taps = 1; taps <= 12; taps++)
      for (int64_t pad = 0; pad <= taps + 3; pad++) check_axis(stride, taps, pad);
  assert_int_equal(falt_igemm_sm90_halo_axis_of(2, 7, 3).taps, 4);
  assert_int_equal(falt_igemm_sm90_halo_axis_of(2, 4, 1).taps, 2); /* by steps that begin one pixel outside */
  assert_int_equal(falt_igemm_sm90_halo_axis_of(4, 11, 0).taps, 3);
  assert_int_equal(falt_igemm_sm90_halo_axis_of(INT64_C(1) << 40, 3, 1).taps, 1); /* at once */
}

/* First layers' gradients and other layers of few results: columns of a product that are not used, results one by one.
 */
static void test_few_results(UNUSED void **state) {
  falt_igemm_sm90_halo_problem p = {.images = 1,
                                    .channels = 64,
                                    .results = 12,
                                    .taps = {4, 1, 4},
                                    .in = {112, 256, 112},
                                    .out = {112, 256, 112},
                                    .corner = {-1, 0, -1},
                                    .y_bytes = 2,
                                    .scattered = 2};
  const falt_igemm_sm90_halo_tile pairs = choose(&p);
  assert_true(pairs.seconds > flops_of(&p) / 989e12);
  p.scattered = 1;
  assert_true(choose(&p).seconds >= pairs.seconds);
  p.results = 3;
  p.taps[0] = p.taps[2] = 3;
  for (p.channels = 8; p.channels <= 256; p.channels += 24) choose(&p);
  p.channels = 64;
  for (p.taps[0] = p.taps[2] = 1; p.taps[0] <= 9; p.taps[0] = p.taps[2] += 1)
    if (p.taps[0] < 8) choose(&p);
}

static void none(void *context, const void *candidate) {
  const falt_igemm_sm90_halo_tile *t = candidate;
  *(int *)context += 1;
  assert_non_null(t->rejected);
}

static void test_refusals(UNUSED void **state) {
  falt_igemm_sm90_halo_problem p = volume(72, 64, 16);
  falt_igemm_sm90_halo_tile best;
  int tried = 0;
  assert_non_null(falt_igemm_sm90_halo_refusal(&p));
  p = volume(1032, 3, 16);
  p.scattered = 1;
  assert_non_null(falt_igemm_sm90_halo_refusal(&p));
  p = volume(32, 64, INT32_MAX);
  assert_non_null(falt_igemm_sm90_halo_refusal(&p));
  p = volume(64, 64, 16);
  p.taps[1] = p.taps[2] = 7; /* more taps than code should unroll */
  falt_igemm_sm90_halo_each(&p, &h200, &(falt_tile_search){.visit = none, .context = &tried});
  assert_true(tried > 10);
  assert_false(falt_igemm_sm90_halo_choose(&p, &h200, &best));
  p = volume(32, 64, 16);
  p.taps[0] = 17; /* more columns than a product has */
  assert_false(falt_igemm_sm90_halo_choose(&p, &h200, &best));
}

/* ---- gradients of filters */

static void check_filter_tile(void *context, const void *candidate) {
  const falt_wgrad_sm90_tile *t = candidate;
  const falt_wgrad_sm90_halo_problem *p = context;
  if (t->rejected) return;
  assert_true((int64_t)t->tiles[1] * t->height >= p->out[1] && (int64_t)t->tiles[2] * t->width >= p->out[2]);
  assert_int_equal(t->items, p->images * t->tiles[0] * t->tiles[1] * t->tiles[2]);
  assert_true(t->split_k >= 1 && t->split_k <= t->items); /* every block has a tile: it writes its sums */
  assert_int_equal(t->grid, t->split_k * t->row_tiles * t->column_tiles * p->taps[0]);
  const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
  assert_int_equal(t->columns, taps * t->column_tiles * FALT_PLANES_SPAN);
  assert_int_equal(t->workspace, t->split_k * p->results * t->columns * 4);
  assert_true(p->workspace < 0 || t->workspace <= (size_t)p->workspace);
  const int64_t window =
      (t->height + (p->taps[1] - 1) * p->dilation[1]) * (t->width + (p->taps[2] - 1) * p->dilation[2]);
  assert_true(t->stages * (t->height * t->width + window) * 128 + 16 * t->stages <= t->shared_bytes);
  assert_true(t->shared_bytes <= h200.arch->block_shared && t->height % 2 == 0 && t->width % 8 == 0);
}

static void test_filter_tiles(UNUSED void **state) {
  falt_wgrad_sm90_halo_problem p = {.images = 256,
                                    .channels = 64,
                                    .results = 64,
                                    .taps = {1, 3, 3},
                                    .dilation = {1, 1, 1},
                                    .in = {1, 56, 56},
                                    .out = {1, 56, 56},
                                    .corner = {0, -1, -1},
                                    .workspace = -1};
  falt_wgrad_sm90_tile best, less;
  assert_null(falt_wgrad_sm90_halo_refusal(&p));
  falt_wgrad_sm90_halo_each(&p, &h200, &(falt_tile_search){.visit = check_filter_tile, .context = &p});
  assert_true(falt_wgrad_sm90_halo_choose(&p, &h200, &best));
  assert_true(best.seconds > 2.0 * 256 * 56 * 56 * 9 * 64 * 64 / 989e12);
  p.workspace = (int64_t)best.workspace / 2; /* fewer blocks share the tiles */
  falt_wgrad_sm90_halo_each(&p, &h200, &(falt_tile_search){.visit = check_filter_tile, .context = &p});
  assert_true(falt_wgrad_sm90_halo_choose(&p, &h200, &less) && less.workspace <= best.workspace / 2);
  p.workspace = 0;
  assert_false(falt_wgrad_sm90_halo_choose(&p, &h200, &less));
  p = (falt_wgrad_sm90_halo_problem){.images = 3,
                                     .channels = 72,
                                     .results = 130,
                                     .taps = {3, 2, 4},
                                     .dilation = {2, 3, 1},
                                     .in = {9, 17, 31},
                                     .out = {5, 14, 28},
                                     .corner = {0, 0, 0},
                                     .workspace = -1};
  assert_null(falt_wgrad_sm90_halo_refusal(&p));
  falt_wgrad_sm90_halo_each(&p, &h200, &(falt_tile_search){.visit = check_filter_tile, .context = &p});
  assert_true(falt_wgrad_sm90_halo_choose(&p, &h200, &best));
  p.taps[1] = 3; /* twelve taps of a plane */
  assert_non_null(falt_wgrad_sm90_halo_refusal(&p));
}

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  static const char *const lines[] = {
      "forward n=2 c=32 d=64 h=128 w=128 k=64 t=3 r=3 s=3 pad=1 layout=ndhwc type=f16",
      "backward-data n=2 c=32 d=64 h=128 w=128 k=64 t=3 r=3 s=3 pad=1 layout=ndhwc type=bf16",
      "forward n=2 c=16 d=32 h=32 w=32 k=16 t=3 r=3 s=3 pad=1 layout=ndhwc type=f16 bias=1 scale=1 residual=1 act=gelu",
      "forward n=64 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 layout=nhwc type=bf16 bias=1 residual=1 act=silu",
      "backward-data n=256 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=nhwc type=f16",
      "backward-data n=64 c=3 h=63 w=64 k=64 r=4 s=4 stride=2 pad=1 layout=nhwc type=bf16",
      "backward-data n=2 c=2 d=32 h=64 w=64 k=32 t=3 r=3 s=3 pad=1 stride=2 layout=ndhwc type=f16",
      "forward n=16 c=64 h=256 w=256 k=3 r=7 s=7 pad=3 layout=nhwc type=f16 scale=1 bias=1 residual=1 act=tanh",
      "backward-data n=128 c=3 h=227 w=227 k=96 r=11 s=11 stride=4 layout=nhwc type=f16",
      "backward-data n=64 c=3 h=224 w=224 k=768 r=16 s=16 stride=16 layout=nhwc type=bf16",
      "forward n=2 c=32 d=64 h=128 w=128 k=64 t=3 r=3 s=3 pad=1 type=f16 scale=1 bias=1 act=relu "
      "input-strides=33554432,32,1,524288,4096,32",
      "forward n=2 c=32 d=64 h=120 w=120 k=64 t=3 r=3 s=3 pad=1 type=bf16 bias=1 act=gelu "
      "input-strides=29491200,32,1,460800,3840,32",
      "forward n=64 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 type=f16 act=silu "
      "input-strides=200704,64,1,200704,3584,64"};
  compile_all_lines(&(compile_lines){.method = "cuda-igemm-sm90-halo",
                                     .wgrad = "cuda-wgrad-sm90-halo",
                                     .source = {"cuda_igemm_sm90_halo"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .kernels = 13});
  static const char *const gradients[] = {
      "backward-filter n=64 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 layout=nhwc type=f16",
      "backward-filter n=2 c=64 d=32 h=32 w=32 k=64 t=3 r=2 s=4 layout=ndhwc type=bf16"};
  compile_all_lines(&(compile_lines){.method = "cuda-igemm-sm90-halo",
                                     .wgrad = "cuda-wgrad-sm90-halo",
                                     .source = {"cuda_wgrad_sm90_halo"},
                                     .gpus = gpus,
                                     .lines = gradients,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof gradients / sizeof *gradients,
                                     .kernels = 2});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles),    cmocka_unit_test(test_flat),
                                     cmocka_unit_test(test_axes),     cmocka_unit_test(test_few_results),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_filter_tiles),
                                     cmocka_unit_test(test_planar),   cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
