/* Tests of how the GPU's kernel for layers of few channels is cut: needs no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/random.h"
#include "solver/cuda/fprop_direct/cuda_direct_nchw_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static const falt_direct_nchw_problem tutorial = {.channels = 1,
                                                  .taps = {5, 5},
                                                  .stride = {1, 1},
                                                  .dilation = {1, 1},
                                                  .pool = {1, 1},
                                                  .out = {28, 28},
                                                  .filters = 16,
                                                  .batch = 64,
                                                  .x_bytes = 4,
                                                  .y_bytes = 4,
                                                  .y_align = 4};

static int threads_of(const falt_direct_nchw_tile *t) {
  return t->across * t->down * t->groups;
}

/* Inputs of a block along an axis. */
static int reach(const falt_direct_nchw_problem *p, int axis, int results) {
  return (results - 1) * p->stride[axis] + (p->taps[axis] - 1) * p->dilation[axis] + 1;
}

/* What holds for every tile that may be launched. */
static void check_tile(void *context, const void *candidate) {
  const falt_direct_nchw_tile *t = candidate;
  tally *sum = context;
  const falt_direct_nchw_problem *p = sum->problem;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(threads_of(t) >= 1 && threads_of(t) <= 512 && t->registers < 255);
  assert_true(t->rows % p->pool[0] == 0 && t->columns % p->pool[1] == 0 && t->filters % 4 == 0);
  const int64_t tile[2] = {(int64_t)t->down * t->rows / p->pool[0], (int64_t)t->across * t->columns / p->pool[1]};
  for (int a = 0; a < 2; a++)
    assert_true(t->tiles[a] * tile[a] >= p->out[a] && (t->tiles[a] - 1) * tile[a] < p->out[a]);
  assert_true(t->filter_tiles * t->groups * t->filters >= p->filters);
  const int lines = reach(p, 0, t->down * t->rows), line = reach(p, 1, t->across * t->columns),
            polyphases = t->columns * p->stride[1];
  assert_true(t->slots * polyphases >= line && t->pitch >= t->slots * polyphases);
  const int64_t floats = (int64_t)p->channels * lines * t->pitch +
                         (int64_t)p->channels * p->taps[0] * p->taps[1] * (t->groups * t->filters + 4);
  assert_true(floats * 4 <= t->shared_bytes && t->shared_bytes <= h200.arch->block_shared);
}

static falt_direct_nchw_tile choose(const falt_direct_nchw_problem *p) {
  falt_direct_nchw_tile best;
  tally sum = {.problem = p};
  falt_direct_nchw_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_direct_nchw_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void test_random_layers(UNUSED void **state) {
  uint64_t random = 1;
  for (int i = 0; i < 60; i++) {
    falt_direct_nchw_problem p = {.channels = (int)falt_random_int(&random, 1, 8),
                                  .filters = falt_random_int(&random, 1, 100),
                                  .batch = falt_random_int(&random, 1, 1000),
                                  .x_bytes = 4,
                                  .y_bytes = 2,
                                  .y_align = 1 << falt_random_int(&random, 0, 3)};
    for (int a = 0; a < 2; a++) {
      p.taps[a] = (int)falt_random_int(&random, 1, 7);
      p.stride[a] = (int)falt_random_int(&random, 1, 3);
      p.dilation[a] = (int)falt_random_int(&random, 1, 2);
      p.pool[a] = (int)falt_random_int(&random, 1, 3);
      p.out[a] = falt_random_int(&random, 1, 300);
    }
    choose(&p);
  }
}

/* A small layer is spread over the whole GPU, and pooling makes it no slower. */
static void test_tutorial(UNUSED void **state) {
  falt_direct_nchw_problem pooled = tutorial;
  const falt_direct_nchw_tile tile = choose(&tutorial);
  pooled.pool[0] = pooled.pool[1] = 2;
  pooled.out[0] = pooled.out[1] = 14;
  const falt_direct_nchw_tile fused = choose(&pooled);
  assert_true(tile.tiles[0] * tile.tiles[1] * tile.filter_tiles * 64 >= 128);
  assert_true(tile.seconds < 5e-6 && fused.seconds < 5e-6 && fused.seconds < 1.2 * tile.seconds);
}

/* Threads of a warp that read different elements of a line of the tile read different banks. */
static void test_banks(UNUSED void **state) {
  falt_direct_nchw_problem p = tutorial;
  for (int stride = 1; stride <= 4; stride++) {
    p.stride[0] = p.stride[1] = stride;
    const falt_direct_nchw_tile t = choose(&p);
    int used[32] = {0};
    for (int i = 0; i < t.across && i < 32; i++)
      used[i % 32]++; /* slot i of a polyphase part, whatever the polyphase */
    for (int bank = 0; bank < 32; bank++) assert_true(used[bank] <= 1);
    if (t.across < 32 && t.across * t.down >= 32 && t.rows * stride % 2 == t.across % 2)
      assert_int_equal(t.rows * stride * t.pitch % 32, t.across % 32);
  }
}

static void test_refusals(UNUSED void **state) {
  falt_direct_nchw_problem p = tutorial;
  falt_direct_nchw_tile best;
  p.channels = 4096;
  assert_false(falt_direct_nchw_choose(&p, &h200, &best));
  assert_string_equal(best.rejected, "a filter has too many taps for tiles of all channels");
  p.channels = 64, p.dilation[0] = 500;
  assert_false(falt_direct_nchw_choose(&p, &h200, &best));
  assert_string_equal(best.rejected, "all channels of a tile do not fit in shared memory");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_layers), cmocka_unit_test(test_tutorial),
                                     cmocka_unit_test(test_banks), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
