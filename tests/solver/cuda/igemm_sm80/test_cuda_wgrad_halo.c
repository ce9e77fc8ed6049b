/* Tests of how filters' gradients by windows are cut, which need no GPU; their kernels compiled, where there is NVRTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "need_compiler.h"
#include "solver/cuda/igemm_sm80/cuda_wgrad_halo_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static const falt_machine a100 = A100, consumer = RTX5090;

static const falt_wgrad_halo_shape shapes[] = {
    /* 32 groups of 8, merged by two */
    {64, {1, 56, 56}, 16, 16, 16, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, false, false, 16, 2e8, -1},
    /* a first layer */
    {64, {1, 112, 112}, 1, 64, 3, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, false, true, 16, 1.2e8, -1},
    /* dense, volumes */
    {2, {64, 128, 128}, 1, 64, 32, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false, false, 16, 4e8, -1},
    /* rows and channels that fill no matrix, many taps, strides, dilations, images smaller than a tile */
    {5, {1, 5, 9}, 1, 72, 24, {1, 5, 7}, {1, 2, 3}, {1, 2, 1}, true, false, 16, 1e5, -1},
    {3, {1, 1, 50}, 1, 8, 1, {1, 1, 5}, {1, 1, 1}, {1, 1, 1}, true, true, 2, 1e4, -1},
    {64, {1, 14, 14}, 32, 32, 32, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, false, false, 16, 5e7, -1},
    /* a row of the input meets two or three rows of results */
    {4, {1, 13, 21}, 2, 48, 24, {1, 5, 3}, {1, 2, 2}, {1, 1, 3}, true, false, 16, 1e5, -1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int64_t product(const int64_t *size, int count) {
  return count == 0 ? 1 : *size * product(size + 1, count - 1);
}

/* Warps have all columns of a part, parts all of the gradient, split-K slices all tiles and none for nothing. */
static void check_tile(void *context, const void *candidate) {
  const falt_wgrad_halo_tile *t = candidate;
  tally *all = context;
  const falt_wgrad_halo_shape *s = all->problem;
  int64_t parts[5];
  falt_wgrad_halo_parts(s, t, parts);
  assert_int_equal(product(parts, 5), t->parts);
  assert_true(parts[0] == s->taps[0] && parts[1] * t->taps_r >= s->taps[1] && parts[3] * 16 * t->mr >= s->rows);
  assert_true(parts[2] * t->channels >= s->channels && parts[4] * t->slabs == s->groups);
  const int64_t columns =
      s->run ? t->taps_r * ((s->taps[2] * s->channels + 7) / 8) : t->taps_r * s->taps[2] * (t->channels / 16);
  assert_true(t->warps % t->slabs == 0 && t->warps / t->slabs * t->per >= columns && t->warps <= 16);
  assert_true(t->split_k * t->slice_tiles >= falt_wgrad_halo_tiles(s, t));
  assert_true((t->split_k - 1) * t->slice_tiles < falt_wgrad_halo_tiles(s, t) && t->split_k <= 65535);
  assert_true(t->blocks >= 1 && t->shared_bytes <= all->machine->arch->block_shared);
  assert_true(!s->run || t->height % 2 == 0);
  if (!s->run && t->taps_r > s->stride[1] && s->dilation[1] == 1) /* rows of y stay for all rows of taps */
    assert_true(t->height % 2 == 0 && t->width % 8 == 0 && t->per % t->taps_r == 0);
  count_legal(all, t->seconds);
}

static void test_tiles(UNUSED void **state) {
  const falt_machine *const machines[] = {&h200, &a100, &consumer};
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < SHAPES; i++) {
      tally all = {.problem = &shapes[i], .machine = machines[m]};
      falt_wgrad_halo_tile best;
      falt_wgrad_halo_each(&shapes[i], machines[m], &(falt_tile_search){.visit = check_tile, .context = &all});
      assert_true(falt_wgrad_halo_choose(&shapes[i], machines[m], &best));
      check_best(&all, best.seconds);
    }
}

/* A smaller workspace means fewer split-K slices; more images take longer. */
static void test_workspace(UNUSED void **state) {
  falt_wgrad_halo_shape s = shapes[0];
  falt_wgrad_halo_tile free_tile, bound;
  assert_true(falt_wgrad_halo_choose(&s, &h200, &free_tile));
  assert_true(free_tile.split_k > 4);
  s.workspace = free_tile.workspace / free_tile.split_k; /* of one share */
  assert_true(falt_wgrad_halo_choose(&s, &h200, &bound));
  assert_true(bound.workspace <= s.workspace && bound.seconds > free_tile.seconds);
  s = shapes[0];
  s.images = 1;
  s.bytes /= 64;
  assert_true(falt_wgrad_halo_choose(&s, &h200, &bound));
  assert_true(bound.seconds < free_tile.seconds);
}

/* The best tile of each shape: nothing may spill. */
static void test_kernels(UNUSED void **state) {
  need_compiler();
  for (int i = 0; i < SHAPES; i++) {
    falt_wgrad_halo_tile best;
    falt_cuda_binary binary;
    falt_cuda_kernel kernel = {.source = "cuda_wgrad_halo.cu", .entry = "falt_wgrad_halo"};
    assert_true(falt_wgrad_halo_choose(&shapes[i], i == 3 ? &a100 : &h200, &best));
    falt_cuda_define(&kernel, "KIND=%s", i % 2 ? "HALVES" : "BRAINS");
    falt_wgrad_halo_defines(&kernel, &shapes[i], &best);
    if (falt_cuda_compile(&kernel, i == 3 ? "sm_80" : "sm_90a", &binary, NULL) != FALT_OK)
      fail_msg("%s", falt_message());
    if (binary.use.spill_bytes != 0)
      fail_msg("shape %d: %d bytes spilled: %d warps of %dx%d, %d blocks", i, binary.use.spill_bytes, best.warps,
               16 * best.mr, best.per, best.blocks);
    falt_free(binary.data);
  }
}

/* Pixels that begin at vectors may end within one: those of spread channels do. */
static void test_ragged(UNUSED void **state) {
  static const char *const line =
                               "backward-filter n=2 c=17 h=9 w=10 k=19 r=3 s=3 pad=1 type=f16 layout=nhwc "
                               "method=cuda-wgrad-halo",
                           *const pitch = " input-strides=2160,24,1,2160,240,24 output-strides=2160,24,1,2160,240,24";
  falt_cuda_options options;
  falt_device *device;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  assert_int_equal(falt_device_cuda(&device, &options), FALT_OK);
  for (int spread = 0; spread <= 1; spread++) {
    char whole[256];
    falt_plan *plan = NULL;
    snprintf(whole, sizeof whole, "%s%s", line, spread ? pitch : "");
    assert_int_equal(falt_plan_create_line(&plan, device, whole, NULL) == FALT_OK, spread);
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles),
      cmocka_unit_test(test_workspace),
      cmocka_unit_test(test_kernels),
      cmocka_unit_test(test_ragged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
