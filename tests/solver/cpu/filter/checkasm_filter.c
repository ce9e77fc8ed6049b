/* Every filter kernel of every instruction set that this machine runs, against what solver/cpu/filter/filter_kernels.h
 * says, and timed.
 *
 * Arithmetic is checked against a plain sum in f64, and its bits against `single`, whatever kernel computed them; loads
 * and stores against falt_load and falt_store. Every row ends at a page that cannot be read, outputs lie between
 * canaries. FALT_SEED chooses another seed; FALT_BENCH=1 prints the time of each kernel beside the portable one's. */
#include "checkasm.h"
#include "solver/cpu/filter/filter_kernels.h"

enum { MOST_ROWS = 96, MOST_OUT = 32, ROW_BYTES = 8192, CANARY = 64, ROUNDS = 300 };

static bool canary_lives(const char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (from[i] != 0x5a) return false;
  return true;
}

static size_t lane_size(falt_lane lane) {
  return lane == FALT_LANE_F32 ? sizeof(float) : sizeof(double);
}
static double lane_get(falt_lane lane, const void *row, int64_t i) {
  return lane == FALT_LANE_F32 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}
static void lane_fill(falt_lane lane, void *row, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double value = random_number();
    if (lane == FALT_LANE_F32)
      ((float *)row)[i] = (float)value;
    else
      ((double *)row)[i] = value;
  }
}

/* ----------------------------------------------------------------------------------------------------- arithmetic */

/* One random call: rows before guards, taps, and two outputs per row (for the kernel and for single). */
typedef struct trial {
  falt_lane lane;
  falt_filter_rows call;
  int out_rows;
  const void *rows[MOST_ROWS];
  void *out[MOST_OUT];
  char taps[8 * 512];
  guarded in, result;
} trial;

static void set_rows(trial *t) {
  falt_filter_rows *c = &t->call;
  int64_t length = c->n + (c->s - 1) * c->step;
  for (int i = 0; i < c->planes * (c->r + t->out_rows - 1); i++) {
    char *row = before_guard(&t->in, i, (size_t)length * lane_size(t->lane));
    lane_fill(t->lane, row, length);
    t->rows[i] = row;
  }
  lane_fill(t->lane, t->taps, c->planes * c->r * c->s);
  c->rows = t->rows;
  c->taps = t->taps;
  c->out = t->out;
  c->prefetch = pick(0, 1) ? t->rows : NULL;
}

/* Outputs of one alignment, or of any, between canaries; old contents for accumulation. */
static void set_out(trial *t) {
  size_t size = lane_size(t->lane), bytes = (size_t)t->call.n * size;
  bool alike = pick(0, 1);
  int shift = pick(0, 15);
  for (int p = 0; p < t->out_rows; p++) {
    size_t after = CANARY + size * (size_t)(alike ? shift : pick(0, 15));
    memset(t->result.base + (size_t)p * t->result.pitch, 0x5a, ROW_BYTES);
    t->out[p] = before_guard(&t->result, p, bytes + after);
    lane_fill(t->lane, t->out[p], t->call.n);
  }
}

static double expected(const trial *t, int p, int64_t x, double old) {
  const falt_filter_rows *c = &t->call;
  double sum = c->accumulate ? old : 0;
  for (int i = 0; i < c->r; i++)
    for (int plane = 0; plane < c->planes; plane++)
      for (int j = 0; j < c->s; j++)
        sum += lane_get(t->lane, t->taps, (plane * c->r + i) * c->s + j) *
               lane_get(t->lane, t->rows[plane * (c->r + t->out_rows - 1) + p + i], x + j * c->step);
  return sum;
}

/* The same row by `single`, from the same old contents. */
static void one_by_one(const falt_filter_kernels *kernels, const trial *t, int p, char *row) {
  const void *rows[MOST_ROWS];
  void *out[1] = {row};
  falt_filter_rows call = t->call;
  for (int plane = 0; plane < call.planes; plane++)
    for (int i = 0; i < call.r; i++) rows[plane * call.r + i] = t->rows[plane * (call.r + t->out_rows - 1) + p + i];
  call.rows = rows;
  call.out = out;
  call.stream = false;
  kernels->single[t->lane](&call);
}

static void check_result(const falt_filter_kernels *kernels, const trial *t, const char *old) {
  size_t size = lane_size(t->lane), bytes = (size_t)t->call.n * size;
  double terms = t->call.planes * t->call.r * t->call.s + 1;
  double tolerance = terms * (t->lane == FALT_LANE_F32 ? 0x1p-24 : 0x1p-53) * 4;
  char *alone = malloc(bytes);
  for (int p = 0; p < t->out_rows; p++) {
    const char *was = old + (size_t)p * bytes, *base = t->result.base + (size_t)p * t->result.pitch;
    for (int64_t x = 0; x < t->call.n; x++)
      assert_true(fabs(lane_get(t->lane, t->out[p], x) - expected(t, p, x, lane_get(t->lane, was, x))) <= tolerance);
    memcpy(alone, was, bytes);
    one_by_one(kernels, t, p, alone);
    assert_memory_equal(alone, t->out[p], bytes);
    const char *out = t->out[p];
    assert_true(canary_lives(base, (size_t)(out - base)));
    assert_true(canary_lives(out + bytes, (size_t)(base + ROW_BYTES - out) - bytes));
  }
  free(alone);
}

static void run_trial(const falt_filter_kernels *kernels, trial *t, void (*kernel)(const falt_filter_rows *)) {
  size_t bytes = (size_t)t->call.n * lane_size(t->lane);
  char *old = malloc(bytes * (size_t)t->out_rows);
  set_rows(t);
  set_out(t);
  for (int p = 0; p < t->out_rows; p++) memcpy(old + (size_t)p * bytes, t->out[p], bytes);
  kernel(&t->call);
  check_result(kernels, t, old);
  free(old);
}

static trial new_trial(falt_lane lane) {
  trial t = {.lane = lane, .in = guard(MOST_ROWS, ROW_BYTES), .result = guard(MOST_OUT, ROW_BYTES)};
  return t;
}
static void end_trial(trial *t) {
  unguard(&t->in);
  unguard(&t->result);
}

static void random_call(trial *t, int most_r, bool accumulate) {
  t->call = (falt_filter_rows){.n = pick(0, 2) ? pick(1, 300) : pick(1, 20),
                               .planes = pick(1, 3),
                               .r = pick(1, most_r),
                               .s = pick(1, 7),
                               .step = pick(1, 9),
                               .accumulate = accumulate && pick(0, 1),
                               .stream = pick(0, 1)};
}

static void check_tile(const falt_filter_kernels *kernels, falt_lane lane) {
  trial t = new_trial(lane);
  for (int round = 0; round < ROUNDS; round++) {
    random_call(&t, 9, true);
    t.out_rows = kernels->tile_rows;
    run_trial(kernels, &t, kernels->tile[lane]);
  }
  end_trial(&t);
}

static void check_single(const falt_filter_kernels *kernels, falt_lane lane) {
  trial t = new_trial(lane);
  for (int round = 0; round < ROUNDS; round++) {
    random_call(&t, 9, true);
    t.out_rows = 1;
    run_trial(kernels, &t, kernels->single[lane]);
  }
  end_trial(&t);
}

static void check_blocked(const falt_filter_kernels *kernels, falt_lane lane) {
  if (kernels->blocked_most < 2) return; /* not built for this instruction set */
  trial t = new_trial(lane);
  for (int round = 0; round < ROUNDS; round++) {
    random_call(&t, 1, false);
    int r = t.call.r = pick(2, kernels->blocked_most);
    t.call.planes = pick(1, 2);
    t.out_rows = t.call.count = pick(1, (MOST_OUT - r + 1) / r - 1) * r + r - 1 + (r == 2 ? 2 : 0);
    run_trial(kernels, &t, kernels->blocked[lane]);
  }
  end_trial(&t);
}

/* ----------------------------------------------------------------------------------------------- loads and stores */

/* Any bits for integers; for floats numbers of every size, infinities and NaN. */
static void fill_elements(void *data, falt_type type, int64_t n) {
  static const double special[] = {0,      -0.0, 0.5,   1.5,   2.5,   -0.5,   255.5,    65519.9,   65520,
                                   6.1e-5, 6e-8, 1e-40, 1e300, -1e30, 3.3e38, INFINITY, -INFINITY, NAN};
  for (int64_t i = 0; i < n; i++) {
    double value = special[pick(0, (int)(sizeof special / sizeof *special) - 1)];
    if (pick(0, 3)) value = (random_number()) * ldexp(1, pick(-30, 34));
    falt_store(data, type, i, value);
  }
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static void check_load(const falt_filter_kernels *kernels, falt_lane lane, falt_type type, guarded *in, guarded *out) {
  static const int64_t strides[] = {1, 1, 2, 3, -1, -2, 0, 5};
  int64_t n = pick(1, 130), stride = strides[pick(0, 7)], span = (stride < 0 ? -stride : stride) * (n - 1) + 1;
  char *data = before_guard(in, 0, (size_t)span * falt_type_size(type));
  size_t bytes = (size_t)n * lane_size(lane);
  fill_elements(data, type, span);
  memset(out->base, 0x5a, ROW_BYTES);
  char *dst = before_guard(out, 0, bytes);
  int64_t first = stride < 0 ? span - 1 : 0;
  kernels->load[lane][type](dst, data + (size_t)first * falt_type_size(type), stride, n);
  for (int64_t i = 0; i < n; i++) {
    double value = falt_load(data, type, first + i * stride);
    assert_true(same(lane_get(lane, dst, i), lane == FALT_LANE_F32 ? (double)(float)value : value));
  }
  assert_true(canary_lives(out->base, ROW_BYTES - bytes));
}

static falt_row_epilogue random_epilogue(bool plain) {
  static const double alphas[] = {1, 0.25, 1.0 / 9, -2, 3e-3}, betas[] = {0, 0, 3.5, -100};
  falt_row_epilogue e = {1, 0, -INFINITY, INFINITY};
  if (plain) return e;
  e.alpha = alphas[pick(0, 4)];
  e.beta = betas[pick(0, 3)];
  if (pick(0, 1)) e.low = pick(0, 1) ? 0 : -2.5;
  if (pick(0, 1)) e.high = pick(0, 1) ? 6 : 70.1;
  return e;
}

/* Integers come out exactly; f32 sums into floats may round alpha*sum + beta and the constants once each. */
static void check_value(falt_lane lane, falt_type type, double sum, const falt_row_epilogue *e, double got) {
  double value = e->alpha * sum + e->beta, wanted;
  char element[8];
  if (value < e->low) value = e->low;
  if (value > e->high) value = e->high;
  falt_store(element, type, 0, value);
  wanted = falt_load(element, type, 0);
  if (same(wanted, got)) return;
  assert_false(falt_type_is_integer(type));
  double slack = (fabs(e->alpha * sum) + fabs(e->beta)) * (lane == FALT_LANE_F32 ? 0x1p-22 : 0x1p-51);
  slack += 2 * fabs(wanted) * falt_type_epsilon(type) + (type == FALT_F16 ? 0x1p-24 : 0x1p-133);
  assert_true(e->alpha != 1 || e->beta != 0 || e->high == 70.1);
  assert_true(fabs(wanted - got) <= slack || isinf(wanted) || isinf(got));
}

static void check_store(const falt_filter_kernels *kernels, falt_lane lane, falt_type type, guarded *in, guarded *out) {
  int64_t n = pick(0, 4) ? pick(1, 130) : pick(600, 1000), stride = pick(0, 1) || n > 130 ? 1 : pick(2, 4);
  size_t size = falt_type_size(type), bytes = (size_t)((n - 1) * stride + 1) * size;
  char *sums = before_guard(in, 0, (size_t)n * lane_size(lane));
  fill_elements(sums, lane == FALT_LANE_F32 ? FALT_F32 : FALT_F64, n);
  memset(out->base, 0x5a, ROW_BYTES);
  char *dst = before_guard(out, 0, bytes + (size_t)pick(0, 9) * size);
  falt_row_epilogue e = random_epilogue(pick(0, 1));
  kernels->store[lane][type](dst, stride, sums, n, &e, pick(0, 1));
  for (int64_t i = 0; i < n; i++) {
    check_value(lane, type, lane_get(lane, sums, i), &e, falt_load(dst, type, i * stride));
    if (i + 1 < n) assert_true(canary_lives(dst + (size_t)(i * stride + 1) * size, (size_t)(stride - 1) * size));
  }
  assert_true(canary_lives(out->base, (size_t)(dst - out->base)));
  assert_true(canary_lives(dst + bytes, (size_t)(out->base + ROW_BYTES - dst) - bytes));
}

static void check_moves(const falt_filter_kernels *kernels, falt_lane lane) {
  guarded in = guard(1, ROW_BYTES), out = guard(1, ROW_BYTES);
  for (int type = 0; type < FALT_TYPE_COUNT; type++)
    for (int round = 0; round < ROUNDS; round++) {
      check_load(kernels, lane, (falt_type)type, &in, &out);
      check_store(kernels, lane, (falt_type)type, &in, &out);
    }
  unguard(&in);
  unguard(&out);
}

/* --------------------------------------------------------------------------------------------------------- timing */

static double time_call(void (*kernel)(const falt_filter_rows *), const falt_filter_rows *call) {
  double best = INFINITY;
  for (int repeat = 0; repeat < 20; repeat++) {
    double start = falt_seconds();
    for (int i = 0; i < 20; i++) kernel(call);
    best = fmin(best, (falt_seconds() - start) / 20);
  }
  return best;
}

static void time_kernels(const falt_filter_kernels *kernels, falt_lane lane, int r, int s) {
  trial t = new_trial(lane);
  t.call = (falt_filter_rows){.n = 960, .planes = 1, .r = r, .s = s, .step = 1};
  t.out_rows = r >= 2 && r <= kernels->blocked_most ? (MOST_OUT - r + 1) / r * r + r - 1 : kernels->tile_rows;
  if (t.out_rows > MOST_OUT) t.out_rows -= r;
  set_rows(&t);
  set_out(&t);
  t.call.count = t.out_rows;
  double flops = 2.0 * r * s * (double)t.call.n, tile = time_call(kernels->tile[lane], &t.call);
  printf("%-9s %s %2dx%-2d single %6.1f  tile %6.1f", falt_isa_name(kernels->isa),
         lane == FALT_LANE_F32 ? "f32" : "f64", r, s, flops / time_call(kernels->single[lane], &t.call) * 1e-9,
         flops * kernels->tile_rows / tile * 1e-9);
  if (r >= 2 && r <= kernels->blocked_most)
    printf("  blocked %6.1f", flops * t.out_rows / time_call(kernels->blocked[lane], &t.call) * 1e-9);
  printf(" GFLOP/s\n");
  end_trial(&t);
}

static void time_moves(const falt_filter_kernels *kernels, falt_lane lane, falt_type type) {
  enum { N = 960 };
  static char element[8 * N], row[8 * N];
  falt_row_epilogue e = random_epilogue(true);
  double start = falt_seconds();
  for (int i = 0; i < 1000; i++) kernels->load[lane][type](row, element, 1, N);
  double load = falt_seconds() - start;
  start = falt_seconds();
  for (int i = 0; i < 1000; i++) kernels->store[lane][type](element, 1, row, N, &e, false);
  double store = falt_seconds() - start;
  printf("%-9s %s %-4s load %6.2f  store %6.2f elements a nanosecond\n", falt_isa_name(kernels->isa),
         lane == FALT_LANE_F32 ? "f32" : "f64", falt_type_name(type), N * 1e-6 / load, N * 1e-6 / store);
}

static void bench(const falt_filter_kernels *kernels) {
  static const int sizes[][2] = {{1, 7}, {1, 31}, {3, 3}, {5, 5}, {7, 7}, {15, 15}, {17, 1}};
  for (int lane = 0; lane < FALT_LANE_COUNT; lane++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      time_kernels(kernels, (falt_lane)lane, sizes[i][0], sizes[i][1]);
    for (int type = 0; type < FALT_TYPE_COUNT; type++) time_moves(kernels, (falt_lane)lane, (falt_type)type);
  }
}

/* ---------------------------------------------------------------------------------------------------------- tests */

static void each_table(void (*check)(const falt_filter_kernels *, falt_lane)) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
    const falt_filter_kernels *kernels = falt_filter_kernels_for((falt_isa)isa);
    if ((int)kernels->isa != isa || !falt_isa_runs((falt_isa)isa)) continue;
    for (int lane = 0; lane < FALT_LANE_COUNT; lane++) check(kernels, (falt_lane)lane);
  }
}

static void test_tile(void **state) {
  (void)state;
  each_table(check_tile);
}
static void test_single(void **state) {
  (void)state;
  each_table(check_single);
}
static void test_blocked(void **state) {
  (void)state;
  each_table(check_blocked);
}
static void test_moves(void **state) {
  (void)state;
  each_table(check_moves);
}

static void test_best_table(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++) assert_true((int)falt_filter_kernels_for((falt_isa)isa)->isa <= isa);
  assert_int_equal(falt_filter_kernels_for(FALT_ISA_PORTABLE)->isa, FALT_ISA_PORTABLE);
}

int main(void) {
  set_seed(20261121);
  if (getenv("FALT_BENCH"))
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
      const falt_filter_kernels *kernels = falt_filter_kernels_for((falt_isa)isa);
      if ((int)kernels->isa == isa && falt_isa_runs((falt_isa)isa)) bench(kernels);
    }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_best_table), cmocka_unit_test(test_single),
                                     cmocka_unit_test(test_tile), cmocka_unit_test(test_blocked),
                                     cmocka_unit_test(test_moves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
