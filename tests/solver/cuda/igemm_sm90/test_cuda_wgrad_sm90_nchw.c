/* Tests of how the gradients of cuda_wgrad_sm90_nchw.cu are cut, which need no GPU; its kernels compiled, where there
 * is NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_lines.h"
#include "machines.h"
#include "solver/cuda/igemm_sm90/cuda_wgrad_sm90_nchw_tiles.h"

#define UNUSED __attribute__((unused))

static falt_wgrad_sm90_nchw_problem image(int64_t images, int64_t channels, int64_t size) {
  return (falt_wgrad_sm90_nchw_problem){.images = images,
                                        .depth = 1,
                                        .height = size,
                                        .width = size,
                                        .channels = channels,
                                        .results = channels,
                                        .taps = 1,
                                        .dilation = 1,
                                        .unit = 16,
                                        .workspace = -1};
}

static void check_tile(void *context, const void *candidate) {
  const falt_wgrad_sm90_tile *t = candidate;
  const falt_wgrad_sm90_nchw_problem *p = context;
  if (t->rejected) return;
  const int64_t rows = p->images * p->depth * (p->height + 1), filled = (p->width + 7) / 8;
  const int64_t groups = (filled + filled % 2 * (t->height % 2)) * t->height;
  assert_true((int64_t)t->items * t->height >= rows - 1); /* the last row is of zeros */
  assert_true(((int64_t)t->items - 1) * t->height < rows);
  assert_true(t->split_k >= 1 && t->split_k <= t->items); /* every block has a stage: it writes its sums */
  assert_int_equal(t->grid, (int64_t)t->split_k * t->row_tiles * t->column_tiles * p->taps);
  assert_true(t->row_tiles * 64 >= p->results && t->column_tiles * 64 >= p->channels);
  assert_int_equal(t->columns, p->taps * 9 * t->column_tiles * 64);
  assert_int_equal(t->workspace, t->split_k * p->results * t->columns * 4);
  assert_true(p->workspace < 0 || t->workspace <= (size_t)p->workspace);
  assert_true(t->stages >= 5); /* three stages are multiplied, one is freed, one filled */
  assert_true((2 * t->stages * groups + 1) * 1040 + 16 * t->stages <= t->shared_bytes);
  assert_true(t->shared_bytes <= h200.arch->block_shared);
}

static falt_wgrad_sm90_tile choose(falt_wgrad_sm90_nchw_problem p) {
  falt_wgrad_sm90_tile best;
  assert_null(falt_wgrad_sm90_nchw_refusal(&p));
  falt_wgrad_sm90_nchw_each(&p, &h200, &(falt_tile_search){.visit = check_tile, .context = &p});
  assert_true(falt_wgrad_sm90_nchw_choose(&p, &h200, &best));
  return best;
}

static void test_tiles(UNUSED void **state) {
  for (int64_t width = 2; width <= 128; width += 2) {
    falt_wgrad_sm90_nchw_problem p = image(64, 64, width);
    const falt_wgrad_sm90_tile best = choose(p);
    assert_true(best.seconds > 2.0 * 64 * (double)(width * width) * 9 * 64 * 64 / 989e12);
    p.depth = 5;
    p.taps = 3;
    p.results = 130;
    choose(p);
  }
}

static void test_workspace(UNUSED void **state) {
  falt_wgrad_sm90_nchw_problem p = image(256, 128, 28);
  const falt_wgrad_sm90_tile best = choose(p);
  p.workspace = (int64_t)best.workspace / 2; /* fewer blocks share the rows */
  assert_true(choose(p).workspace <= best.workspace / 2);
  p.workspace = 128 * 128 * 9 * 4 - 1;
  falt_wgrad_sm90_tile none;
  assert_false(falt_wgrad_sm90_nchw_choose(&p, &h200, &none));
}

static void test_refusals(UNUSED void **state) {
  falt_wgrad_sm90_nchw_problem p = image(64, 64, 28);
  falt_wgrad_sm90_tile none;
  p.unit = 2;
  assert_non_null(falt_wgrad_sm90_nchw_refusal(&p));
  p = image(INT32_MAX, 64, 28);
  assert_non_null(falt_wgrad_sm90_nchw_refusal(&p));
  p = image(64, 8192, 28);
  assert_non_null(falt_wgrad_sm90_nchw_refusal(&p));
  p = image(64, 64, 28);
  p.taps = 3;
  p.dilation = p.pad = INT64_C(1) << 32; /* which 32 bits would take for none */
  assert_non_null(falt_wgrad_sm90_nchw_refusal(&p));
  p.dilation = p.pad = 16;
  assert_null(falt_wgrad_sm90_nchw_refusal(&p));
  p = image(1, 64, 130); /* registers have no room for its rows */
  assert_null(falt_wgrad_sm90_nchw_refusal(&p));
  assert_false(falt_wgrad_sm90_nchw_choose(&p, &h200, &none));
}

static void test_compile(UNUSED void **state) {
  static const char *const gpus[] = {"h200"};
  static const char *const lines[] = {
      "backward-filter n=256 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 layout=nchw type=f16",
      "backward-filter n=256 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 layout=nchw type=bf16",
      "backward-filter n=64 c=64 h=112 w=112 k=64 r=3 s=3 pad=1 layout=nchw type=f16",
      "backward-filter n=2 c=64 d=14 h=14 w=14 k=64 t=3 r=3 s=3 pad=1 layout=ncdhw type=f16"};
  compile_all_lines(&(compile_lines){.method = "cuda-wgrad-sm90-nchw",
                                     .source = {"cuda_wgrad_sm90_nchw"},
                                     .gpus = gpus,
                                     .lines = lines,
                                     .gpu_count = sizeof gpus / sizeof *gpus,
                                     .line_count = sizeof lines / sizeof *lines,
                                     .kernels = 4});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_workspace),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
