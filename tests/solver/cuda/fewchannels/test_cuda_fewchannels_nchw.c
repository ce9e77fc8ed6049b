/* Tests of how the layers of cuda_fewchannels_nchw.cu are cut, which need no GPU; its kernels compiled, where there is
 * NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "core/memory.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_nchw_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_fewchannels_nchw_problem layer(int64_t channels, int64_t results, int64_t planes, int64_t taps,
                                           int64_t size) {
  return (falt_fewchannels_nchw_problem){.images = 2,
                                         .channels = channels,
                                         .results = results,
                                         .taps = {planes, taps, taps},
                                         .in = {planes > 1 ? size : 1, size, size},
                                         .out = {planes > 1 ? size : 1, size, size},
                                         .pad = taps / 2,
                                         .unit = 8};
}

/* Walks and strips cover all results once; no estimate beats the memory. */
static void check_tile(void *context, const void *candidate) {
  const falt_fewchannels_nchw_tile *t = candidate;
  tally *sum = context;
  const falt_fewchannels_nchw_problem *p = sum->problem;
  if (t->rejected) return;
  const double results = (double)(p->images * p->results * p->out[0] * p->out[1] * p->out[2]);
  count_legal(sum, t->seconds);
  assert_true((int64_t)t->strips * 64 >= p->out[2] && (int64_t)(t->strips - 1) * 64 < p->out[2]);
  assert_true((int64_t)t->walks * t->walk >= p->out[1] && (int64_t)(t->walks - 1) * t->walk < p->out[1]);
  assert_true((int64_t)t->result_tiles * 8 * t->eights >= p->results);
  assert_int_equal(t->items, p->images * p->out[0] * t->walks * t->strips);
  assert_true(t->grid % t->result_tiles == 0 && t->grid / t->result_tiles * 4 < t->items + 4);
  assert_in_range(t->blocks, 1, 8);
  assert_true(t->seconds > 2 * results / h200.bytes_per_s && t->seconds < 3600);
}

static falt_fewchannels_nchw_tile choose(const falt_fewchannels_nchw_problem *p) {
  falt_fewchannels_nchw_tile best;
  tally sum = {.problem = p};
  falt_fewchannels_nchw_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_fewchannels_nchw_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void test_tiles(UNUSED void **state) {
  static const int64_t layers[][5] = {{1, 16, 3, 3, 256}, {1, 1, 3, 3, 16},  {3, 64, 1, 3, 224}, {4, 40, 1, 5, 57},
                                      {2, 8, 3, 3, 90},   {8, 200, 1, 1, 9}, {1, 20, 1, 7, 28}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    falt_fewchannels_nchw_problem p = layer(layers[i][0], layers[i][1], layers[i][2], layers[i][3], layers[i][4]);
    const falt_fewchannels_nchw_tile few = choose(&p);
    p.images = 64;
    assert_true(choose(&p).seconds > few.seconds);
    p.inner = true;
    choose(&p);
  }
}

/* A large volume fills the multiprocessors and is limited by the memory. */
static void test_volume(UNUSED void **state) {
  falt_fewchannels_nchw_problem p = layer(1, 16, 3, 3, 256);
  p.images = 1;
  const falt_fewchannels_nchw_tile best = choose(&p);
  assert_true(best.eights == 2 && best.blocks == 4 && best.grid >= (int64_t)h200.multiprocessors * best.blocks * 3 / 4);
  assert_true(best.seconds > 170e-6 && best.seconds < 220e-6); /* 201 were measured */
}

static void none(void *context, const void *candidate) {
  const falt_fewchannels_nchw_tile *t = candidate;
  *(int *)context += 1;
  assert_non_null(t->rejected);
}

static void test_refusals(UNUSED void **state) {
  falt_fewchannels_nchw_problem p = layer(16, 64, 1, 7, 64); /* a filter that registers do not hold */
  falt_fewchannels_nchw_tile best;
  int tried = 0;
  falt_fewchannels_nchw_each(&p, &h200, &(falt_tile_search){.visit = none, .context = &tried});
  assert_true(tried > 10);
  assert_false(falt_fewchannels_nchw_choose(&p, &h200, &best));
  assert_non_null(best.rejected);
  p = layer(1, 16, 3, 3, 64);
  p.pad = 3; /* columns that no lane has beside its own */
  assert_false(falt_fewchannels_nchw_choose(&p, &h200, &best));
  p.pad = -1;
  assert_false(falt_fewchannels_nchw_choose(&p, &h200, &best));
  p = layer(1, INT64_C(1) << 30, 3, 3, 1 << 14);
  assert_false(falt_fewchannels_nchw_choose(&p, &h200, &best));
}

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  static const char *const lines[] = {
      "forward n=1 c=1 d=256 h=256 w=256 k=16 t=3 r=3 s=3 pad=1 layout=ncdhw type=f16",
      "forward n=1 c=1 d=64 h=65 w=67 k=9 t=3 r=3 s=3 pad=1 layout=ncdhw type=bf16 bias=1 scale=1 act=gelu",
      "forward n=1 c=2 d=30 h=64 w=68 k=40 t=3 r=3 s=3 pad=1 layout=ncdhw type=f16 boundary=reflect101",
      "forward n=8 c=3 h=224 w=224 k=64 r=3 s=3 pad=1 layout=nchw type=f16 bias=1 act=silu",
      "forward n=8 c=3 h=64 w=66 k=8 r=5 s=5 pad=2 layout=nchw type=f16 residual=1",
      "forward n=8 c=1 h=64 w=66 k=8 r=7 s=7 pad=3 layout=nchw type=f16",
      "forward n=8 c=12 h=64 w=64 k=16 r=1 s=1 layout=nchw type=bf16",
      "forward n=8 c=4 w=1000 k=64 s=8 pad=4 layout=ncw type=f16",
      "forward n=1 c=1 d=256 h=256 w=256 k=16 t=3 r=3 s=3 pad=1 layout=ndhwc type=f16",
      "forward n=1 c=1 d=256 h=256 w=256 k=16 t=3 r=3 s=3 pad=1 layout=ncdhw type=f16 bias=1 act=gelu boundary=edge",
      "forward n=1 c=1 d=256 h=256 w=256 k=32 t=3 r=3 s=3 pad=1 layout=ndhwc type=bf16 residual=1 act=silu",
      "forward n=64 c=3 h=224 w=224 k=64 r=3 s=3 pad=1 layout=nchw type=bf16 residual=1 bias=1 act=silu",
      "forward n=8 c=1 h=64 w=66 k=37 r=5 s=5 pad=2 layout=nhwc type=bf16 bias=1 act=silu"};
  compile_all_lines(&(compile_lines){.method = "cuda-fewchannels-nchw",
                                     .source = {"cuda_fewchannels_nchw"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .kernels = 13});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_volume),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
