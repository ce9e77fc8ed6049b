/* Tests of how depthwise layers are cut for tensor cores, which need no GPU; their kernels compiled, where there is
 * NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "need_compiler.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static const falt_machine a100 = A100, b200 = B200, consumer = RTX5090;

static const falt_depthwise_toeplitz_shape shapes[] = {
    /* 7x7 on images of several sizes, in both orders; 5x5; 15x15; 31x31 on small images */
    {128, 96, {56, 56}, {56, 56}, {7, 7}, {3, 3}, false, 8, 8, false},
    {128, 96, {56, 56}, {56, 56}, {7, 7}, {3, 3}, true, 8, 8, false},
    {128, 384, {14, 14}, {14, 14}, {7, 7}, {3, 3}, false, 2, 2, true},
    {128, 768, {7, 7}, {7, 7}, {7, 7}, {3, 3}, true, 8, 8, true},
    {128, 240, {28, 28}, {28, 28}, {5, 5}, {2, 2}, false, 4, 4, false},
    {64, 96, {56, 56}, {56, 56}, {15, 15}, {7, 7}, false, 8, 8, false},
    {128, 384, {14, 14}, {14, 14}, {31, 31}, {15, 15}, false, 2, 2, false},
    /* 3x3 and 5x5, NHWC */
    {128, 144, {56, 56}, {56, 56}, {3, 3}, {1, 1}, true, 8, 8, false},
    {128, 240, {28, 28}, {28, 28}, {5, 5}, {2, 2}, true, 8, 8, false},
    /* uneven pads, an even number of taps, odd sizes, images that must be cut into slabs, one row, one pixel */
    {3, 40, {29, 47}, {27, 49}, {4, 6}, {1, 5}, true, 8, 8, true},
    {2, 3, {1000, 700}, {1000, 700}, {9, 9}, {4, 4}, false, 4, 4, false},
    {16, 64, {1, 2000}, {1, 2000}, {1, 9}, {0, 4}, false, 8, 8, false},
    {1, 1, {1, 1}, {1, 1}, {3, 3}, {1, 1}, false, 1, 1, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Tiles have all results, none for nothing, and fit a multiprocessor as often as they say. */
static void check_tile(void *context, const void *candidate) {
  const falt_depthwise_toeplitz_tile *t = candidate;
  tally *all = context;
  const falt_depthwise_toeplitz_shape *s = all->problem;
  const int64_t slabs = falt_ceil_div(s->out[0], t->slab), batches = falt_ceil_div(s->images, t->images);
  assert_true(s->inner ? t->span % 8 == 0 && t->span % t->warps == 0 : t->span == 1);
  assert_true(t->slab % t->segment == 0 || t->slab == s->out[0]);
  assert_true(slabs == 1 || t->images == 1);
  assert_true(t->parts * t->span >= s->channels && (t->parts - 1) * t->span < s->channels);
  assert_int_equal(t->tiles, t->parts * slabs * batches);
  assert_true(t->segment >= 1 && t->segment <= 32 && t->warps >= 1 && t->warps <= 16 && t->blocks >= 1);
  assert_true(t->shared_bytes <= all->machine->arch->block_shared);
  assert_true(t->blocks * (t->shared_bytes + 1024) <= all->machine->arch->block_shared + 1024);
  assert_true(t->grid >= 1 && t->grid <= t->tiles);
  count_legal(all, t->seconds);
}

static void test_tiles(UNUSED void **state) {
  const falt_machine *const machines[] = {&h200, &a100, &b200, &consumer};
  for (int m = 0; m < 4; m++)
    for (int i = 0; i < SHAPES; i++) {
      tally all = {.problem = &shapes[i], .machine = machines[m]};
      falt_depthwise_toeplitz_tile best;
      falt_depthwise_toeplitz_each(&shapes[i], machines[m], &(falt_tile_search){.visit = check_tile, .context = &all});
      assert_true(falt_depthwise_toeplitz_choose(&shapes[i], machines[m], &best));
      check_best(&all, best.seconds);
    }
}

typedef struct filter_tally {
  tally all;
  int64_t workspace;
} filter_tally;

/* Where the operands of the last product of cuda_depthwise_diagonals.cu end, and where they would if their blocks did
 * not overlap: 64 rows of x, and eight columns of dy for each row of taps, of 16 pixels each. */
static int64_t operands_end(const falt_depthwise_toeplitz_shape *s, const falt_depthwise_toeplitz_wgrad_tile *t) {
  const int64_t reach = s->taps[1] - 1 - s->pad[1], width = falt_min(s->in[1], s->out[1] + reach);
  const int64_t pitch = falt_max(width + s->pad[1], s->out[1] + reach), run = falt_round_up(t->slab * pitch, 16) * 16;
  const int64_t down = s->taps[0] == 8 ? 8 : falt_max(3, s->taps[0] | 1), of_y = (s->pad[1] + 8) * 16 + run;
  const int64_t octets = t->span / 8, used = of_y + run + (down - 1) * pitch * 16;
  const int64_t plane = falt_round_up(used, 128) + 128 / octets;
  const int64_t x_end = run - 256 + 64 * 16 * 2, y_end = of_y + run - 256 + 8 * down * 16 * 2;
  return (octets - 1) * plane + falt_max(used, falt_max(x_end, y_end));
}

/* Every share has images or slabs of them, their sums fit the workspace, and blocks a multiprocessor as often as they
 * say. */
static void check_filter_tile(void *context, const void *candidate) {
  const falt_depthwise_toeplitz_wgrad_tile *t = candidate;
  filter_tally *sum = context;
  tally *all = &sum->all;
  const falt_depthwise_toeplitz_shape *s = all->problem;
  const int64_t slabs = falt_ceil_div(falt_min(s->in[0], s->out[0] + s->taps[0] - 1 - s->pad[0]), t->slab);
  assert_true(t->split_k >= 1 && (t->split_k - 1) * t->images < s->images * slabs);
  assert_true(s->inner ? t->span % 8 == 0 && t->warps == t->span / 2 : t->span == 1 && slabs == 1);
  assert_int_equal(t->partial, t->split_k * s->taps[0] * s->taps[1] * s->channels * 4);
  assert_true(sum->workspace < 0 || t->partial <= sum->workspace);
  assert_true(t->warps >= 1 && t->warps <= 16 && t->blocks >= 1);
  assert_true(t->blocks * (t->shared_bytes + 1024) <= all->machine->arch->block_shared + 1024);
  assert_true(!s->inner || operands_end(s, t) <= t->shared_bytes);
  count_legal(all, t->seconds);
}

static bool has_filter_tile(const falt_depthwise_toeplitz_shape *s, const falt_machine *m, int64_t workspace) {
  filter_tally sum = {.all = {.problem = s, .machine = m}, .workspace = workspace};
  falt_depthwise_toeplitz_wgrad_tile best;
  (s->inner ? falt_depthwise_diagonals_each : falt_depthwise_toeplitz_wgrad_each)(
      s, m, workspace, &(falt_tile_search){.visit = check_filter_tile, .context = &sum});
  assert_true(falt_depthwise_toeplitz_wgrad_choose(s, m, workspace, &best) == (sum.all.legal > 0));
  assert_true(sum.all.legal == 0 || best.seconds == sum.all.least);
  return sum.all.legal > 0;
}

static void test_filter_tiles(UNUSED void **state) {
  const falt_machine *const machines[] = {&h200, &a100, &b200, &consumer};
  const falt_depthwise_toeplitz_shape *s = &shapes[0];
  const int64_t sums = s->taps[0] * s->taps[1] * s->channels * 4;
  for (int m = 0; m < 4; m++)
    for (int i = 0; i < SHAPES; i++) {
      const bool large = shapes[i].in[0] * shapes[i].in[1] > 100000; /* for shared memory */
      assert_true(has_filter_tile(&shapes[i], machines[m], -1) == (shapes[i].inner ? m == 0 : !large));
    }
  assert_true(has_filter_tile(s, &h200, sums) && !has_filter_tile(s, &h200, sums - 1));
}

/* Of which a product's operands are a large part. */
static void test_small_images(UNUSED void **state) {
  for (int taps = 1; taps <= 8; taps++)
    for (int pad = 0; pad < taps; pad++)
      for (int size = falt_max(1, taps - 2 * pad); size <= 24; size++)
        for (int channels = 8; channels <= 16; channels += 8) {
          const int out = size + 2 * pad - taps + 1;
          const falt_depthwise_toeplitz_shape s = {.images = 2,
                                                   .channels = channels,
                                                   .in = {size, size + 1},
                                                   .out = {out, out + 1},
                                                   .taps = {taps, taps},
                                                   .pad = {pad, pad},
                                                   .inner = true,
                                                   .x_align = 8,
                                                   .y_align = 8};
          assert_true(has_filter_tile(&s, &h200, -1));
        }
}

static void test_refusals(UNUSED void **state) {
  falt_depthwise_toeplitz_tile best;
  falt_depthwise_toeplitz_shape s = shapes[0];
  s.pad[1] = 7;
  assert_non_null(falt_depthwise_toeplitz_refusal(&s));
  assert_false(falt_depthwise_toeplitz_choose(&s, &h200, &best));
  s = shapes[0], s.pad[0] = -1;
  assert_non_null(falt_depthwise_toeplitz_refusal(&s));
  s = shapes[0], s.taps[0] = s.taps[1] = 51, s.pad[0] = s.pad[1] = 25; /* too many for the registers */
  assert_null(falt_depthwise_toeplitz_refusal(&s));
  assert_false(falt_depthwise_toeplitz_choose(&s, &h200, &best));
  s = shapes[0], s.in[1] = s.out[1] = 10000;
  assert_non_null(falt_depthwise_toeplitz_refusal(&s));
}

static void fill_defines(falt_cuda_kernel *kernel, const falt_depthwise_toeplitz_shape *s, bool half) {
  const int64_t x = s->inner ? s->channels : 1;
  falt_cuda_define(kernel, "KIND=%s", half ? "HALVES" : "BRAINS");
  falt_cuda_define(kernel, "TYPE_Y=%d", half ? FALT_F16 : FALT_BF16);
  falt_cuda_define(kernel, "TYPE_R=%d", s->finish ? FALT_F16 : -1);
  falt_cuda_define(kernel, "REAL=float");
  falt_cuda_define(kernel, "ACTIVATION=%d", s->finish ? FALT_SILU : FALT_IDENTITY);
  falt_cuda_define(kernel, "FINISH=%d", s->finish);
  falt_cuda_define(kernel, "MULTIPLE=1");
  falt_cuda_define(kernel, "X_R=%d", (int)(s->in[1] * x));
  falt_cuda_define(kernel, "X_S=%d", (int)x);
  falt_cuda_define(kernel, "Y_R=%d", (int)(s->out[1] * x));
  falt_cuda_define(kernel, "Y_S=%d", (int)x);
}

/* The best tile of each shape, for every architecture in turn: as many registers as the blocks that the host counts on
 * allow, and nothing may spill. */
static void test_kernels(UNUSED void **state) {
  static const struct {
    const char *name;
    const falt_machine *machine;
  } architectures[] = {{"sm_90a", &h200}, {"sm_80", &a100}, {"sm_100a", &b200}, {"sm_120", &consumer}};
  need_compiler();
  for (int a = 0; a < 4; a++)
    for (int i = 0; i < SHAPES; i++) {
      falt_depthwise_toeplitz_tile best;
      falt_cuda_binary binary;
      falt_cuda_kernel kernel = {.source = "cuda_depthwise_toeplitz.cu", .entry = "falt_depthwise_toeplitz"};
      if (a != 0 && a != 1 + i % 3) continue;
      assert_true(falt_depthwise_toeplitz_choose(&shapes[i], architectures[a].machine, &best));
      fill_defines(&kernel, &shapes[i], i % 2 == 0);
      falt_depthwise_toeplitz_defines(&kernel, &shapes[i], &best);
      if (falt_cuda_compile(&kernel, architectures[a].name, &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
      if (binary.use.spill_bytes != 0)
        fail_msg(
            "shape %d for %s: %d bytes spilled, %d registers: %d channels, %d images, segment %d, %d warps, %d "
            "blocks",
            i, architectures[a].name, binary.use.spill_bytes, binary.use.registers, best.span, best.images,
            best.segment, best.warps, best.blocks);
      falt_free(binary.data);
    }
}

/* NHWC kernels for Hopper GPUs only, which alone have their products. */
static void test_filter_kernels(UNUSED void **state) {
  static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100a", "sm_120"};
  need_compiler();
  for (int a = 0; a < 4; a++)
    for (int i = 0; i < SHAPES; i++) {
      falt_depthwise_toeplitz_wgrad_tile best;
      falt_cuda_binary binary;
      falt_cuda_kernel kernel = {.source = "cuda_depthwise_toeplitz_wgrad.cu",
                                 .entry = "falt_depthwise_toeplitz_wgrad"};
      const int64_t pixel = shapes[i].inner ? shapes[i].channels : 1;
      if (a != 0 && (shapes[i].inner || a != 1 + i % 3)) continue;
      if (shapes[i].inner) kernel.source = "cuda_depthwise_diagonals.cu", kernel.entry = "falt_depthwise_diagonals";
      if (!falt_depthwise_toeplitz_wgrad_choose(&shapes[i], &h200, -1, &best)) continue;
      falt_cuda_define(&kernel, "KIND=%s", i % 2 ? "BRAINS" : "HALVES");
      falt_cuda_define(&kernel, "MULTIPLE=1");
      falt_cuda_define(&kernel, "PAIR=\"%s\"", i % 2 ? "bf16.bf16" : "f16.f16");
      falt_cuda_define(&kernel, "X_R=%d", (int)(shapes[i].in[1] * pixel));
      falt_cuda_define(&kernel, "X_S=%d", (int)pixel);
      falt_cuda_define(&kernel, "Y_R=%d", (int)(shapes[i].out[1] * pixel));
      falt_cuda_define(&kernel, "Y_S=%d", (int)pixel);
      falt_depthwise_toeplitz_wgrad_defines(&kernel, &shapes[i], &best);
      if (falt_cuda_compile(&kernel, architectures[a], &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
      if (binary.use.spill_bytes != 0)
        fail_msg("shape %d for %s: %d bytes spilled, %d registers", i, architectures[a], binary.use.spill_bytes,
                 binary.use.registers);
      falt_free(binary.data);
    }
}

static void test_sum_kernel(UNUSED void **state) {
  static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100a", "sm_120"};
  need_compiler();
  for (int a = 0; a < 4; a++) {
    falt_cuda_binary binary;
    falt_cuda_kernel kernel = {.source = "cuda_depthwise_sum.cu", .entry = "falt_depthwise_sum"};
    falt_cuda_define(&kernel, "SUM=%s", a % 2 ? "double" : "float");
    falt_cuda_define(&kernel, "TYPE_W=%d", a % 2 ? FALT_F64 : FALT_F16);
    falt_cuda_define(&kernel, "TAPS_T=1");
    falt_cuda_define(&kernel, "TAPS_R=7");
    falt_cuda_define(&kernel, "TAPS_S=5");
    falt_cuda_define(&kernel, "CHANNELS=96");
    falt_cuda_define(&kernel, "MULTIPLE=%d", 1 + a % 2);
    falt_cuda_define(&kernel, "BIAS=%d", a % 2);
    if (falt_cuda_compile(&kernel, architectures[a], &binary, NULL) != FALT_OK) fail_msg("%s", falt_message());
    assert_true(binary.use.spill_bytes == 0 && binary.use.registers <= 64);
    falt_free(binary.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles),      cmocka_unit_test(test_filter_tiles), cmocka_unit_test(test_small_images),
      cmocka_unit_test(test_refusals),   cmocka_unit_test(test_kernels),      cmocka_unit_test(test_filter_kernels),
      cmocka_unit_test(test_sum_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
