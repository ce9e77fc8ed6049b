/* Tests of the tile search of the FFT solvers on GPUs, of their twiddles, and of their compiled kernels; no GPU
 * needed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "compile_kernels.h"
#include "core/types.h"
#include "solver/cuda/fft/cuda_fft_tiles.h"
#include "tile_tally.h"

#define UNUSED __attribute__((unused))

static falt_cuda_fft_problem filter(const int64_t out[3], const int64_t taps[3]) {
  falt_cuda_fft_problem p = {.filters = 1,
                             .images = 1,
                             .real_bytes = 4,
                             .x_bytes = 4,
                             .y_bytes = 4,
                             .x_step = 1,
                             .y_step = 1,
                             .known = true,
                             .most_bytes = -1,
                             .cache_bytes_per_s = 1.6 * h200.bytes_per_s};
  for (int i = 0; i < 3; i++) {
    p.in[i] = p.out[i] = out[i];
    p.pad[i] = taps[i] / 2;
    p.zeros[i] = true;
    p.taps[i] = taps[i];
    p.stride[i] = p.dilation[i] = 1;
  }
  return p;
}

/* ---- tiles */

/* Outputs of a tile whose parts' last taps are inside it, and all taps and outputs in some part and tile. */
static void check_axis(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t, int i) {
  const int64_t length = INT64_C(1) << t->log[i], reach = (t->part_taps[i] - 1) * p->dilation[i];
  assert_true(t->part_taps[i] >= 1 && t->block[i] >= 1);
  assert_true((t->block[i] - 1) * p->stride[i] + reach < length);
  assert_true(t->parts[i] * t->part_taps[i] >= p->taps[i] && (t->parts[i] - 1) * t->part_taps[i] < p->taps[i]);
  assert_true(t->tiles[i] * t->block[i] >= p->out[i] && (t->tiles[i] - 1) * t->block[i] < p->out[i]);
}

static void check_tile(void *context, const void *candidate) {
  const falt_cuda_fft_tile *t = candidate;
  tally *sum = context;
  const falt_cuda_fft_problem *p = sum->problem;
  const int log = t->log[0] + t->log[1] + t->log[2];
  for (int i = 0; i < 3; i++) check_axis(p, t, i);
  assert_true(t->threads * 16 == 1 << log && t->threads >= 32 && t->threads <= 1024);
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(t->blocks >= 1 && t->blocks <= 32 && t->threads * t->blocks <= 1024);
  assert_true(t->shared_bytes <= sum->machine->arch->block_shared);
  assert_true(t->shared_bytes >= (int64_t)2 * p->real_bytes << log);
  assert_true(t->pairs * 2 >= t->boxes && t->boxes == p->images * t->tiles[0] * t->tiles[1] * t->tiles[2]);
}

/* The best of a method's tiles, after all are checked. */
static falt_cuda_fft_tile choose_by(falt_cuda_fft_method *method, const falt_cuda_fft_problem *p,
                                    const falt_machine *machine, void (*check_one)(void *sum, const void *tile)) {
  falt_cuda_fft_tile best;
  tally sum = {.problem = p, .machine = machine};
  method(p, machine, &(falt_tile_search){.visit = check_one, .context = &sum});
  assert_true(falt_cuda_fft_choose(method, p, machine, &best));
  check_best(&sum, best.seconds);
  return best;
}

static falt_cuda_fft_tile choose(const falt_cuda_fft_problem *p, const falt_machine *machine) {
  return choose_by(falt_cuda_fft_each, p, machine, check_tile);
}

/* Every tile of many sizes, on large and small GPUs. */
static void test_tiles(UNUSED void **state) {
  static const falt_machine machines[] = {H200, A100, L4, RTX5090};
  static const int64_t sizes[] = {1, 7, 100, 4096}, taps[] = {1, 2, 31, 64, 65, 1000};
  for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
    for (size_t i = 0; i < 4 * 6; i++) {
      falt_cuda_fft_problem p = filter((int64_t[]){1, sizes[i % 4], 4096}, (int64_t[]){1, taps[i / 4], taps[i % 6]});
      p.stride[2] = 1 + (int64_t)i % 3;
      p.dilation[1] = 1 + (int64_t)i % 5;
      p.real_bytes = i % 2 ? 8 : 4;
      choose(&p, &machines[m]);
    }
}

static void test_long(UNUSED void **state) {
  const falt_cuda_fft_problem million = filter((int64_t[]){1, 1, 1 << 26}, (int64_t[]){1, 1, 1 << 20});
  const falt_cuda_fft_tile t = choose(&million, &h200);
  assert_true(t.all_parts > 1 && t.log[2] == 14);
  falt_cuda_fft_problem apart = filter((int64_t[]){1, 1, 1000}, (int64_t[]){1, 1, 3});
  apart.dilation[2] = 1 << 20; /* one tap a part */
  assert_int_equal(choose(&apart, &h200).all_parts, 3);
}

/* The limits of memory, and of the arithmetic of transforms at the machine's peak. */
static void test_estimate(UNUSED void **state) {
  for (int64_t taps = 31; taps <= 127; taps = 2 * taps + 1) {
    const falt_cuda_fft_problem p = filter((int64_t[]){1, 4096, 4096}, (int64_t[]){1, taps, taps});
    const falt_cuda_fft_tile t = choose(&p, &h200);
    const double points = ldexp(1, t.log[0] + t.log[1] + t.log[2]), parts = (double)t.all_parts;
    assert_true(t.seconds >= 8 * 4096.0 * 4096 / h200.bytes_per_s);
    assert_true(t.seconds >= (double)t.pairs * (parts + 1) * points * 4 * 14 / (h200.flops / 2));
    assert_true(t.seconds < 2 * 4096.0 * 4096 * (double)(taps * taps) / h200.flops);
  }
}

static void test_workspace(UNUSED void **state) {
  falt_cuda_fft_problem p = filter((int64_t[]){1, 512, 512}, (int64_t[]){1, 31, 31});
  falt_cuda_fft_tile best;
  p.known = false;
  p.most_bytes = 60000;
  const falt_cuda_fft_tile t = choose(&p, &h200);
  assert_true(falt_cuda_fft_workspace(&p, &t) <= 60000);
  p.most_bytes = 0;
  assert_false(falt_cuda_fft_choose(falt_cuda_fft_each, &p, &h200, &best));
  assert_non_null(strstr(best.rejected, "workspace"));
}

/* ---- kept spectra */

/* Of wgrad a block may do all of a filter: dy and dw are in one tile, and no spectrum is kept. */
static void check_whole(tally *sum, const falt_cuda_fft_tile *t) {
  const falt_cuda_fft_problem *p = sum->problem;
  assert_true(p->wgrad && t->all_parts == 1 && t->pairs == 1 && t->boxes == p->images);
  for (int i = 0; i < 3; i++) assert_int_equal(t->tiles[i], 1);
  assert_true(t->spectra_bytes == 0);
  if (!t->rejected) count_legal(sum, t->seconds);
}

/* Along the axis every input that a tile and a part meet in is one of those kept, and tiles read far enough. */
static void check_kept(void *context, const void *candidate) {
  const falt_cuda_fft_tile *t = candidate;
  tally *sum = context;
  const falt_cuda_fft_problem *p = sum->problem;
  for (int i = 0; i < 3; i++) check_axis(p, t, i);
  const int i = t->axis;
  if (i < 0) {
    check_whole(sum, t);
    return;
  }
  assert_true(i < 3 && t->steps >= 1);
  if (t->parts[i] > 1) assert_true(t->block[i] * p->stride[i] == t->part_taps[i] * p->dilation[i]);
  assert_true(t->inputs == t->steps + t->parts[i] - 1 && t->steps * t->segments >= t->tiles[i]);
  assert_true((t->block[i] - 1) * p->stride[i] + (t->part_taps[i] - 1) * p->dilation[i] + t->shift < 1 << t->log[i]);
  for (int other = 0; other < 3; other++) assert_true(other == i || t->parts[other] == 1);
  if (t->rejected) return;
  count_legal(sum, t->seconds);
  assert_true(t->strands >= 1);
  assert_true(p->most_bytes < 0 || falt_cuda_fft_workspace(p, t) <= (double)p->most_bytes);
  if (p->wgrad) assert_int_equal(t->strands % ((p->images + 1) / 2), 0);
}

static falt_cuda_fft_tile choose_kept(const falt_cuda_fft_problem *p, const falt_machine *machine) {
  return choose_by(p->wgrad ? falt_cuda_fft_each_wgrad : falt_cuda_fft_each_partitioned, p, machine, check_kept);
}

static void test_partitioned(UNUSED void **state) {
  static const falt_machine machines[] = {H200, A100, L4, RTX5090};
  for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
    for (int i = 0; i < 12; i++) {
      falt_cuda_fft_problem p = filter((int64_t[]){30, 100, 3000}, (int64_t[]){i % 3 ? 7 : 1, 1 + 8 * (i % 4), 700});
      p.stride[2] = 1 + i % 3;
      p.dilation[2] = 1 + i % 2;
      p.images = 1 + i;
      p.wgrad = i % 4 == 3;
      p.filters = p.wgrad ? 5 : 1;
      p.real_bytes = i % 2 ? 8 : 4;
      if (p.wgrad) p.out[0] = p.out[1] = p.taps[0] = p.taps[1] = 1;
      choose_kept(&p, &machines[m]);
    }
}

/* Volumes are cut into planes and long layers along the signal. Causal layers begin at a whole number of tiles. */
static void test_kept_axis(UNUSED void **state) {
  const falt_cuda_fft_problem volume = filter((int64_t[]){256, 256, 256}, (int64_t[]){31, 31, 31});
  assert_int_equal(choose_kept(&volume, &h200).axis, 0);
  falt_cuda_fft_problem layer = filter((int64_t[]){1, 1, 1 << 16}, (int64_t[]){1, 1, 1 << 16});
  layer.images = 8;
  layer.filters = 768;
  layer.pad[2] = (1 << 16) - 1;
  const falt_cuda_fft_tile t = choose_kept(&layer, &h200);
  assert_true(t.axis == 2 && t.shift == 1 && t.segments == 1);
  assert_true(t.seconds < choose(&layer, &h200).seconds);
}

static void test_kept_workspace(UNUSED void **state) {
  falt_cuda_fft_problem p = filter((int64_t[]){1, 1, 1 << 20}, (int64_t[]){1, 1, 1 << 15});
  falt_cuda_fft_tile best;
  p.most_bytes = 100 << 20;
  choose_kept(&p, &h200);
  p.most_bytes = 1 << 16;
  assert_false(falt_cuda_fft_choose(falt_cuda_fft_each_partitioned, &p, &h200, &best));
  assert_non_null(strstr(best.rejected, "workspace"));
  p.taps[2] = 1; /* nothing to cut */
  assert_false(falt_cuda_fft_choose(falt_cuda_fft_each_partitioned, &p, &h200, &best));
}

/* ---- twiddles */

/* Each pass's first power is the first root; higher ones are its squares. */
static void test_twiddles(UNUSED void **state) {
  static const int logs[][3] = {{0, 0, 9}, {0, 0, 14}, {0, 7, 7}, {4, 5, 5}, {0, 3, 6}, {9, 0, 0}};
  for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
    const size_t count = falt_cuda_fft_twiddles(logs[i], NULL);
    double *to = falt_alloc((2 * count + 1) * sizeof *to);
    assert_non_null(to);
    to[2 * count] = 17;
    assert_int_equal(falt_cuda_fft_twiddles(logs[i], to), count);
    assert_true(to[2 * count] == 17);
    for (size_t k = 0; k < count; k++) assert_true(fabs(hypot(to[2 * k], to[2 * k + 1]) - 1) < 1e-14);
    falt_free(to);
  }
  assert_int_equal(falt_cuda_fft_twiddles((int[]){0, 0, 9}, NULL), 4 * 32 + 4 * 2);
  assert_int_equal(falt_cuda_fft_twiddles((int[]){0, 7, 7}, NULL), 4 * 8 + 64 + 4 * 4);
}

/* ---- kernels */

typedef struct shape {
  int log[3];
  falt_type type;
  int parts, strided, epilogue, blocks, axis, group, wgrad;
} shape;

static falt_cuda_kernel kernel_of(const shape *s) {
  falt_cuda_kernel k = {.source = s->axis < 0 ? "cuda_fft.cu" : "cuda_fft_partitioned.cu",
                        .entry = s->axis >= 0 ? "falt_fft_keep"
                                 : s->wgrad   ? "falt_fft_wgrad"
                                              : "falt_fft"};
  const bool whole = falt_type_is_integer(s->type), wide = whole || s->type == FALT_F64;
  const falt_cuda_named_define defines[] = {{"LOG_Z", s->log[0]},      {"LOG_Y", s->log[1]},    {"LOG_X", s->log[2]},
                                            {"TYPE_X", s->type},       {"TYPE_Y", s->type},     {"TYPE_W", s->type},
                                            {"PARTS", s->parts},       {"STRIDED", s->strided}, {"WHOLE", whole},
                                            {"EPILOGUE", s->epilogue}, {"BLOCKS", s->blocks},   {"AXIS", s->axis},
                                            {"GROUP", s->group},       {"WGRAD", s->wgrad}};
  falt_cuda_defines(&k, defines, sizeof defines / sizeof *defines);
  falt_cuda_define(&k, "SUM=%s", wide ? "double" : "float");
  return k;
}

/* As large a tile as the GPU's blocks hold, if not the whole. */
static shape fitted(shape s, const char *name) {
  const int number = atoi(name + strlen("sm_")), bytes = s.type == FALT_F64 ? 16 : 8;
  const int most = falt_architecture_of(number / 10, number % 10)->block_shared;
  while ((bytes * 17 / 16) << (s.log[0] + s.log[1] + s.log[2]) > most) s.log[2]--;
  return s;
}

/* Of a filter in parts the sums are in local memory, 16 complex numbers; of wgrad a spectrum is, too. */
static int local_bytes(const shape *s, bool wide) {
  const int numbers = wide ? 256 : 128;
  return s->axis >= 0 ? 0 : s->wgrad ? 2 * numbers : s->parts ? numbers + (wide ? 0 : 16) : 0;
}

static void test_kernels(UNUSED void **state) {
  static const shape shapes[] = {
      {{0, 7, 7}, FALT_F32, 0, 0, 0, 1, -1, 0, 0},  {{0, 0, 14}, FALT_F32, 1, 0, 1, 1, -1, 0, 0},
      {{0, 0, 14}, FALT_F16, 0, 0, 0, 1, -1, 0, 0}, {{0, 7, 7}, FALT_F32, 1, 1, 2, 1, -1, 0, 0},
      {{4, 5, 5}, FALT_F32, 1, 0, 0, 1, -1, 0, 0},  {{0, 0, 11}, FALT_BF16, 0, 1, 2, 8, -1, 0, 0},
      {{0, 0, 13}, FALT_F64, 1, 1, 2, 1, -1, 0, 0}, {{0, 6, 6}, FALT_U8, 0, 0, 0, 2, -1, 0, 0},
      {{0, 4, 5}, FALT_F32, 0, 0, 2, 32, -1, 0, 0}, {{0, 0, 14}, FALT_F16, 0, 0, 0, 1, 2, 16, 0},
      {{0, 7, 7}, FALT_F32, 0, 0, 0, 1, 0, 16, 0},  {{0, 7, 7}, FALT_F32, 0, 1, 2, 1, 1, 8, 0},
      {{0, 0, 13}, FALT_F64, 0, 0, 1, 1, 2, 16, 0}, {{0, 0, 12}, FALT_BF16, 0, 0, 0, 4, 2, 4, 0},
      {{0, 0, 14}, FALT_F16, 0, 0, 0, 1, 2, 1, 1},  {{0, 0, 12}, FALT_F64, 0, 1, 1, 1, 2, 16, 1},
      {{0, 0, 14}, FALT_F16, 0, 0, 0, 1, -1, 0, 1}, {{0, 0, 11}, FALT_F32, 0, 0, 0, 6, -1, 0, 1},
      {{0, 6, 6}, FALT_F64, 0, 1, 1, 1, -1, 0, 1},
  };
  need_compiler();
  for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      if (!is_turn(a, i)) continue;
      const shape s = fitted(shapes[i], architectures[a]);
      const bool wide = s.type == FALT_F64 || s.type == FALT_U8;
      const falt_cuda_kernel kernel = kernel_of(&s);
      compile(&kernel, architectures[a], wide ? 255 : 128, local_bytes(&s, wide));
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles),          cmocka_unit_test(test_long),        cmocka_unit_test(test_estimate),
      cmocka_unit_test(test_workspace),      cmocka_unit_test(test_partitioned), cmocka_unit_test(test_kept_axis),
      cmocka_unit_test(test_kept_workspace), cmocka_unit_test(test_twiddles),    cmocka_unit_test(test_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
