/* Tests of the tile search of cuda-grouped; no GPU needed. Compiles its kernels where there is NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "need_compiler.h"
#include "solver/cuda/igemm_sm80/cuda_grouped_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static const falt_machine a100 = A100, consumer = RTX5090;

static const falt_grouped_shape shapes[] = {
    /* 32 groups of 8; of 4, merged by two; of 32 */
    {64, {56, 56}, 256, 8, 8, 8, 8, {3, 3}, {1, 1}, 1, false, 2e8},
    {64, {56, 56}, 128, 8, 8, 4, 4, {3, 3}, {1, 1}, 1, false, 1e8},
    {64, {14, 14}, 1024, 32, 32, 32, 32, {3, 3}, {1, 1}, 1, false, 5e7},
    /* few channels to many, strides, dilations, an even number of taps, results in f32 */
    {5, {29, 47}, 48, 16, 48, 16, 48, {4, 2}, {3, 2}, 2, true, 1e6},
    /* 9 groups of 24, 8 of 40, one of 24; 32 of 3, merged by eight; of 6 to 12, by four */
    {64, {28, 28}, 216, 24, 24, 24, 24, {3, 3}, {1, 1}, 1, false, 5e7},
    {64, {28, 28}, 320, 40, 40, 40, 40, {3, 3}, {1, 1}, 1, true, 7e7},
    {64, {14, 14}, 24, 24, 24, 24, 24, {5, 3}, {2, 2}, 1, false, 2e6},
    {16, {28, 28}, 96, 24, 24, 3, 3, {3, 3}, {1, 1}, 1, false, 5e6},
    {16, {28, 28}, 384, 24, 48, 6, 12, {3, 3}, {1, 1}, 1, false, 1e7},
    /* signals; images of one pixel */
    {16, {1, 100000}, 64, 8, 64, 8, 64, {1, 9}, {1, 1}, 1, false, 1e9},
    {1, {1, 1}, 8, 8, 8, 8, 8, {3, 3}, {2, 2}, 1, false, 1e3},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, COMPILED = SHAPES - 2 };

/* Tiles and parts have all results, none for nothing; a block's channels belong to whole groups or to one. */
static void check_tile(void *context, const void *candidate) {
  const falt_grouped_tile *t = candidate;
  tally *all = context;
  const falt_grouped_shape *s = all->problem;
  const int64_t span = 16 * t->warps_c, down = falt_ceil_div(s->out[0], t->height);
  assert_true(span % s->rows == 0 || s->rows % span == 0 || s->results == s->rows);
  assert_true(t->parts * span >= s->results && (t->parts - 1) * span < s->results);
  assert_int_equal(t->tiles, s->images * down * falt_ceil_div(s->out[1], t->width));
  assert_true(t->height % t->bands == 0 && t->warps_c * t->warps_p <= 8);
  assert_true(t->blocks >= 1 && t->shared_bytes <= all->machine->arch->block_shared);
  assert_true(t->blocks * (t->shared_bytes + 1024) <= all->machine->arch->block_shared + 1024);
  assert_true(t->grid % t->parts == 0 && t->grid >= t->parts && t->grid <= t->parts * t->tiles);
  count_legal(all, t->seconds);
}

static void test_tiles(UNUSED void **state) {
  const falt_machine *const machines[] = {&h200, &a100, &consumer};
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < SHAPES; i++) {
      tally all = {.problem = &shapes[i], .machine = machines[m]};
      falt_grouped_tile best;
      falt_grouped_each(&shapes[i], machines[m], &(falt_tile_search){.visit = check_tile, .context = &all});
      assert_true(falt_grouped_choose(&shapes[i], machines[m], &best));
      check_best(&all, best.seconds);
    }
}

static void test_refusals(UNUSED void **state) {
  falt_grouped_tile best;
  falt_grouped_shape s = shapes[0];
  s.depth = 20;
  assert_non_null(falt_grouped_refusal(&s));
  assert_false(falt_grouped_choose(&s, &h200, &best));
  s = shapes[0], s.rows = 12;
  assert_non_null(falt_grouped_refusal(&s));
  s = shapes[0], s.taps[0] = s.taps[1] = 31;
  assert_non_null(falt_grouped_refusal(&s));
  s = shapes[0], s.stride[1] = 1 << 20, s.out[1] = 1 << 10; /* even one column of 16 spans more than shared memory */
  s.taps[1] = 2, s.dilation = 1 << 20;
  assert_null(falt_grouped_refusal(&s));
  assert_false(falt_grouped_choose(&s, &h200, &best));
}

/* Results of a type, with a residual and an activation or as they are. */
static void check_kernel(const falt_grouped_shape *s, bool old, falt_type type) {
  falt_grouped_tile best;
  falt_cuda_binary binary;
  falt_cuda_kernel kernel = {.source = "cuda_grouped.cu", .entry = "falt_grouped"};
  assert_true(falt_grouped_choose(s, old ? &a100 : &h200, &best));
  falt_cuda_define(&kernel, "KIND=%s", type == FALT_BF16 ? "BRAINS" : "HALVES");
  falt_cuda_define(&kernel, "TYPE_Y=%d", (int)type);
  falt_cuda_define(&kernel, "TYPE_R=%d", s->finish ? FALT_F16 : -1);
  falt_cuda_define(&kernel, "REAL=float");
  falt_cuda_define(&kernel, "ACTIVATION=%d", s->finish ? FALT_SILU : FALT_IDENTITY);
  falt_grouped_defines(&kernel, s, &best);
  if (falt_cuda_compile(&kernel, old ? "sm_80" : "sm_90a", &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
  if (binary.use.spill_bytes != 0)
    fail_msg("groups of %d to %d: %d bytes spilled: %dx%d, %d bands, %dx%d warps, %d blocks", (int)s->depth,
             (int)s->rows, binary.use.spill_bytes, best.height, best.width, best.bands, best.warps_c, best.warps_p,
             best.blocks);
  falt_free(binary.data);
}

/* The best tile of all but signals and pixels: nothing may spill. Nor where groups of 40 and 48 have results in f32,
 * which leave as soon as they are summed. */
static void test_kernels(UNUSED void **state) {
  static const falt_grouped_shape words[] = {
      {64, {28, 28}, 320, 40, 40, 40, 40, {3, 3}, {1, 1}, 1, false, 7e7},
      {64, {28, 28}, 384, 48, 48, 48, 48, {3, 3}, {1, 1}, 1, false, 9e7},
  };
  need_compiler();
  for (int i = 0; i < COMPILED; i++)
    check_kernel(&shapes[i], i == 3, shapes[i].finish ? FALT_F32 : i % 2 ? FALT_F16 : FALT_BF16);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) check_kernel(&words[i], false, FALT_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
