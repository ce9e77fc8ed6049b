/* Tests of how the blocked kernel is cut: needs no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "solver/cuda/filter/cuda_tiled_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

/* The element of a line of the tile behind the last that a thread reads. */
static int64_t reach(const falt_tiled_problem *p, const falt_tiled *b) {
  const int64_t last = (int64_t)b->lanes * b->groups * b->group - 1;
  const int64_t below = last / p->pixel * p->stride[2] * p->pixel + last % p->pixel;
  return b->shift + below + (int64_t)(b->band[1] - 1) * p->dilation[2] * p->pixel + 1;
}

/* What holds for every block that may be launched. */
static void check_block(void *context, const void *candidate) {
  const falt_tiled *b = candidate;
  tally *sum = context;
  const falt_tiled_problem *p = sum->problem;
  const int quad = 16 / p->sum_bytes, threads = b->lanes * b->lines;
  if (b->rejected) return;
  count_legal(sum, b->seconds);
  assert_true(threads >= 1 && threads <= 512 && b->blocks >= 1 && b->blocks * threads <= 2048);
  assert_true(b->lanes % b->spread == 0);
  assert_true(b->pitch % quad == 0 && b->pitch >= reach(p, b));
  if (b->dense) assert_true(b->group * p->stride[2] % quad == 0 && b->chunk * b->next_tap % quad == 0);
  assert_true(b->shared_bytes <= h200.arch->block_shared);
  const int lines = (b->lines * b->rows - 1) * p->stride[1] + (b->band[0] - 1) * p->dilation[1] + 1;
  assert_true(b->tile_elements >= lines * b->pitch);
  const int taps = b->depth * b->band[0] * (b->band[1] + quad - 1) / quad * quad;
  assert_true(b->buffer_elements >= b->tile_elements + taps / 2);
  assert_true((int64_t)b->buffer_elements * b->buffers * p->sum_bytes <= b->shared_bytes);
  if (p->epilogue > 1)
    assert_true(b->depth * b->rows * b->groups * b->group * threads * p->sum_bytes <= b->shared_bytes);
  /* tap columns: whole windows, and the last */
  assert_true(b->rest >= 1 && b->rest <= 16);
  assert_int_equal((p->taps[2] - b->rest) % (b->chunk ? b->chunk : 1), 0);
  assert_true(b->chunk || b->rest == p->taps[2]);
  assert_true(b->band[1] == p->taps[2] || (b->chunk && b->band[1] % b->chunk == 0));
  if (b->walk) assert_true(b->depth == p->taps[0] && b->band[0] == p->taps[1] && p->epilogue < 2);
}

static falt_tiled choose(const falt_tiled_problem *p) {
  falt_tiled best;
  tally sum = {.problem = p};
  falt_tiled_each(p, &h200, &(falt_tile_search){.visit = check_block, .context = &sum});
  assert_true(falt_tiled_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static falt_tiled_problem image(int taps) {
  return (falt_tiled_problem){.taps = {1, taps, taps},
                              .stride = {1, 1, 1},
                              .dilation = {1, 1, 1},
                              .out = {1, 8192, 8192},
                              .batch = 1,
                              .pixel = 1,
                              .x_bytes = 4,
                              .y_bytes = 4,
                              .sum_bytes = 4,
                              .pad = taps / 2};
}

/* No estimate beats the limits of the machine, and more taps cost more. */
static void test_images(UNUSED void **state) {
  double before = 0;
  for (int taps = 3; taps <= 255; taps += taps < 31 ? 2 : 32) {
    const falt_tiled_problem p = image(taps);
    const falt_tiled b = choose(&p);
    const double results = 8192.0 * 8192;
    assert_true(b.seconds >= 8 * results / h200.bytes_per_s);
    assert_true(b.seconds >= 2 * results * taps * taps / h200.flops);
    assert_true(b.seconds > before);
    before = b.seconds;
  }
}

/* Every stride, dilation, pixel, type and epilogue has a legal block, however far the taps lie. */
static void test_everything(UNUSED void **state) {
  static const int strides[] = {1, 2, 3, 7, 16}, dilations[] = {1, 2, 5, 12, 40}, taps[] = {1, 2, 9, 17, 101};
  for (int i = 0; i < 5 * 5 * 5 * 4 * 3; i++) {
    falt_tiled_problem p = image(taps[i % 5]);
    p.stride[1] = p.stride[2] = strides[i / 5 % 5];
    p.dilation[1] = p.dilation[2] = dilations[i / 25 % 5];
    p.pixel = 1 + i / 125 % 4;
    p.epilogue = i / 500;
    p.pad = p.taps[2] / 2 * p.dilation[2] * p.pixel;
    choose(&p);
    p.sum_bytes = 8;
    choose(&p);
  }
}

/* Small images and rows that vectors do not fit are staged element by element: that is not for nothing. */
static void test_ends(UNUSED void **state) {
  falt_tiled_problem large = image(3), small = image(3), odd = image(3);
  small.out[1] = small.out[2] = 64;
  small.batch = 128 * 128;
  odd.unaligned = true;
  assert_true(choose(&small).seconds > 1.2 * choose(&large).seconds);
  assert_true(choose(&odd).seconds > 1.2 * choose(&large).seconds);
}

static void test_volumes(UNUSED void **state) {
  for (int taps = 2; taps <= 15; taps++) {
    falt_tiled_problem p = image(taps);
    p.taps[0] = taps;
    p.out[0] = p.out[1] = p.out[2] = 512;
    choose(&p);
    p.stride[0] = p.dilation[0] = 2;
    choose(&p);
  }
}

static void test_signals(UNUSED void **state) {
  for (int taps = 1; taps < 100000; taps = taps * 3 + 1) {
    falt_tiled_problem p = image(taps);
    p.taps[1] = 1;
    p.out[1] = 1;
    p.out[2] = 1 << 24;
    choose(&p);
  }
}

static void test_refusal(UNUSED void **state) {
  falt_tiled_problem p = image(3);
  falt_tiled b;
  p.stride[2] = 1 << 20;
  assert_false(falt_tiled_choose(&p, &h200, &b));
  assert_non_null(b.rejected);
}

/* Sums of many taps are split, of few or of doubles they are not. */
static void test_split_sums(UNUSED void **state) {
  static const struct {
    int taps[3], sum_bytes;
    bool apart, flush;
  } cases[] = {{{1, 63, 63}, 4, true, true},   {{31, 31, 31}, 4, true, true}, {{1, 1, 4097}, 4, true, true},
               {{1, 13, 13}, 4, true, false},  {{1, 5, 5}, 4, false, false},  {{1, 63, 63}, 8, false, false},
               {{31, 31, 31}, 8, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_tiled_problem p = {.stride = {1, 1, 1},
                            .dilation = {1, 1, 1},
                            .out = {cases[i].taps[0] > 1 ? 64 : 1, cases[i].taps[1] > 1 ? 512 : 1, 4096},
                            .batch = 1,
                            .pixel = 1,
                            .x_bytes = cases[i].sum_bytes,
                            .y_bytes = cases[i].sum_bytes,
                            .sum_bytes = cases[i].sum_bytes};
    falt_tiled block;
    memcpy(p.taps, cases[i].taps, sizeof p.taps);
    assert_true(falt_tiled_choose(&p, &h200, &block));
    assert_true(block.apart == cases[i].apart);
    assert_true((block.flush > 0) == cases[i].flush);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_split_sums), cmocka_unit_test(test_images),
                                     cmocka_unit_test(test_everything), cmocka_unit_test(test_ends),
                                     cmocka_unit_test(test_volumes),    cmocka_unit_test(test_signals),
                                     cmocka_unit_test(test_refusal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
