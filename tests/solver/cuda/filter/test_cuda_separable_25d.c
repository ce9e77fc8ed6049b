/* Tests of the tile search of cuda-separable-25d and of its compiled kernels; no GPU needed. */
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
static void check_tile(void *context, const void *candidate) {
  const falt_separable_25d *m = candidate;
  tally *sum = context;
  const falt_tile_problem *p = sum->problem;
  if (m->rejected) return;
  count_legal(sum, m->seconds);
  const int bytes = m->width * p->x_bytes;
  assert_true(bytes == 4 || bytes == 8 || bytes == 16 || bytes == 32);
  assert_true((m->copy == 4 || m->copy == 8 || m->copy == 16) && p->x_align * p->x_bytes % m->copy == 0);
  assert_true(p->y_align % m->y_vector == 0 && m->width % m->y_vector == 0 && m->y_vector * p->y_bytes <= 16);
  assert_true(m->across * 32 * m->width >= p->out[2] && (m->across - 1) * 32 * m->width < p->out[2]);
  assert_true(m->down * m->rows >= p->out[1] && (m->down - 1) * m->rows < p->out[1]);
  assert_int_equal(m->planes, p->batch * p->out[0]);
  assert_true(m->blocks >= 1 && m->blocks * m->warps <= 64);
  assert_true(m->blocks * m->warps * 32 * m->registers <= 65536);
}

static falt_separable_25d choose(const falt_tile_problem *p) {
  falt_separable_25d best;
  tally sum = {.problem = p};
  falt_separable_25d_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  assert_true(falt_separable_25d_choose(p, &h200, &best));
  check_best(&sum, best.seconds);
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

static falt_tile_problem bytes_of(falt_tile_problem p, int bytes) {
  p.x_bytes = p.y_bytes = bytes;
  p.converts = true;
  return p;
}

/* Interleaved bytes take less time than floats of as many elements, more than the multiply-adds alone, and less than
 * two passes through floats in memory. */
static void test_bytes(UNUSED void **state) {
  falt_tile_problem floats = image(13, 8192, 3 * 8192);
  floats.pixel = 3;
  const falt_tile_problem bytes = bytes_of(floats, 1);
  const double results = 3.0 * 8192 * 8192;
  assert_int_equal(choose(&bytes).width, 8);
  assert_true(choose(&bytes).seconds < choose(&floats).seconds);
  assert_true(choose(&bytes).seconds > 26 * results / (h200.flops / 2));
  assert_true(choose(&bytes).seconds < 1.1 * 10 * results / h200.bytes_per_s);
}

/* Copies and stores are as wide as rows are aligned: narrower ones are more instructions, single bytes are refused. */
static void test_alignment(UNUSED void **state) {
  falt_tile_problem p = bytes_of(image(9, 4096, 4096), 1);
  double before = 0;
  for (int align = 16; align >= 4; align /= 2) {
    p.x_align = p.y_align = align;
    const falt_separable_25d m = choose(&p);
    assert_int_equal(m.copy, align);
    assert_int_equal(m.y_vector, align < m.width ? align : m.width);
    assert_true(m.seconds >= before);
    before = m.seconds;
  }
  p.y_align = 1;
  assert_true(choose(&p).seconds > before);
  p.x_align = 2;
  expect_rejected(&p, "aligned");
  p.x_bytes = 2;
  assert_int_equal(choose(&p).copy, 4);
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
        p = bytes_of(p, bytes);
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
  p.x_bytes = p.sum_bytes = 8;
  expect_rejected(&p, "wider than f32");
  p = image(9, 4096, 4096);
  p.taps[0] = 3;
  expect_rejected(&p, "planes");
  p = image(9, 4096, 4096);
  p.taps[1] = 1;
  expect_rejected(&p, "row");
}

typedef struct shape {
  int rows, columns, terms, pixel, boundary;
  falt_type type;
  int align;
} shape;

static const char *element_of(falt_type type) {
  return type == FALT_U8    ? "unsigned char"
         : type == FALT_S8  ? "signed char"
         : type == FALT_F32 ? "float"
                            : "unsigned short";
}

/* With the cut that the solver would choose. */
static falt_cuda_kernel blocked(const shape *v) {
  const int bytes = (int)falt_type_size(v->type);
  const falt_tile_problem p = {.taps = {1, v->rows, v->columns},
                               .terms = v->terms,
                               .in = {1, 4096, 4096},
                               .out = {1, 4096, 4096},
                               .batch = 1,
                               .pixel = v->pixel,
                               .x_bytes = bytes,
                               .y_bytes = bytes,
                               .sum_bytes = 4,
                               .converts = bytes < 4,
                               .x_align = v->align,
                               .y_align = v->align};
  falt_cuda_kernel k = {.source = "cuda_separable_25d.cu", .entry = "falt_separable_25d"};
  falt_separable_25d m;
  assert_true(falt_separable_25d_choose(&p, &h200, &m));
  filter_defines(&k, p.taps, v->terms, v->boundary, element_of(v->type), v->type);
  falt_cuda_define(&k, "FAR=%d", v->boundary == 2);
  falt_separable_25d_defines(&k, &p, &m);
  return k;
}

static void test_compile(UNUSED void **state) {
  static const shape shapes[] = {
      {17, 17, 1, 1, 3, FALT_F32, 16}, {25, 13, 1, 1, 2, FALT_F32, 16}, {9, 9, 1, 3, 0, FALT_F32, 16},
      {3, 31, 1, 1, 4, FALT_F32, 1},   {11, 11, 2, 1, 1, FALT_F32, 4},  {13, 13, 4, 1, 0, FALT_F32, 16},
      {33, 17, 1, 1, 2, FALT_F32, 16}, {17, 17, 1, 1, 0, FALT_F32, 16}, {13, 13, 1, 3, 3, FALT_U8, 16},
      {13, 13, 1, 3, 0, FALT_U8, 4},   {5, 5, 1, 4, 2, FALT_U8, 8},     {13, 13, 1, 3, 4, FALT_F16, 8},
      {3, 25, 2, 2, 0, FALT_U16, 8},   {25, 9, 1, 1, 1, FALT_S8, 16},   {9, 9, 1, 3, 4, FALT_BF16, 2},
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice),         cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_alignment),      cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_estimates_grow), cmocka_unit_test(test_rejected),
                                     cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
