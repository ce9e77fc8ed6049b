/* Tests of how separable filters are cut that blocked down the columns on GPUs, and of what they compile to: needs no
 * GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile_kernels.h"
#include "solver/cuda/filter/cuda_separable_25d_tiles.h"
#include "tile_problem.h"

#define UNUSED __attribute__((unused))

static falt_tile_problem image(int taps, int64_t height, int64_t width) {
  falt_tile_problem p = tile_problem((int[]){1, taps, taps}, (int64_t[]){1, height, width});
  p.terms = 1;
  return p;
}

/* Warps cover all columns and rows, lanes have whole words, warps fit on a multiprocessor. */
static void check_march(void *context, const void *candidate) {
  const falt_separable_25d *m = candidate;
  tally *sum = context;
  const falt_tile_problem *p = sum->problem;
  if (m->rejected) return;
  sum->legal++;
  if (sum->least == 0 || m->seconds < sum->least) sum->least = m->seconds;
  assert_true(m->seconds > 0 && m->seconds < 3600);
  assert_true(m->width * p->x_bytes % 16 == 0);
  assert_true(m->across * 32 * m->width >= p->out[2] && (m->across - 1) * 32 * m->width < p->out[2]);
  assert_true(m->down * m->rows >= p->out[1] && (m->down - 1) * m->rows < p->out[1]);
  assert_int_equal(m->planes, p->batch * p->out[0]);
  assert_true(m->blocks >= 1 && m->blocks * m->warps <= 64);
  assert_true(m->blocks * m->warps * 32 * m->registers <= 65536);
}

static falt_separable_25d choose(const falt_tile_problem *p) {
  falt_separable_25d best;
  tally sum = {.problem = p};
  falt_separable_25d_each(p, &h200, &(falt_tile_search){.visit = check_march, .context = &sum});
  assert_true(falt_separable_25d_choose(p, &h200, &best));
  assert_true(sum.legal > 0 && best.seconds == sum.least);
  return best;
}

static void expect_rejected(const falt_tile_problem *p, const char *word) {
  falt_separable_25d best;
  assert_false(falt_separable_25d_choose(p, &h200, &best));
  assert_non_null(strstr(best.rejected, word));
}

/* The multiprocessors' warps are filled once, by parts of the columns that repeat few lines. */
static void test_choice(UNUSED void **state) {
  const falt_tile_problem p = image(17, 8192, 8192);
  const falt_separable_25d m = choose(&p);
  const double warps = (double)(m.across * m.down), resident = (double)h200.multiprocessors * m.blocks * m.warps;
  assert_int_equal(m.width, 4);
  assert_true(m.rows > 100 && warps <= resident && warps > 0.85 * resident);
}

static void test_kinds(UNUSED void **state) {
  for (int taps = 3; taps <= 33; taps += 5)
    for (int pixel = 1; pixel <= 4; pixel++)
      for (int bytes = 1; bytes <= 4; bytes *= 2) {
        falt_tile_problem p = image(taps, 100, 200 * pixel);
        p.batch = 7;
        p.pixel = pixel;
        p.y_bytes = bytes;
        choose(&p);
      }
}

static void test_estimates_grow(UNUSED void **state) {
  for (int taps = 3; taps < 30; taps += 2) {
    const falt_tile_problem fewer = image(taps, 4096, 4096), more = image(taps + 2, 4096, 4096);
    falt_tile_problem twice = fewer;
    twice.terms = 2;
    assert_true(choose(&fewer).seconds <= choose(&more).seconds);
    assert_true(choose(&fewer).seconds < choose(&twice).seconds);
  }
}

static void test_rejected(UNUSED void **state) {
  falt_tile_problem p = image(65, 4096, 4096);
  expect_rejected(&p, "registers");
  p = image(9, 4096, 4096);
  p.x_bytes = 2;
  expect_rejected(&p, "f32");
  p = image(9, 4096, 4096);
  p.taps[0] = 3;
  expect_rejected(&p, "planes");
  p = image(9, 4096, 4096);
  p.taps[1] = 1;
  expect_rejected(&p, "row");
}

typedef struct shape {
  int rows, columns, terms, pixel, boundary;
} shape;

/* With the cut that the solver would choose. */
static falt_cuda_kernel blocked(const shape *v) {
  const falt_tile_problem p = {.taps = {1, v->rows, v->columns},
                               .terms = v->terms,
                               .in = {1, 4096, 4096},
                               .out = {1, 4096, 4096},
                               .batch = 1,
                               .pixel = v->pixel,
                               .x_bytes = 4,
                               .y_bytes = 4,
                               .sum_bytes = 4};
  falt_cuda_kernel k = {.source = "cuda_separable_25d.cu", .entry = "falt_separable_25d"};
  falt_separable_25d m;
  assert_true(falt_separable_25d_choose(&p, &h200, &m));
  filter_defines(&k, p.taps, v->terms, v->boundary, "float", FALT_F32);
  falt_cuda_define(&k, "FAR=%d", v->boundary == 2);
  falt_separable_25d_defines(&k, &p, &m);
  return k;
}

static void test_compile(UNUSED void **state) {
  static const shape shapes[] = {
      {17, 17, 1, 1, 3}, {25, 13, 1, 1, 2}, {9, 9, 1, 3, 0},   {3, 31, 1, 1, 4},
      {11, 11, 2, 1, 1}, {13, 13, 4, 1, 0}, {33, 17, 1, 1, 2}, {17, 17, 1, 1, 0},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      if (!is_turn(a, i)) continue;
      const falt_cuda_kernel kernel = blocked(&shapes[i]);
      compile(&kernel, architectures[a], 240, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_estimates_grow), cmocka_unit_test(test_rejected),
                                     cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
