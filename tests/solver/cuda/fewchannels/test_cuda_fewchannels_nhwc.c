/* Tests of how the layers of cuda_fewchannels_nhwc.cu and cuda_fewchannels_wgrad.cu are cut, which need no GPU; its
 * kernels compiled, where there is NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "core/memory.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_fewchannels_nhwc_problem layer(int64_t channels, int64_t results, int64_t taps, int64_t stride,
                                           int64_t size) {
  const int64_t out = (size - taps) / stride + 1;
  return (falt_fewchannels_nhwc_problem){.images = 16,
                                         .channels = channels,
                                         .results = results,
                                         .taps = {taps, taps},
                                         .stride = {stride, stride},
                                         .dilation = {1, 1},
                                         .in = {size, size},
                                         .out = {out, out}};
}

/* Tiles and walks cover all results once; the ring holds the rows that a batch of results reads, and one batch more.
 * The bytes of the ring. */
static int64_t check_walks(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const int64_t tile = t->width * t->paired, span = 64 / t->paired;
  assert_true(t->pixel >= p->channels && p->stride[1] * t->paired * t->pixel % 8 == 0);
  assert_true(t->column_tiles * tile >= p->out[1] && (t->column_tiles - 1) * tile < p->out[1]);
  assert_true(t->result_tiles / t->tap_parts * t->parts * span >= p->results);
  assert_true((int64_t)t->walks * t->walk >= p->out[0] && (int64_t)(t->walks - 1) * t->walk < p->out[0]);
  assert_int_equal(t->items, p->images * t->walks * t->column_tiles);
  assert_true(t->grid >= t->result_tiles && t->grid <= h200.multiprocessors && t->grid % t->result_tiles == 0);
  const int64_t rows = (t->rows - 1) * p->stride[0] + (p->taps[0] - 1) * p->dilation[0] + 1;
  const int64_t batch = t->rows * p->stride[0];
  assert_true((t->batches - 1) * batch >= rows);
  const int64_t window = (tile - 1) * p->stride[1] + (p->taps[1] - 1) * p->dilation[1] + 1;
  return t->batches * (batch * window * t->pixel * 2 + 16);
}

static void check_tile(void *context, const void *candidate) {
  const falt_fewchannels_nhwc_tile *t = candidate;
  tally *sum = context;
  const falt_fewchannels_nhwc_problem *p = sum->problem;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  const int64_t staged = t->rows * t->parts * t->width * 128;
  assert_true(check_walks(p, t) + staged <= t->shared_bytes && t->shared_bytes <= h200.arch->block_shared);
  assert_true(falt_fewchannels_nhwc_threads(t) <= 640 && t->seconds > 0 && t->seconds < 3600);
}

static falt_fewchannels_nhwc_tile choose(const falt_fewchannels_nhwc_problem *p) {
  falt_fewchannels_nhwc_tile best;
  tally sum = {.problem = p};
  falt_fewchannels_nhwc_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_fewchannels_nhwc_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

/* No estimate beats the tensor cores or the memory. */
static void test_tiles(UNUSED void **state) {
  static const int64_t layers[][5] = {{3, 64, 7, 2, 229}, {3, 96, 11, 4, 227}, {3, 64, 3, 1, 226}, {3, 32, 3, 2, 225},
                                      {1, 20, 5, 1, 28},  {8, 64, 3, 1, 58},   {5, 40, 3, 2, 57},  {4, 48, 4, 4, 224},
                                      {3, 16, 5, 3, 90},  {2, 1000, 1, 1, 9}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    falt_fewchannels_nhwc_problem p = layer(layers[i][0], layers[i][1], layers[i][2], layers[i][3], layers[i][4]);
    const falt_fewchannels_nhwc_tile few = choose(&p);
    const double results = (double)(p.images * p.out[0] * p.out[1] * p.results);
    assert_true(few.seconds > 2 * results * (double)(p.channels * p.taps[0] * p.taps[1]) / 989e12);
    assert_true(few.seconds > 2 * results / h200.bytes_per_s);
    p.images = 512;
    assert_true(choose(&p).seconds > few.seconds);
    p.planar = true;
    p.dilation[0] = 2;
    choose(&p);
  }
}

/* Parts have all rows of taps; instructions all elements of a run; registers hold the sums, shared memory two rows of
 * the output's gradient at least; split-K slices have the workspace that they fill. */
static void check_filter_tile(void *context, const void *candidate) {
  const falt_fewchannels_wgrad_tile *t = candidate;
  tally *sum = context;
  const falt_fewchannels_wgrad_problem *p = sum->problem;
  const falt_fewchannels_nhwc_tile *l = &t->layer;
  falt_fewchannels_nhwc_problem part = p->layer;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(t->taps * l->tap_parts >= part.taps[0] && t->taps * (l->tap_parts - 1) < part.taps[0]);
  part.taps[0] = t->taps;
  const int64_t consumers = l->rows * l->parts, row = falt_fewchannels_nhwc_row_pieces(&part, l) * 16;
  const int64_t lines = consumers * t->stages * l->width * 128;
  assert_true(check_walks(&part, l) + l->mirrored * row + lines <= t->shared_bytes);
  assert_true(t->shared_bytes <= h200.arch->block_shared && t->stages >= 2 && l->width % 16 == 0);
  assert_true(t->blocks >= t->taps && l->mirrored >= (t->blocks - 1) * part.dilation[0]);
  assert_true(l->pieces >= falt_fewchannels_nhwc_fewest_pieces(&part, l) && l->pixel >= part.channels + p->biased);
  assert_true(128 * consumers * l->pieces * t->blocks * 4 < 65536);
  assert_true(falt_fewchannels_wgrad_threads(t) == 128 * (consumers + t->producers));
  assert_true(t->split_k == l->grid / l->result_tiles * l->rows * l->paired);
  const int64_t bytes = t->split_k * part.results * falt_fewchannels_wgrad_columns(p) * 4;
  assert_true(t->workspace == (size_t)bytes && (p->workspace < 0 || bytes <= p->workspace));
  assert_true(t->seconds > 0 && t->seconds < 3600);
}

static falt_fewchannels_wgrad_tile choose_filter(const falt_fewchannels_wgrad_problem *p) {
  falt_fewchannels_wgrad_tile best;
  tally sum = {.problem = p};
  falt_fewchannels_wgrad_each(p, &h200, &(falt_tile_search){.visit = check_filter_tile, .context = &sum});
  assert_true(falt_fewchannels_wgrad_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void test_filter_tiles(UNUSED void **state) {
  static const int64_t layers[][5] = {{3, 64, 7, 2, 229}, {3, 96, 11, 4, 227}, {3, 64, 3, 1, 226}, {3, 32, 3, 2, 225},
                                      {1, 24, 5, 1, 28},  {7, 64, 3, 1, 58},   {5, 40, 3, 2, 57},  {3, 48, 4, 4, 224},
                                      {3, 16, 5, 3, 90},  {2, 1000, 1, 1, 9}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    falt_fewchannels_wgrad_problem p = {.workspace = -1};
    falt_fewchannels_nhwc_problem *l = &p.layer;
    *l = layer(layers[i][0], layers[i][1], layers[i][2], layers[i][3], layers[i][4]);
    const falt_fewchannels_wgrad_tile few = choose_filter(&p);
    const double results = (double)(l->images * l->out[0] * l->out[1] * l->results);
    assert_true(few.seconds > 2 * results * (double)(l->channels * l->taps[0] * l->taps[1]) / 989e12);
    assert_true(few.seconds > 2 * results / h200.bytes_per_s);
    p.workspace = (int64_t)few.workspace / 2;
    assert_true(choose_filter(&p).seconds >= few.seconds);
    p.workspace = -1;
    l->images = 512;
    assert_true(choose_filter(&p).seconds > few.seconds);
    p.biased = true;
    l->dilation[0] = 2;
    choose_filter(&p);
  }
}

static void test_filter_refusals(UNUSED void **state) {
  falt_fewchannels_wgrad_problem p = {layer(8, 64, 3, 1, 58), .biased = true,
                                      .workspace = -1}; /* no channel for the ones */
  falt_fewchannels_wgrad_tile best;
  assert_false(falt_fewchannels_wgrad_choose(&p, &h200, &best));
  assert_non_null(best.rejected);
  p = (falt_fewchannels_wgrad_problem){layer(3, 64, 7, 2, 229), .workspace = 1000};
  assert_false(falt_fewchannels_wgrad_choose(&p, &h200, &best));
  assert_non_null(best.rejected);
  p = (falt_fewchannels_wgrad_problem){layer(3, 64, 40, 1, 229),
                                       .workspace = -1}; /* runs of more columns than products have */
  assert_false(falt_fewchannels_wgrad_choose(&p, &h200, &best));
}

static void none(void *context, const void *candidate) {
  const falt_fewchannels_nhwc_tile *t = candidate;
  *(int *)context += 1;
  assert_non_null(t->rejected);
}

static void test_refusals(UNUSED void **state) {
  falt_fewchannels_nhwc_problem p = layer(3, 64, 31, 1, 256); /* a filter that registers do not hold */
  falt_fewchannels_nhwc_tile best;
  int tried = 0;
  falt_fewchannels_nhwc_each(&p, &h200, &(falt_tile_search){.visit = none, .context = &tried});
  assert_true(tried > 10);
  assert_false(falt_fewchannels_nhwc_choose(&p, &h200, &best));
  assert_non_null(best.rejected);
  p = layer(3, 64, 7, 8, 2048);
  p.dilation[0] = 200; /* rows that shared memory does not hold */
  assert_false(falt_fewchannels_nhwc_choose(&p, &h200, &best));
  p = layer(3, INT64_C(1) << 20, 3, 1, 32);
  assert_false(falt_fewchannels_nhwc_choose(&p, &h200, &best));
}

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  static const char *const lines[] = {
      "forward n=256 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=nhwc type=f16",
      "forward n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=nchw type=bf16 bias=1 scale=1 act=gelu",
      "forward n=128 c=3 h=227 w=227 k=96 r=11 s=11 stride=4 layout=nhwc type=f16 bias=1 act=relu",
      "forward n=64 c=3 h=224 w=224 k=64 r=3 s=3 pad=1 layout=nhwc type=f16 bias=1 act=silu",
      "forward n=64 c=3 h=224 w=223 k=64 r=3 s=3 pad=1 layout=nchw type=f16 bias=1 scale=1 act=silu",
      "forward n=256 c=3 h=224 w=224 k=32 r=3 s=3 stride=2 pad=1 layout=nhwc type=bf16 act=silu",
      "forward n=64 c=8 h=56 w=56 k=64 r=3 s=3 pad=1 layout=nhwc type=f16 boundary=reflect101",
      "forward n=64 c=8 h=90 w=90 k=17 r=5 s=5 stride=3x2 dilation=2 layout=nchw type=f16",
      "backward-filter n=256 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=nhwc type=f16",
      "backward-filter n=128 c=3 h=227 w=227 k=96 r=11 s=11 stride=4 layout=nhwc type=f16 bias=1",
      "backward-filter n=64 c=3 h=224 w=224 k=64 r=3 s=3 pad=1 layout=nhwc type=bf16",
      "backward-filter n=64 c=8 h=90 w=90 k=24 r=5 s=5 stride=3x2 dilation=2 layout=nhwc type=f16"};
  compile_all_lines(&(compile_lines){.method = "cuda-fewchannels-nhwc",
                                     .wgrad = "cuda-fewchannels-wgrad",
                                     .source = {"cuda_fewchannels_nhwc", "cuda_fewchannels_wgrad"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .kernels = 12});
}

/* Patches are handed on to what multiplies their rows as pixels. */
static void test_patches(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  static const char *const lines[] = {
      "forward n=64 c=3 h=224 w=224 k=768 r=16 s=16 stride=16 layout=nhwc type=f16 bias=1"};
  compile_all_lines(&(compile_lines){.method = "space-to-depth",
                                     .source = {"cuda_igemm_sm90"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .kernels = 1});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles),        cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_filter_tiles), cmocka_unit_test(test_filter_refusals),
                                     cmocka_unit_test(test_compile),      cmocka_unit_test(test_patches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
