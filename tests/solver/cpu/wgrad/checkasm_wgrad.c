/* Every outer-product kernel of every instruction set that this machine runs, against what
 * solver/cpu/wgrad/wgrad_kernels.h says, and timed.
 *
 * Sums are checked against a plain sum in f64, and their bits against a call of its own for each row. Pixels, the panel
 * and what is transposed end at a page that cannot be read. FALT_SEED chooses another seed; FALT_BENCH=1 prints the
 * speed of each instruction set. */
#include "checkasm.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

enum { DEPTH = 70, MOST_ROWS = 16, FIRST = 20, ROUNDS = 400, SUMS = MOST_ROWS * FALT_LAYER_WIDEST };

/* ---- sums */

static float *pixels, *panel; /* each with room for the largest call, at the end of its memory */

static void check_outer(const falt_outer_kernels *kernels, int width) {
  static _Alignas(64) float old[SUMS + 1], sums[SUMS + 1];
  const float *list[DEPTH];
  falt_outer call = {.a = list, .first = pick(0, FIRST), .out = sums, .depth = pick(1, DEPTH)};
  call.vectors = pick(1, FALT_LAYER_VECTORS);
  while (!kernels->rows[call.vectors]) call.vectors--;
  call.rows = pick(1, kernels->rows[call.vectors]);
  call.accumulate = pick(0, 1);
  const int64_t pitch = (int64_t)call.vectors * width, read = call.first + call.rows;
  float *b = panel + DEPTH * FALT_LAYER_WIDEST - call.depth * pitch;
  fill(b, call.depth * pitch);
  fill(old, SUMS + 1);
  memcpy(sums, old, sizeof sums);
  call.b = b;
  for (int64_t j = 0; j < call.depth; j++) list[j] = pixels + (FIRST + MOST_ROWS) * pick(1, DEPTH) - read;
  kernels->outer(&call);
  for (int64_t m = 0; m < call.rows; m++) {
    _Alignas(64) float alone[FALT_LAYER_WIDEST];
    falt_outer row = call;
    memcpy(alone, old + m * pitch, (size_t)pitch * sizeof *alone);
    row.first += m;
    row.rows = 1;
    row.out = alone;
    kernels->outer(&row);
    assert_memory_equal(alone, sums + m * pitch, (size_t)pitch * sizeof *alone);
    for (int64_t i = 0; i < pitch; i++) {
      double sum = call.accumulate ? (double)old[m * pitch + i] : 0;
      for (int64_t j = 0; j < call.depth; j++) sum += (double)list[j][call.first + m] * (double)b[j * pitch + i];
      assert_true(fabs(sum - (double)alone[i]) <= (double)(call.depth + 1) * 0x1p-22);
    }
  }
  for (int64_t i = call.rows * pitch; i <= SUMS; i++) assert_true(sums[i] == old[i]);
}

/* ---- dot products: lanes against sums in f64, and against calls of one row and one column */

static double lane_of(const falt_dots *call, int64_t m, int64_t i, int width, int l) {
  double sum = 0;
  for (int64_t s = 0; s < call->segments; s++)
    for (int64_t j = l; j < call->depth; j += width)
      sum += (double)call->a[s * call->a_pitch + m][j] * (double)call->b[s * call->b_apart + i * call->b_pitch + j];
  return sum;
}

static void check_dots(const falt_outer_kernels *kernels, int width) {
  enum { SEGMENTS = 3, LANES = 16, LONG = 100 };
  static _Alignas(64) float old[MOST_ROWS * 8 * LANES + 1], sums[MOST_ROWS * 8 * LANES + 1];
  static float *x, *y;
  const float *list[SEGMENTS * MOST_ROWS];
  if (!x) x = guarded_floats(LONG), y = guarded_floats(SEGMENTS * 8 * LONG);
  falt_dots call = {.a = list, .out = sums, .segments = pick(1, SEGMENTS), .depth = pick(1, LONG - 10)};
  call.a_pitch = MOST_ROWS;
  call.rows = pick(1, kernels->dot_rows);
  call.columns = pick(0, 1) ? kernels->dot_columns : 1;
  call.pitch = call.columns + pick(0, 2);
  call.accumulate = pick(0, 1);
  call.b_pitch = call.depth + pick(0, 10);
  call.b_apart = call.columns * call.b_pitch;
  const int64_t read = call.segments * call.b_apart - call.b_pitch + call.depth;
  float *b = y + SEGMENTS * 8 * LONG - read;
  call.b = b;
  fill(b, read);
  fill(x, LONG);
  for (int i = 0; i < SEGMENTS * MOST_ROWS; i++) list[i] = x + pick(0, LONG - (int)call.depth);
  fill(old, MOST_ROWS * 8 * LANES + 1);
  memcpy(sums, old, sizeof sums);
  kernels->dots(&call);
  for (int64_t at = 0; at <= MOST_ROWS * 8 * LANES; at++) {
    const int64_t m = at / width / call.pitch, i = at / width % call.pitch, l = at % width;
    if (m >= call.rows || i >= call.columns) {
      assert_true(sums[at] == old[at]);
      continue;
    }
    const double before = call.accumulate ? (double)old[at] : 0;
    const double sum = before + lane_of(&call, m, i, width, (int)l);
    assert_true(fabs(sum - (double)sums[at]) <= (double)(call.segments * call.depth + 1) * 0x1p-22);
    if (l > 0) continue;
    _Alignas(64) float alone[LANES];
    falt_dots one = call;
    memcpy(alone, old + at, (size_t)width * sizeof *alone);
    one.a += m;
    one.b += i * call.b_pitch;
    one.out = alone;
    one.rows = one.columns = 1;
    kernels->dots(&one);
    assert_memory_equal(alone, sums + at, (size_t)width * sizeof *alone);
  }
}

/* ---- transposing */

static void check_transpose(const falt_outer_kernels *kernels) {
  enum { MOST = 150, PAD = 9 };
  static float *in, to[MOST * (MOST + PAD)];
  if (!in) in = guarded_floats(MOST * (MOST + PAD));
  const int64_t n = pick(1, MOST), count = pick(1, MOST), from_pitch = count + pick(0, PAD),
                to_pitch = n + pick(0, PAD);
  const int64_t read = (n - 1) * from_pitch + count;
  float *from = in + MOST * (MOST + PAD) - read;
  fill(from, read);
  for (int64_t i = 0; i < MOST * (MOST + PAD); i++) to[i] = 9;
  kernels->transpose(&(falt_transpose){from, to, from_pitch, to_pitch, n, count});
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < to_pitch; i++) assert_true(to[j * to_pitch + i] == (i < n ? from[i * from_pitch + j] : 9));
}

/* ---- instruction sets */

static void bench(const falt_outer_kernels *kernels, int isa, int width) {
  enum { PIXEL = 64, POSITIONS = 64, CALLS = 20000 };
  static _Alignas(64) float x[PIXEL * POSITIONS], b[POSITIONS * FALT_LAYER_WIDEST], sums[SUMS];
  const float *list[POSITIONS];
  for (int p = 0; p < POSITIONS; p++) list[p] = x + p * PIXEL;
  for (int vectors = 1; vectors <= FALT_LAYER_VECTORS && kernels->rows[vectors]; vectors++) {
    const falt_outer call = {.a = list,
                             .b = b,
                             .out = sums,
                             .depth = POSITIONS,
                             .rows = kernels->rows[vectors],
                             .vectors = vectors,
                             .accumulate = true};
    const double start = falt_seconds();
    for (int i = 0; i < CALLS; i++) kernels->outer(&call);
    const double flops = 2.0 * CALLS * POSITIONS * call.rows * vectors * width;
    printf("%-8s outer %dx%d %6.1f GFLOP/s\n", falt_isa_name((falt_isa)isa), call.rows, vectors * width,
           flops / (falt_seconds() - start) * 1e-9);
  }
}

static void each_isa(void (*check)(const falt_outer_kernels *kernels, int isa, int width)) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (falt_isa_runs((falt_isa)isa))
      check(falt_outer_kernels_for((falt_isa)isa), isa, falt_layer_kernels_for((falt_isa)isa)->width);
}

static void outer_rounds(const falt_outer_kernels *kernels, int isa, int width) {
  (void)isa;
  for (int round = 0; round < ROUNDS; round++) check_outer(kernels, width);
}
static void dots_rounds(const falt_outer_kernels *kernels, int isa, int width) {
  (void)isa;
  for (int round = 0; round < ROUNDS; round++) check_dots(kernels, width);
}
static void transpose_rounds(const falt_outer_kernels *kernels, int isa, int width) {
  (void)isa;
  (void)width;
  for (int round = 0; round < ROUNDS / 4; round++) check_transpose(kernels);
}

static void test_outer(void **state) {
  (void)state;
  pixels = guarded_floats((FIRST + MOST_ROWS) * DEPTH);
  panel = guarded_floats(DEPTH * FALT_LAYER_WIDEST);
  fill(pixels, (FIRST + MOST_ROWS) * DEPTH);
  each_isa(outer_rounds);
}
static void test_dots(void **state) {
  (void)state;
  each_isa(dots_rounds);
}
static void test_transpose(void **state) {
  (void)state;
  each_isa(transpose_rounds);
}

int main(void) {
  set_seed(20261121);
  if (getenv("FALT_BENCH")) each_isa(bench);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_outer), cmocka_unit_test(test_dots),
                                     cmocka_unit_test(test_transpose)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
