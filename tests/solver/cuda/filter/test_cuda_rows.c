/* Tests of the tile search of cuda-rows and of its compiled kernels; no GPU needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile_kernels.h"
#include "solver/cuda/filter/cuda_rows_tiles.h"
#include "tile_problem.h"

#define UNUSED __attribute__((unused))

static falt_tile_problem rows(int taps, int64_t height, int64_t width) {
  return tile_problem((int[]){1, 1, taps}, (int64_t[]){1, height, width});
}

/* Blocks cover all rows, lanes have whole words. */
static void check_row(void *context, const void *candidate) {
  const falt_row *r = candidate;
  tally *sum = context;
  const falt_tile_problem *p = sum->problem;
  if (r->rejected) return;
  const int64_t part = (int64_t)32 * r->warps * r->width;
  count_legal(sum, r->seconds);
  assert_true(r->width * p->x_bytes % 16 == 0 && r->width * p->y_bytes % 16 == 0);
  assert_true(r->across * part >= p->out[2] && (r->across - 1) * part < p->out[2]);
  assert_int_equal(r->lines, p->batch * p->out[0] * p->out[1]);
  assert_true(r->blocks >= 1 && r->blocks * r->warps <= 64);
}

static falt_row choose(const falt_tile_problem *p) {
  falt_row best;
  tally sum = {.problem = p};
  falt_rows_each(p, &h200, &(falt_tile_search){.visit = check_row, .context = &sum});
  assert_true(falt_rows_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
  return best;
}

static void expect_rejected(const falt_tile_problem *p, const char *word) {
  falt_row best;
  assert_false(falt_rows_choose(p, &h200, &best));
  assert_non_null(strstr(best.rejected, word));
}

/* Long filters of long rows: as many results as share a window well. */
static void test_choice(UNUSED void **state) {
  for (int taps = 9; taps <= 65; taps += 8) {
    falt_tile_problem p = rows(taps, 1, 1 << 26);
    assert_int_equal(choose(&p).width, 16);
    p = rows(taps, 8192, 8192);
    assert_int_equal(choose(&p).width, 16);
  }
}

static void test_kinds(UNUSED void **state) {
  static const int bytes[] = {1, 2, 4, 8};
  for (int x = 0; x < 4; x++)
    for (int y = 0; y < 4; y++)
      for (int width = 1; width <= 1000; width += 333) {
        falt_tile_problem p = rows(7, 33, width);
        p.batch = 5;
        p.x_bytes = bytes[x];
        p.y_bytes = bytes[y];
        p.sum_bytes = x == 3 || y == 3 ? 8 : 4;
        p.converts = x != 2;
        choose(&p);
      }
}

/* Rows that are not aligned are staged element by element, and long filters take longer than short ones. */
static void test_estimates(UNUSED void **state) {
  falt_tile_problem p = rows(31, 8192, 8192), odd = rows(31, 8192, 8191);
  odd.x_align = odd.y_align = 1;
  assert_true(choose(&p).seconds < choose(&odd).seconds);
  for (int taps = 9; taps < 120; taps += 8) {
    const falt_tile_problem shorter = rows(taps, 4096, 4096), longer = rows(taps + 8, 4096, 4096);
    assert_true(choose(&shorter).seconds < choose(&longer).seconds);
  }
}

static void test_rejected(UNUSED void **state) {
  falt_tile_problem p = rows(31, 64, 64);
  p.taps[1] = 2;
  expect_rejected(&p, "across rows");
  p = rows(31, 64, 64);
  p.stride[2] = 2;
  expect_rejected(&p, "stride");
  p = rows(31, 64, 4096);
  p.dilation[2] = 2;
  expect_rejected(&p, "contiguous");
  p.dilation[2] = 1;
  p.pixel = 3;
  expect_rejected(&p, "contiguous");
  p = rows(1000, 64, 64);
  expect_rejected(&p, "");
}

typedef struct along {
  int taps, width;
  const char *element;
  falt_type type;
  int boundary;
} along;

static falt_cuda_kernel row(const along *v) {
  falt_cuda_kernel k = {.source = "cuda_rows.cu", .entry = "falt_row"};
  const falt_tile_problem p = {.taps = {1, 1, v->taps}, .dilation = {1, 1, 1}, .pixel = 1};
  const falt_row r = {.width = v->width, .warps = 2, .blocks = v->type == FALT_F64 ? 12 : 16};
  filter_defines(&k, p.taps, 0, v->boundary, v->element, v->type);
  falt_cuda_define(&k, "FAR=%d", v->boundary == 2);
  falt_row_defines(&k, &p, &r);
  return k;
}

static void test_compile(UNUSED void **state) {
  static const along rows[] = {
      {31, 16, "float", FALT_F32, 2},
      {65, 16, "float", FALT_F32, 3},
      {9, 8, "float", FALT_F32, 0},
      {31, 16, "unsigned char", FALT_U8, 4},
      {15, 16, "unsigned short", FALT_U16, 1},
      {31, 8, "unsigned short", FALT_F16, 2},
      {127, 16, "short", FALT_S16, 0},
      {31, 8, "double", FALT_F64, 2},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      if (!is_turn(a, i)) continue;
      const falt_cuda_kernel kernel = row(&rows[i]);
      compile(&kernel, architectures[a], 80, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_estimates), cmocka_unit_test(test_rejected),
                                     cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
