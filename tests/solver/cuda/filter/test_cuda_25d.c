/* Tests of the choice of 2.5D tiles for GPUs: needs no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "solver/cuda/filter/cuda_25d_tiles.h"
#include "tile_problem.h"

#define UNUSED __attribute__((unused))

static falt_tile_problem volume(int taps, int64_t size) {
  return tile_problem((int[]){taps, taps, taps}, (int64_t[]){size, size, size});
}

/* Threads of a row that shuffle. */
static int group_of(const falt_25d *s) {
  return s->block[0] < 32 ? s->block[0] : 32;
}

/* Where the threads of a row stand: every column is some thread's, all that they load themselves lies inside, whole
 * vectors of it, and a window's rest is at most a neighbour's. */
static void check_columns(const falt_tile_problem *p, const falt_25d *s) {
  const int64_t columns = p->out[2], all = s->count[2] * s->block[0] * s->width;
  const int right = p->taps[2] - 1 - s->left;
  int64_t next = 0;
  assert_true(all >= columns && all - (int64_t)s->block[0] * s->width < columns);
  assert_int_equal(s->left, p->pad[2] + s->shift);
  assert_true(s->left >= 0 && s->left <= s->width && right >= 0 && right <= s->width);
  for (int64_t wanted = 0; wanted < columns; wanted += s->width) {
    const int64_t column = wanted < columns - s->width ? wanted : columns - s->width;
    assert_true(column >= 0 && column <= next);
    const bool first = wanted / s->width % group_of(s) == 0 || column < wanted;
    const bool last = (wanted / s->width + 1) % group_of(s) == 0 || wanted + 2 * s->width > columns;
    assert_true(s->both || !first || !last);
    assert_true(column % s->x_vector == 0 && column % s->y_vector == 0);
    assert_true(column + s->shift >= 0 && column + s->shift + s->width <= p->in[2]);
    next = column + s->width;
  }
  assert_int_equal(next, columns);
}

/* What holds for every tile that may be launched. */
static void check_tile(void *context, const void *candidate) {
  const falt_25d *s = candidate;
  tally *sum = context;
  const falt_tile_problem *p = sum->problem;
  const int threads = s->block[0] * s->block[1];
  if (s->rejected) return;
  count_legal(sum, s->seconds);
  assert_true(threads % 32 == 0 && threads <= 1024);
  assert_true(s->blocks >= 1 && s->blocks * threads <= 2048 && s->blocks * threads * s->registers <= 65536);
  assert_true(s->width % s->x_vector == 0 && s->width % s->y_vector == 0);
  assert_true(s->shift % s->x_vector == 0);
  assert_true(p->x_align % s->x_vector == 0 && p->y_align % s->y_vector == 0);
  assert_true(s->x_vector * p->x_bytes <= 16 && s->y_vector * p->y_bytes <= 16);
  const int lines = s->rows + p->taps[1] - 1;
  assert_true(s->ahead >= 1 && (s->ahead <= lines || lines == 1));
  const int right = p->taps[2] - 1 - s->left, ends = s->both ? s->left + right : s->left > right ? s->left : right;
  assert_true(lines + ends <= 32); /* bits of the mask of those that are the constant */
  assert_true(s->count[0] * s->planes >= p->out[0] && (s->count[0] - 1) * s->planes < p->out[0]);
  assert_true(s->count[1] * s->block[1] * s->rows >= p->out[1]);
  check_columns(p, s);
}

static falt_25d choose(const falt_tile_problem *p) {
  falt_25d best;
  tally sum = {.problem = p};
  falt_25d_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_25d_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void test_choice(UNUSED void **state) {
  for (int taps = 3; taps <= 7; taps += 2) {
    const falt_tile_problem p = volume(taps, 512);
    const falt_25d s = choose(&p);
    const double results = 512.0 * 512 * 512, flops = 2 * results * taps * taps * taps;
    assert_true(s.seconds >= 8 * results / h200.bytes_per_s && s.seconds >= flops / h200.flops); /* the limits */
    assert_true(s.planes >= 8 * taps); /* few planes are computed twice */
    assert_false(s.both);
  }
}

/* Enough blocks for all multiprocessors, where the volume has them. */
static void test_small(UNUSED void **state) {
  for (int64_t size = 32; size <= 256; size *= 2) {
    const falt_tile_problem p = volume(3, size);
    const falt_25d s = choose(&p);
    assert_true(s.count[0] * s.count[1] * s.count[2] >= (size < 128 ? 16 : 100));
  }
}

/* Every length of a row and every alignment. */
static void test_columns(UNUSED void **state) {
  for (int64_t columns = 8; columns < 140; columns++)
    for (int align = 1; align <= 16; align *= 4) {
      falt_tile_problem p = volume(3, 20);
      p.in[2] = p.out[2] = columns;
      p.x_align = align;
      choose(&p);
      p.in[2] += 2; /* valid */
      p.pad[2] = 0;
      choose(&p);
    }
}

static void test_types(UNUSED void **state) {
  static const int bytes[] = {1, 2, 4, 8};
  for (int x = 0; x < 4; x++)
    for (int y = 0; y < 4; y++)
      for (int taps = 2; taps <= 5; taps++) {
        falt_tile_problem p = volume(taps, 100);
        p.x_bytes = bytes[x];
        p.y_bytes = bytes[y];
        p.sum_bytes = bytes[x] == 8 || bytes[y] == 8 ? 8 : 4;
        p.converts = bytes[x] < 4;
        choose(&p);
        p.terms = 1; /* of many taps they need too many registers */
        if (taps < 4) choose(&p);
      }
}

/* An image, its rows in the place of planes. */
static void test_image(UNUSED void **state) {
  falt_tile_problem p = volume(15, 8192);
  p.taps[1] = 1;
  p.pad[1] = 0;
  p.in[1] = p.out[1] = 1;
  const falt_25d s = choose(&p);
  assert_true(s.rows == 1 && s.block[1] == 1 && s.width > 7);
}

static void expect_rejected(const falt_tile_problem *p, const char *word) {
  falt_25d best;
  tally sum = {.problem = p};
  falt_25d_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_int_equal(sum.legal, 0);
  assert_false(falt_25d_choose(p, &h200, &best));
  assert_non_null(strstr(best.rejected, word));
}

static void test_rejected(UNUSED void **state) {
  falt_tile_problem p = volume(3, 64);
  p.taps[0] = 1;
  expect_rejected(&p, "plane");
  p = volume(3, 64);
  p.pixel = 3;
  expect_rejected(&p, "interleaved");
  p = volume(3, 64);
  p.taps[2] = 41;
  p.pad[2] = 20;
  expect_rejected(&p, "neighbouring");
  p = volume(3, 64);
  p.pad[2] = 2; /* full: results beyond the image */
  p.out[2] += 2;
  expect_rejected(&p, "neighbouring");
  p = volume(15, 64);
  expect_rejected(&p, "");
  p = tile_problem((int[]){2, 33, 1}, (int64_t[]){2, 64, 64}); /* columns of two terms */
  expect_rejected(&p, "mask");
  p.taps[1] = 32;
  choose(&p);
}

/* Tiles that were compiled for sm_90a, with and without spills: those that spill are not offered with as many blocks,
 * and those that do not are chosen still. */
typedef struct compiled {
  int taps[3], type; /* of the image: f32, f16 or u8 */
  bool fills;
  int columns, align, width, rows, ahead, block[2], blocks;
  bool spills, seen;
} compiled;

enum { F32, F16, U8 };

static bool same_tile(const compiled *c, const falt_25d *s) {
  return s->width == c->width && s->rows == c->rows && s->ahead == c->ahead && s->block[0] == c->block[0] &&
         s->block[1] == c->block[1] && s->blocks == c->blocks;
}

static void check_spills(void *context, const void *candidate) {
  const falt_25d *s = candidate;
  compiled *c = context;
  if (!s->rejected && same_tile(c, s)) c->seen = true;
}

static void test_spills(UNUSED void **state) {
  static const compiled all[] = {
      {{7, 7, 7}, F32, true, 512, 16, 8, 1, 3, {32, 12}, 1, true, false},
      {{7, 7, 7}, F32, false, 512, 16, 8, 1, 3, {32, 12}, 1, false, false},
      {{5, 5, 5}, F32, true, 253, 1, 4, 2, 3, {64, 8}, 1, true, false},
      {{5, 5, 5}, F32, false, 253, 1, 4, 2, 3, {64, 8}, 1, false, false},
      {{7, 7, 7}, F16, true, 512, 16, 4, 2, 3, {32, 12}, 1, true, false},
      {{7, 7, 7}, U8, true, 512, 16, 8, 1, 3, {32, 12}, 1, false, false},
      {{3, 3, 3}, F32, true, 512, 16, 8, 2, 2, {64, 8}, 1, false, false},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    compiled c = all[i];
    const int64_t rows = c.columns == 253 ? 256 : c.columns;
    falt_tile_problem p = tile_problem(c.taps, (int64_t[]){rows, rows, c.columns});
    p.x_bytes = p.y_bytes = c.type == F32 ? 4 : c.type == F16 ? 2 : 1;
    p.converts = c.type != F32;
    p.tiny = c.type == U8;
    p.fills = c.fills;
    p.x_align = p.y_align = c.align;
    falt_25d best;
    falt_25d_each(&p, &h200, &(falt_tile_search){.visit = check_spills, .context = &c});
    assert_true(falt_25d_choose(&p, &h200, &best));
    assert_int_equal(c.seen, !c.spills);
    if (!c.spills) assert_true(same_tile(&c, &best));
  }
}

/* Vectors fill sectors; single elements of threads that lie apart do not. */
static void test_scattered(UNUSED void **state) {
  falt_tile_problem p = volume(3, 256);
  falt_25d s = {.width = 8, .y_vector = 4};
  assert_true(falt_25d_scattered(&p, &h200, &s) == 0);
  s.y_vector = 1;
  assert_true(falt_25d_scattered(&p, &h200, &s) > 8.0 * 256 * 256 * 256 / h200.bytes_per_s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scattered), cmocka_unit_test(test_choice), cmocka_unit_test(test_small),
      cmocka_unit_test(test_columns),   cmocka_unit_test(test_types),  cmocka_unit_test(test_image),
      cmocka_unit_test(test_rejected),  cmocka_unit_test(test_spills),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
