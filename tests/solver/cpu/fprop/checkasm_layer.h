/* Every layer kernel of one lane and of every instruction set that this machine runs, against what
 * solver/cpu/fprop/layer_kernels.h says, and timed. Define LANE_BITS before including it.
 *
 * Products are checked against a plain sum in f64, and their bits against a call with one row and one column. Rows, the
 * panel and what is copied end at a page that cannot be read; outputs lie between canaries. FALT_SEED chooses another
 * seed; FALT_BENCH=1 prints the speed of each instruction set. */
#ifndef FALT_TESTS_CHECKASM_LAYER_H
#define FALT_TESTS_CHECKASM_LAYER_H

#include "checkasm.h"
#include "solver/cpu/fprop/layer_kernels.h"

#if LANE_BITS == 32
typedef float lane;
#define ULP 0x1p-24
#define TABLE falt_layer_kernels_for
#else
typedef double lane;
#define ULP 0x1p-53
#define TABLE falt_layer_kernels_f64_for
#endif

static void fill_lanes(lane *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (lane)random_number();
}

static lane *lanes_before_guard(const guarded *g, int i, int64_t n) {
  return (lane *)(void *)before_guard(g, i, (size_t)n * sizeof(lane));
}

enum {
  ROWS = FALT_LAYER_ROWS,
  WIDEST = FALT_LAYER_WIDEST,
  SEGMENTS = 5,
  DEPTH = 40,
  ROUNDS = 400,
  PITCH = 100,
  SKIP = 40
};

/* ---- products */

typedef struct trial {
  const falt_layer_kernels *kernels;
  falt_layer_product call;
  guarded rows[ROWS], panel;
  const void *a[SEGMENTS * ROWS];
  int64_t at[SEGMENTS];            /* of those that are there, the segments that are summed */
  falt_layer_jump jumps[SEGMENTS]; /* to them */
  int64_t apart;                   /* elements between segments of the panel */
  lane old[ROWS][PITCH], results[ROWS][PITCH];
  void *out[ROWS];
} trial;

static int64_t panel_pitch(const trial *t) {
  const int64_t width = t->kernels->width;
  return (t->call.n + width - 1) / width * width + t->call.b_skip;
}

/* Where a segment of the panel begins. */
static int64_t segment_at(const trial *t, int64_t segment) {
  return segment * (t->call.depth * panel_pitch(t) + t->apart);
}

/* Some of the segments, perhaps none, and jumps to them; or the first ones without any. */
static void choose_segments(trial *t) {
  falt_layer_product *c = &t->call;
  const bool jumps = pick(0, 1);
  const int64_t first = pick(1, SEGMENTS);
  t->apart = jumps * pick(0, 1) * pick(0, SKIP);
  c->jumps = jumps ? t->jumps : NULL;
  c->segments = 0;
  for (int64_t s = 0, next = 0; s < SEGMENTS; s++) {
    if (jumps ? !pick(0, 1) : s >= first) continue;
    const int64_t there = next == 0 ? 0 : segment_at(t, next - 1) + c->depth * panel_pitch(t);
    t->jumps[c->segments] = (falt_layer_jump){(s - next) * c->a_pitch, segment_at(t, s) - there};
    t->at[c->segments++] = s;
    next = s + 1;
  }
}

/* Segments of a row lie in any order, and overlap. */
static void set_product(trial *t) {
  falt_layer_product *c = &t->call;
  const int vectors = pick(1, t->kernels->vectors);
  *c = (falt_layer_product){.a = t->a,
                            .out = t->out,
                            .offset = pick(0, 5),
                            .depth = pick(1, DEPTH),
                            .a_pitch = ROWS,
                            .skip = pick(0, 2),
                            .b_skip = pick(0, 1) * pick(0, SKIP),
                            .n = (vectors - 1) * t->kernels->width + pick(1, t->kernels->width),
                            .rows = pick(1, t->kernels->rows[vectors]),
                            .accumulate = pick(0, 1)};
  if (pick(0, 1)) c->chain = c->depth;
  choose_segments(t);
  const int64_t segments = c->segments > 0 ? t->at[c->segments - 1] + 1 : 0; /* that are there */
  for (int m = 0; m < c->rows; m++) {
    const int64_t read = (c->depth - 1) * (1 + c->skip) + 1, length = read + pick(0, 20);
    lane *row = lanes_before_guard(&t->rows[m], 0, length);
    fill_lanes(row, length);
    for (int64_t s = 0; s < segments; s++) t->a[s * c->a_pitch + m] = row + pick(0, (int)(length - read)) - c->offset;
    fill_lanes(t->old[m], PITCH);
    memcpy(t->results[m], t->old[m], sizeof t->old[m]);
    t->out[m] = t->results[m] + pick(0, PITCH - WIDEST);
  }
  const int64_t floats = segments > 0 ? segment_at(t, segments) - t->apart - c->b_skip : 0;
  lane *panel = lanes_before_guard(&t->panel, 0, floats);
  fill_lanes(panel, floats);
  c->b = panel;
}

static double expected(const trial *t, int m, int64_t i, double old) {
  const falt_layer_product *c = &t->call;
  double sum = c->accumulate ? old : 0;
  for (int64_t s = 0; s < c->segments; s++)
    for (int64_t j = 0; j < c->depth; j++)
      sum += (double)((const lane *)t->a[t->at[s] * c->a_pitch + m])[c->offset + j * (1 + c->skip)] *
             (double)((const lane *)c->b)[segment_at(t, t->at[s]) + j * panel_pitch(t) + i];
  return sum;
}

/* The same element from a call of its own, over a panel with this column alone. */
static lane alone(const trial *t, int m, int64_t i, lane old) {
  static _Alignas(64) lane column[SEGMENTS * DEPTH * WIDEST];
  const falt_layer_product *c = &t->call;
  const void *a[SEGMENTS];
  void *out[1] = {&old};
  for (int64_t s = 0; s < c->segments; s++) {
    const lane *b = (const lane *)c->b + segment_at(t, t->at[s]) + i;
    lane *to = column + s * c->depth * t->kernels->width;
    a[s] = t->a[t->at[s] * c->a_pitch + m];
    for (int64_t j = 0; j < c->depth; j++) to[j * t->kernels->width] = b[j * panel_pitch(t)];
  }
  t->kernels->product(&(falt_layer_product){.a = a,
                                            .b = column,
                                            .out = out,
                                            .offset = c->offset,
                                            .skip = c->skip,
                                            .a_pitch = 1,
                                            .segments = c->segments,
                                            .depth = c->depth,
                                            .n = 1,
                                            .rows = 1,
                                            .accumulate = c->accumulate,
                                            .chain = c->chain});
  return old;
}

static void check_product(trial *t) {
  const falt_layer_product *c = &t->call;
  set_product(t);
  const double tolerance = (double)(c->segments * c->depth + 1) * 4 * ULP;
  t->kernels->product(c);
  for (int m = 0; m < c->rows; m++) {
    const int64_t first = (const lane *)t->out[m] - t->results[m];
    for (int64_t i = 0; i < PITCH; i++) {
      const lane old = t->old[m][i], got = t->results[m][i];
      if (i < first || i >= first + c->n) {
        assert_true(got == old);
      } else {
        assert_true(fabs((double)got - expected(t, m, i - first, (double)old)) <= tolerance);
        assert_true(got == alone(t, m, i - first, old));
      }
    }
  }
}

static void check_products(const falt_layer_kernels *kernels) {
  static trial t;
  t.kernels = kernels;
  t.panel = guard(1, SEGMENTS * (DEPTH * (WIDEST + SKIP) + SKIP) * sizeof(lane));
  for (int m = 0; m < ROWS; m++) t.rows[m] = guard(1, (3 * DEPTH + 20) * sizeof(lane));
  for (int round = 0; round < ROUNDS; round++) check_product(&t);
  for (int m = 0; m < ROWS; m++) unguard(&t.rows[m]);
  unguard(&t.panel);
}

/* ---- products of small groups: against a product for each of them */

static void check_groups_once(const falt_layer_kernels *kernels, const guarded *rows) {
  static _Alignas(64) lane panel[SEGMENTS * DEPTH * WIDEST], column[SEGMENTS * DEPTH * WIDEST];
  lane sums[ROWS][WIDEST];
  void *out[ROWS];
  const void *a[SEGMENTS * ROWS], *shifted[SEGMENTS];
  const int results = pick(1, kernels->width), depth = pick(1, kernels->width);
  const int most = kernels->width / (results > depth ? results : depth), width = kernels->width;
  falt_layer_product call = {.a = a,
                             .b = panel,
                             .out = out,
                             .a_pitch = ROWS,
                             .offset = pick(0, 3),
                             .segments = pick(1, SEGMENTS),
                             .depth = depth,
                             .n = results * pick(1, most),
                             .rows = pick(1, kernels->group_rows),
                             .results = results};
  const int64_t span = call.n / results * depth;
  fill_lanes(panel, call.segments * depth * width);
  for (int m = 0; m < call.rows; m++) {
    lane *row = lanes_before_guard(&rows[m], 0, call.offset + span);
    fill_lanes(row, call.offset + span);
    for (int64_t s = 0; s < call.segments; s++) a[s * ROWS + m] = row;
    out[m] = sums[m];
    sums[m][call.n] = 9;
  }
  kernels->groups(&call);
  for (int m = 0; m < call.rows; m++) {
    for (int64_t i = 0; i < call.n; i++) {
      lane alone;
      void *to = &alone;
      for (int64_t s = 0; s < call.segments; s++)
        shifted[s] = (const lane *)a[s * ROWS + m] + call.offset + i / results * depth;
      for (int64_t j = 0; j < call.segments * depth; j++) column[j * width] = panel[j * width + i];
      kernels->product(&(falt_layer_product){.a = shifted,
                                             .a_pitch = 1,
                                             .b = column,
                                             .out = &to,
                                             .segments = call.segments,
                                             .depth = depth,
                                             .n = 1,
                                             .rows = 1});
      assert_true(sums[m][i] == alone);
    }
    assert_true(sums[m][call.n] == 9 || call.n == WIDEST);
  }
}

static void check_groups(const falt_layer_kernels *kernels) {
  guarded rows[ROWS];
  for (int m = 0; m < ROWS; m++) rows[m] = guard(1, 4096);
  for (int round = 0; round < ROUNDS; round++) check_groups_once(kernels, rows);
  for (int m = 0; m < ROWS; m++) unguard(&rows[m]);
}

/* ---- copies */

/* Elements that count items `pitch` apart of n elements `step` apart span. */
static int64_t span_of(int64_t count, int64_t pitch, int64_t n, int64_t step) {
  return (count - 1) * labs(pitch) + (n - 1) * labs(step) + 1;
}

/* The first of them, where steps may go backwards. */
static int64_t first_of(int64_t count, int64_t pitch, int64_t n, int64_t step) {
  return (pitch < 0 ? (count - 1) * -pitch : 0) + (step < 0 ? (n - 1) * -step : 0);
}

/* Copies of rows, transposes whose columns go forwards or backwards, and others. */
static falt_layer_copy random_copy(void) {
  const bool transposes = pick(0, 1);
  falt_layer_copy c = {.n = pick(1, 70), .count = pick(1, transposes ? 140 : 5)};
  c.step = transposes ? pick(-150, 150) : pick(-4, 4);
  c.from_pitch = transposes ? 2 * pick(0, 1) - 1 : pick(-80, 80);
  c.to_pitch = (c.n + pick(0, 9)) * (2 * pick(0, 1) - 1);
  return c;
}

static void check_copy(const falt_layer_kernels *kernels, const guarded *in, const guarded *out) {
  falt_layer_copy c = random_copy();
  const int64_t read = span_of(c.count, c.from_pitch, c.n, c.step), apart = labs(c.to_pitch);
  const int64_t written = (c.count - 1) * apart + c.n;
  lane *from = lanes_before_guard(in, 0, read), *to = lanes_before_guard(out, 0, written);
  fill_lanes(from, read);
  for (int64_t i = -1; i < written; i++) to[i] = 9;
  const lane *first = from + first_of(c.count, c.from_pitch, c.n, c.step);
  lane *out_first = to + (c.to_pitch < 0 ? (c.count - 1) * apart : 0);
  c.from = first;
  c.to = out_first;
  kernels->copy(&c);
  for (int64_t j = 0; j < c.count; j++)
    for (int64_t i = 0; i < c.n; i++)
      assert_true(out_first[j * c.to_pitch + i] == first[j * c.from_pitch + i * c.step]);
  for (int64_t i = 0; i < written; i++) assert_true(i % apart < c.n || to[i] == 9);
  assert_true(to[-1] == 9);
}

static void check_copies(const falt_layer_kernels *kernels) {
  guarded in = guard(1, sizeof(lane) << 14), out = guard(1, sizeof(lane) << 14);
  for (int round = 0; round < 4 * ROUNDS; round++) check_copy(kernels, &in, &out);
  unguard(&in);
  unguard(&out);
}

/* ---- sums that overlap */

static void check_overlap(const falt_layer_kernels *kernels, const guarded *in, const guarded *out) {
  const int64_t n = pick(1, 70), step = pick(1, 80), count = pick(1, 20), pitch = n + pick(0, 9);
  const int64_t read = (count - 1) * pitch + n, written = (count - 1) * step + n;
  lane *from = lanes_before_guard(in, 0, read), *to = lanes_before_guard(out, 0, written);
  double sums[4096] = {0};
  fill_lanes(from, read);
  fill_lanes(to - 1, written + 1);
  const lane before = to[-1];
  for (int64_t i = 0; i < written; i++) sums[i] = (double)to[i];
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < n; i++) sums[j * step + i] += (double)from[j * pitch + i];
  kernels->overlap(&(falt_layer_overlap){from, to, pitch, step, n, count});
  for (int64_t i = 0; i < written; i++) assert_true(fabs(sums[i] - (double)to[i]) <= (double)(n / step + 2) * 4 * ULP);
  assert_true(to[-1] == before);
}

static void check_overlaps(const falt_layer_kernels *kernels) {
  guarded in = guard(1, 1 << 14), out = guard(1, 1 << 14);
  for (int round = 0; round < ROUNDS; round++) check_overlap(kernels, &in, &out);
  unguard(&in);
  unguard(&out);
}

/* ---- sums out */

static double bend(falt_activation activation, double slope, double x) {
  switch (activation) {
    case FALT_LEAKY:
      return x < 0 ? slope * x : x;
    case FALT_SILU:
      return x / (1 + exp(-x));
    case FALT_GELU:
      return x / 2 * (1 + erf(x * sqrt(0.5)));
    case FALT_SIGMOID:
      return 1 / (1 + exp(-x));
    case FALT_TANH:
      return tanh(x);
    default:
      return x;
  }
}

/* What rounding of the sum and a curve's few last places may cost: relative to x where the curve goes through 0. */
static double finish_tolerance(falt_activation activation, double x, double size) {
  return 4 * ULP * size + 8 * ULP * (activation == FALT_SIGMOID ? 1 : fabs(x));
}

static void check_finish(const falt_layer_kernels *kernels, bool by_row) {
  static lane sums[ROWS * WIDEST], more[ROWS * WIDEST], results[ROWS * WIDEST], scale[WIDEST], offset[WIDEST];
  const double low = pick(0, 1) ? 0 : -INFINITY, high = pick(0, 1) ? 0.5 : INFINITY, slope = 0.25;
  const void *residual[ROWS];
  void *out[ROWS];
  falt_layer_finish call = {.sums = sums, .out = out, .scale = scale, .offset = offset, .pitch = WIDEST};
  call.n = pick(1, WIDEST);
  call.rows = pick(1, ROWS);
  call.low = falt_layer_number_of(kernels, low);
  call.high = falt_layer_number_of(kernels, high);
  call.curve = (falt_activation)pick(0, FALT_ACTIVATION_COUNT - 1);
  call.slope = falt_layer_number_of(kernels, slope);
  if (pick(0, 1)) call.residual = residual;
  fill_lanes(sums, ROWS * WIDEST);
  fill_lanes(more, ROWS * WIDEST);
  fill_lanes(scale, WIDEST);
  fill_lanes(offset, WIDEST);
  for (int i = 0; i < WIDEST; i++) scale[i] *= (lane)(pick(0, 3) ? 1 : pick(1, 100));
  sums[pick(0, (int)call.n - 1)] = NAN;
  for (int m = 0; m < call.rows; m++) {
    out[m] = results + m * WIDEST;
    residual[m] = more + m * WIDEST;
    results[m * WIDEST + WIDEST - 1] = 9;
  }
  (by_row ? kernels->finish_by_row : kernels->finish_by_column)(&call);
  for (int m = 0; m < call.rows; m++)
    for (int64_t i = 0; i < call.n; i++) {
      const int64_t channel = by_row ? m : i;
      double x = (double)scale[channel] * (double)sums[m * WIDEST + i] + (double)offset[channel];
      const double size = fabs(x) + 2 * fabs((double)offset[channel]) + 2;
      if (call.residual) x += (double)more[m * WIDEST + i];
      double y = bend(call.curve, slope, x);
      y = y < low ? low : y > high ? high : y;
      const double got = (double)results[m * WIDEST + i];
      assert_true(isnan(y) ? isnan(got) : fabs(y - got) <= finish_tolerance(call.curve, x, size));
    }
  for (int m = 0; m < call.rows && call.n < WIDEST; m++) assert_true(results[m * WIDEST + WIDEST - 1] == 9);
}

static void check_finishes(const falt_layer_kernels *kernels) {
  for (int round = 0; round < ROUNDS; round++) check_finish(kernels, round % 2 == 0);
}

/* ---- timing */

static void time_product(const falt_layer_kernels *kernels, int vectors, int64_t depth) {
  static _Alignas(64) lane panel[256 * WIDEST], rows[ROWS][256], sums[ROWS][WIDEST];
  const void *a[ROWS];
  void *out[ROWS];
  for (int m = 0; m < ROWS; m++) {
    a[m] = rows[m];
    out[m] = sums[m];
    fill_lanes(rows[m], depth);
  }
  fill_lanes(panel, depth * WIDEST);
  const falt_layer_product call = {.a = a,
                                   .b = panel,
                                   .out = out,
                                   .segments = 1,
                                   .depth = depth,
                                   .n = vectors * kernels->width,
                                   .rows = kernels->rows[vectors]};
  double best = INFINITY;
  for (int repeat = 0; repeat < 50; repeat++) {
    const double start = falt_seconds();
    for (int i = 0; i < 100; i++) kernels->product(&call);
    best = fmin(best, (falt_seconds() - start) / 100);
  }
  printf("  %2dx%-2d %6.1f", call.rows, (int)call.n, 2.0 * call.rows * (double)(call.n * depth) / best * 1e-9);
}

/* A panel of `WIDEST` columns from as many rows of `depth`. */
static void time_transpose(const falt_layer_kernels *kernels, int64_t depth) {
  static lane rows[256 * WIDEST], panel[256 * WIDEST];
  const falt_layer_copy call = {
      .from = rows, .to = panel, .step = depth, .from_pitch = 1, .to_pitch = WIDEST, .n = WIDEST, .count = depth};
  double best = INFINITY;
  fill_lanes(rows, depth * WIDEST);
  for (int repeat = 0; repeat < 50; repeat++) {
    const double start = falt_seconds();
    for (int i = 0; i < 10; i++) kernels->copy(&call);
    best = fmin(best, (falt_seconds() - start) / 10);
  }
  printf("  transpose %5.1f GB/s", (double)(depth * WIDEST) * sizeof(lane) / best * 1e-9);
}

static void bench(const falt_layer_kernels *kernels, falt_isa isa) {
  printf("%-9s", falt_isa_name(isa));
  for (int vectors = 1; vectors <= kernels->vectors; vectors++) time_product(kernels, vectors, 256);
  printf(" GFLOP/s");
  time_transpose(kernels, 240);
  printf("\n");
}

/* ---- tests */

static const falt_layer_kernels *table_of(int isa) {
  const falt_layer_kernels *kernels = TABLE((falt_isa)isa);
  const bool own = isa == 0 || kernels != TABLE((falt_isa)(isa - 1));
  return own && falt_isa_runs((falt_isa)isa) ? kernels : NULL;
}

static void each_table(void (*check)(const falt_layer_kernels *)) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check(table_of(isa));
}

static void test_product(void **state) {
  (void)state;
  each_table(check_products);
}
static void test_groups(void **state) {
  (void)state;
  each_table(check_groups);
}
static void test_copy(void **state) {
  (void)state;
  each_table(check_copies);
}
static void test_overlap(void **state) {
  (void)state;
  each_table(check_overlaps);
}
static void test_finish(void **state) {
  (void)state;
  each_table(check_finishes);
}

static int check_all(void) {
  set_seed(20261121);
  for (int isa = 0; isa < FALT_ISA_COUNT && getenv("FALT_BENCH"); isa++)
    if (table_of(isa)) bench(table_of(isa), (falt_isa)isa);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_product), cmocka_unit_test(test_groups),
                                     cmocka_unit_test(test_copy), cmocka_unit_test(test_overlap),
                                     cmocka_unit_test(test_finish)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
