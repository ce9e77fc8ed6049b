/* Tests of the tile search of cuda-direct; no GPU needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "solver/cuda/filter/cuda_direct_tiles.h"
#include "tile_problem.h"

#define UNUSED __attribute__((unused))

static falt_tile_problem image(int taps, int64_t height, int64_t width) {
  return tile_problem((int[]){1, taps, taps}, (int64_t[]){1, height, width});
}

/* Nothing that inner tiles load lies outside. */
static void check_box(const falt_tile_problem *p, const falt_tile *t) {
  const falt_tile_box box = falt_tile_inside(p, t);
  const int size[] = {t->planes, t->linear ? 1 : t->rows, t->width};
  int64_t blocks[3], inner = 1, all = 1;
  for (int i = 0; i < 3; i++) {
    assert_true(box.all[i] * size[i] >= p->out[i] && (box.all[i] - t->spread[i]) * size[i] < p->out[i]);
    assert_true(box.begin[i] >= 0 && box.begin[i] <= box.end[i] && (box.end[i] - t->spread[i]) * size[i] <= p->out[i]);
    inner *= box.end[i] - box.begin[i];
    all *= box.all[i];
  }
  assert_int_equal(falt_tile_frame(&box) + inner, all);
  falt_tile_blocks(t, &box, blocks);
  if (inner == 0) return;
  assert_true(blocks[0] >= box.end[0] - box.begin[0] && blocks[1] * t->block[1] >= box.end[1] - box.begin[1]);
  for (int i = 0; i < 3; i++) {
    if (t->spread[i] > 1) continue; /* see check_spread */
    const int64_t step = i == 2 ? p->pixel : 1, from = box.begin[i] * size[i] * p->stride[i] - p->pad[i] * step;
    const int64_t reach = (p->taps[i] - 1) * (int64_t)p->dilation[i] - p->pad[i], vector = i == 2 ? t->x_vector : 1;
    const int64_t last = (box.end[i] * size[i] - 1) * p->stride[i] + reach * step;
    assert_true(from >= 0 && (last / vector + 1) * vector <= p->in[i]);
  }
}

/* What holds for every tile that may be launched. */
static void check_tile(void *context, const void *candidate) {
  const falt_tile *t = candidate;
  tally *sum = context;
  const falt_tile_problem *p = sum->problem;
  sum->rejected += t->rejected != NULL;
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(t->block[0] * t->block[1] % 32 == 0 && t->block[0] * t->block[1] <= 1024);
  assert_true(t->blocks >= 1 && t->blocks * t->block[0] * t->block[1] <= 2048);
  assert_true(t->width % t->x_vector == 0 && t->width % t->y_vector == 0);
  assert_true(p->x_align % t->x_vector == 0 && p->y_align % t->y_vector == 0);
  assert_true(t->x_vector * p->x_bytes <= 16 && t->y_vector * p->y_bytes <= 16);
  assert_true(t->planes >= 1 && t->rows >= 1);
  check_box(p, t);
}

static falt_tile choose(const falt_tile_problem *p) {
  falt_tile best;
  tally sum = {.problem = p};
  falt_tiles_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_tiles_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void expect_rejected(const falt_tile_problem *p, const char *word) {
  falt_tile best;
  tally sum = {.problem = p};
  falt_tiles_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_int_equal(sum.legal, 0);
  assert_false(falt_tiles_choose(p, &h200, &best));
  assert_non_null(strstr(best.rejected, word));
}

/* Every result belongs to one tile's row, and the last one's of an inner tile exists. */
static void check_spread(const falt_tile_problem *p, const falt_tile *t) {
  const falt_tile_box box = falt_tile_inside(p, t);
  const int many[] = {t->planes, t->linear ? 1 : t->rows, t->width};
  for (int i = 0; i < 3; i++) {
    int count[512] = {0};
    for (int64_t tile = 0; tile < box.all[i]; tile++)
      for (int q = 0; q < many[i]; q++) {
        const int64_t spread = t->spread[i], at = tile / spread * (spread * many[i]) + tile % spread + q * spread;
        const bool inner = tile >= box.begin[i] && tile < box.end[i];
        const int64_t first = at * p->stride[i] - p->pad[i], reach = (p->taps[i] - 1) * p->dilation[i];
        if (at < p->out[i]) count[at]++;
        if (inner) assert_true(at < p->out[i] && first >= 0 && first + reach < p->in[i]);
      }
    for (int64_t at = 0; at < p->out[i]; at++) assert_int_equal(count[at], 1);
  }
}

static void check_spread_tile(void *context, const void *candidate) {
  const falt_tile *t = candidate;
  const falt_tile_problem *p = context;
  if (!t->rejected) check_spread(p, t);
}

static void test_steps(UNUSED void **state) {
  for (int stride = 1; stride <= 4; stride++)
    for (int dilation = 1; dilation <= 6; dilation++)
      for (int taps = 2; taps <= 5; taps++) {
        falt_tile_problem p = image(taps, 300, 304);
        for (int i = 1; i < 3; i++) {
          p.stride[i] = stride;
          p.dilation[i] = dilation;
          p.pad[i] = (taps - 1) * dilation / 2;
          p.out[i] = (p.in[i] - 1) / stride + 1;
        }
        falt_tiles_each(&p, &h200, &(falt_tile_search){.visit = check_spread_tile, .context = &p});
        assert_true(choose(&p).seconds > 0);
      }
}

/* Gaps cost neither lines nor, to the estimate, much time. */
static void test_gaps(UNUSED void **state) {
  falt_tile_problem p = image(5, 8192, 8192);
  const double dense = choose(&p).seconds;
  for (int i = 1; i < 3; i++) {
    p.dilation[i] = 2;
    p.pad[i] = 4;
  }
  assert_true(choose(&p).seconds < 1.1 * dense);
  p.dilation[2] = 1000;
  expect_rejected(&p, "apart");
}

/* Strides count pixels: a thread has whole ones. */
static void test_pixels(UNUSED void **state) {
  for (int pixel = 2; pixel <= 4; pixel++) {
    falt_tile_problem p = image(5, 1024, 1024);
    p.pixel = pixel;
    p.in[2] = (int64_t)1024 * pixel;
    p.out[2] = (int64_t)512 * pixel;
    p.out[1] = 512;
    p.stride[1] = p.stride[2] = 2;
    falt_tile best;
    assert_true(falt_tiles_choose(&p, &h200, &best));
    assert_int_equal(best.width % pixel, 0);
  }
}

static void test_choice(UNUSED void **state) {
  for (int taps = 1; taps <= 15; taps += 2) {
    const falt_tile_problem p = image(taps, 8192, 8192);
    const falt_tile t = choose(&p);
    assert_false(t.linear);
    assert_int_equal(t.planes, 1);
    assert_true(t.rows > 1 || taps < 3); /* rows are shared by results */
    const double bytes = 8.0 * 8192 * 8192;
    assert_true(t.seconds >= bytes / h200.bytes_per_s); /* no estimate beats the limit */
  }
}

static void test_estimates_grow(UNUSED void **state) {
  double before = 0;
  for (int taps = 3; taps <= 15; taps += 4) {
    const falt_tile_problem p = image(taps, 4096, 4096);
    const falt_tile t = choose(&p);
    assert_true(t.seconds > before);
    before = t.seconds;
  }
}

/* Threads of a volume's frame wait for line after line, however small it is: 16^3 took 10.3 microseconds. */
static void test_frame(UNUSED void **state) {
  falt_tile_problem p = image(3, 16, 16);
  const double flat = choose(&p).seconds;
  p.taps[0] = 3, p.in[0] = p.out[0] = 16, p.pad[0] = 1;
  assert_true(choose(&p).seconds > 7e-6 && flat < 3e-6);
}

static void test_signal(UNUSED void **state) {
  falt_tile_problem p = image(7, 1, 1 << 26);
  p.taps[1] = 1;
  p.pad[1] = 0;
  const falt_tile t = choose(&p);
  assert_true(t.linear && t.planes == 1);
}

static void check_one_row(void *context, const void *candidate) {
  const falt_tile *t = candidate;
  const falt_tile_problem *p = context;
  if (!t->rejected) assert_true(t->registers <= 2 * (p->taps[2] + t->width) + t->rows * t->width + 20);
}

/* A filter of one row has one window at hand. */
static void test_one_row(UNUSED void **state) {
  for (int taps = 7; taps <= 63; taps += 8) {
    falt_tile_problem p = image(taps, 1, 1 << 26);
    p.taps[1] = 1;
    p.pad[1] = 0;
    falt_tiles_each(&p, &h200, &(falt_tile_search){.visit = check_one_row, .context = &p});
    assert_true(choose(&p).registers < 2 * taps + 80);
  }
}

static void test_alignment(UNUSED void **state) {
  for (int align = 1; align <= 16; align *= 2) {
    falt_tile_problem p = image(3, 100, 101);
    p.x_align = align;
    p.y_align = 1;
    const falt_tile t = choose(&p);
    assert_true(t.x_vector <= align && t.y_vector == 1);
  }
}

static void test_small_and_interleaved(UNUSED void **state) {
  falt_tile_problem p = image(1, 1, 1);
  choose(&p);
  p = image(5, 3, 5);
  p.pixel = 3;
  p.x_bytes = p.y_bytes = 1;
  choose(&p);
}

static void test_rejected(UNUSED void **state) {
  falt_tile_problem p = image(101, 8192, 8192);
  expect_rejected(&p, "");
  p = image(3, 8192, 8192);
  p.taps[2] = 900;
  expect_rejected(&p, "");
  p = image(21, 512, 512);
  p.taps[0] = 21;
  p.in[0] = p.out[0] = 512;
  expect_rejected(&p, "");
}

/* Terms that are worth less than the whole filter are estimated so. */
static void test_separable(UNUSED void **state) {
  for (int taps = 3; taps <= 9; taps += 2) {
    falt_tile_problem p = image(taps, 4096, 4096);
    const double whole = choose(&p).seconds;
    p.terms = 1;
    const double once = choose(&p).seconds;
    p.terms = 3;
    assert_true(once <= whole && once < choose(&p).seconds);
  }
}

/* Reflections about the first and last of three elements, and about the only one, which has none nearby. */
static void test_far(UNUSED void **state) {
  falt_tile_problem p = image(1, 1, 3);
  p.taps[2] = 3;
  p.out[2] = 3;
  p.pad[2] = 0;
  assert_false(falt_tile_reaches_far(&p)); /* position 4 is element 0 */
  p.taps[2] = 4;
  assert_true(falt_tile_reaches_far(&p)); /* 5 is element 1 again */
  p.pad[2] = 2;
  assert_false(falt_tile_reaches_far(&p));
  p.pad[2] = 3;
  assert_true(falt_tile_reaches_far(&p));
  p = image(1, 1, 1);
  assert_false(falt_tile_reaches_far(&p));
  p.taps[2] = 2;
  assert_true(falt_tile_reaches_far(&p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_estimates_grow),
      cmocka_unit_test(test_frame),
      cmocka_unit_test(test_signal),
      cmocka_unit_test(test_one_row),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_small_and_interleaved),
      cmocka_unit_test(test_rejected),
      cmocka_unit_test(test_separable),
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_gaps),
      cmocka_unit_test(test_pixels),
      cmocka_unit_test(test_far),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
