/* Tests of the tile search of cuda-running-sums and of its compiled kernels; no GPU needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compile_kernels.h"
#include "solver/cuda/running_sums/cuda_running_sums_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_running_pass box(int rows, int columns, int64_t height, int64_t width) {
  return (falt_running_pass){.taps = {rows, columns},
                             .pad = {rows / 2, columns / 2},
                             .stride = {1, 1},
                             .pixel = 1,
                             .step = 1,
                             .in = {height, width},
                             .out = {height, width},
                             .planes = 1,
                             .x_bytes = 4,
                             .y_bytes = 4,
                             .sum_bytes = 4};
}

/* ---- shapes */

/* Strips and bands cover the outputs, a strip's input is staged, and whole chunks are in the row's memory. */
static void check_tile(void *context, const void *candidate) {
  const falt_running_tile *t = candidate;
  tally *sum = context;
  const falt_running_pass *p = sum->problem;
  if (t->rejected) return;
  const int64_t outputs = (t->strip / p->pixel - 1) * p->stride[1] + 1;
  const int64_t own = (outputs * p->pixel + (p->taps[1] - 1) * p->step);
  count_legal(sum, t->seconds);
  assert_true(t->strips * t->strip >= p->out[1] && (t->strips - 1) * t->strip < p->out[1]);
  assert_true(t->bands * t->band >= p->out[0] && (t->bands - 1) * t->band < p->out[0]);
  assert_true(t->strips == 1 || (t->strip % t->vector == 0 && t->strip % p->pixel == 0));
  assert_true(t->columns >= own && t->columns % t->vector == 0 && t->pitch >= t->columns && t->pitch % t->vector == 0);
  assert_true(p->taps[0] == 1 || t->columns == t->warps * 32 * t->vector);
  assert_true(t->chunk[1] % 2 == 1 && t->chunk[0] >= 1);
  assert_true(t->shared_bytes <= h200.arch->block_shared && t->blocks >= 1 && t->blocks * t->warps <= 64);
}

static falt_running_tile choose(const falt_running_pass *p) {
  falt_running_tile best;
  tally sum = {.problem = p};
  falt_running_each(p, &h200, &(falt_tile_search){.visit = check_tile, .context = &sum});
  if (!falt_running_choose(p, &h200, &best))
    fail_msg("%dx%d of %d bytes, pixel %d: %s", p->taps[0], p->taps[1], p->x_bytes, p->pixel, best.rejected);
  check_best(&sum, best.seconds);
  return best;
}

static void test_kinds(UNUSED void **state) {
  static const int bytes[] = {1, 2, 4, 8}, taps[] = {1, 2, 5, 16, 31, 301, 2001};
  for (int k = 0; k < 7 * 7; k++)
    for (int x = 0; x < 4; x++) {
      const int64_t size = 100 + 977 * (k % 3);
      falt_running_pass p = box(taps[k / 7], taps[k % 7], size, size + 1);
      if (k == 0 || (taps[k / 7] > 301 && taps[k % 7] > 1) || (taps[k % 7] > 301 && taps[k / 7] > 1)) continue;
      p.x_bytes = p.y_bytes = bytes[x];
      p.sum_bytes = x == 3 ? 8 : 4;
      if (x == 3 && taps[k % 7] > 301) continue;
      choose(&p);
      p.stride[0] = 2;
      p.stride[1] = 3;
      p.out[0] = (size + 1) / 2;
      p.out[1] = (size + 3) / 3;
      choose(&p);
      p = box(taps[k / 7], taps[k % 7] > 31 ? 31 : taps[k % 7], size, 3 * size);
      p.pixel = 3;
      p.step = 6;
      p.ends[1] = p.taps[1] > 4;
      choose(&p);
    }
}

/* The time does not depend on the box where its halo is small beside the image. */
static void test_estimates(UNUSED void **state) {
  const falt_running_pass small = box(9, 1, 1 << 16, 1 << 14), large = box(301, 1, 1 << 16, 1 << 14);
  assert_true(choose(&large).seconds < 1.7 * choose(&small).seconds);
  const falt_running_pass signal = box(1, 9, 1, 1 << 26), longer = box(1, 1001, 1, 1 << 26);
  assert_true(choose(&longer).seconds < 1.7 * choose(&signal).seconds);
  const falt_running_pass longest = box(1, 20001, 1, 50000);
  choose(&longest);
}

/* A row of sums that does not fit into shared memory. */
static void test_rejected(UNUSED void **state) {
  const falt_running_pass p = box(1, 200000, 1, 1 << 24), q = box(60000, 1, 1 << 16, 1 << 10);
  falt_running_tile best;
  assert_false(falt_running_choose(&p, &h200, &best));
  assert_non_null(strstr(best.rejected, "shared memory"));
  assert_false(falt_running_choose(&q, &h200, &best));
  assert_non_null(strstr(best.rejected, "shared memory"));
}

/* ---- kernels */

typedef struct variant {
  int rows, columns;
  const char *element, *sum, *real;
  falt_type type;
  int boundary, pixel, stride, ends;
} variant;

static falt_cuda_kernel kernel_of(const variant *v) {
  falt_cuda_kernel k = {.source = "cuda_running_sums.cu", .entry = "falt_running_sums"};
  falt_running_pass p = box(v->rows, v->columns, 4096, 4096 * v->pixel);
  p.pixel = p.step = v->pixel;
  p.x_bytes = p.y_bytes = (int)falt_type_size(v->type);
  p.sum_bytes = strcmp(v->sum, "double") == 0 ? 8 : 4;
  p.ends[0] = v->ends && v->rows > 4;
  p.ends[1] = v->ends && v->columns > 4;
  for (int i = 0; i < 2; i++) p.stride[i] = v->stride, p.out[i] /= v->stride;
  const falt_running_tile t = choose(&p);
  falt_running_defines(&k, &p, &t);
  falt_cuda_define(&k, "AXIS_R=%d,%d", v->boundary, v->boundary);
  falt_cuda_define(&k, "AXIS_S=%d,%d", v->boundary, v->boundary);
  falt_cuda_define(&k, "FAR=%d", v->boundary == 2);
  falt_cuda_define(&k, "ELEMENT_X=%s", v->element);
  falt_cuda_define(&k, "ELEMENT_Y=%s", v->element);
  falt_cuda_define(&k, "TYPE_X=%d", (int)v->type);
  falt_cuda_define(&k, "TYPE_Y=%d", (int)v->type);
  falt_cuda_define(&k, "SUM=%s", v->sum);
  falt_cuda_define(&k, "REAL=%s", v->real);
  falt_cuda_define(&k, "WEIGHTED=%d", strcmp(v->sum, "int") != 0);
  return k;
}

static void test_compile(UNUSED void **state) {
  static const variant variants[] = {
      {31, 31, "float", "float", "float", FALT_F32, 3, 1, 1, 0},
      {301, 301, "float", "float", "float", FALT_F32, 2, 1, 1, 0},
      {1, 20001, "float", "float", "float", FALT_F32, 1, 1, 1, 0},
      {31, 31, "unsigned char", "int", "float", FALT_U8, 3, 1, 1, 0},
      {301, 301, "unsigned char", "int", "double", FALT_U8, 1, 3, 1, 0},
      {3, 5, "unsigned short", "int", "double", FALT_U16, 4, 1, 1, 0},
      {41, 41, "float", "float", "float", FALT_F32, 4, 1, 1, 1},
      {101, 1, "float", "float", "float", FALT_F32, 3, 1, 1, 0},
      {1, 1001, "float", "float", "float", FALT_F32, 3, 1, 1, 0},
      {1, 77, "unsigned short", "float", "float", FALT_BF16, 0, 1, 1, 1},
      {16, 9, "unsigned short", "float", "float", FALT_F16, 0, 3, 2, 0},
      {31, 31, "double", "double", "double", FALT_F64, 2, 1, 1, 0},
      {301, 1, "int", "int", "int", FALT_S32, 1, 1, 1, 0},
      {33, 65, "double", "double", "double", FALT_F64, 0, 2, 3, 1},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
      if (!is_turn(a, i)) continue;
      const falt_cuda_kernel kernel = kernel_of(&variants[i]);
      compile(&kernel, architectures[a], 208, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_estimates),
                                     cmocka_unit_test(test_rejected), cmocka_unit_test(test_compile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
