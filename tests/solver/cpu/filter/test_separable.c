/* The separable solver against the reference: random problems of every kind, every instruction set and 1 to 3 threads
 * with equal bits, refusals with their reasons. FALTUNG_TEST_COUNT and FALTUNG_TEST_SEED change how many and which. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "faltung/faltung.h"
#include "isa_devices.h"
#include "problem/problem.h"
#include "solver/cpu/filter/filter_along.h"

enum { COUNT = 600 };
/* --------------------------------------------------------------------------------------------- random problems */

typedef struct sample {
  falt_problem problem;
  falt_budget budget;
  double *dense; /* the filter, T x R x S */
  void *filter, *input, *expected, *output;
  int64_t output_bytes;
  double scale; /* sum |w| * max |x|, what errors are relative to */
} sample;

static int64_t pick(uint64_t *seed, int64_t low, int64_t high) {
  return falt_random_int(seed, low, high);
}

/* Rows with gaps, every second element, rows from the bottom up: whatever strides can say. */
static void stretch(falt_tensor *t, bool interleaved, uint64_t *seed) {
  const int64_t every = pick(seed, 0, 5) == 0 ? 2 : 1, gap = pick(seed, 0, 2) == 0 ? pick(seed, 1, 9) : 0;
  t->stride[FALT_C] = 1;
  t->stride[FALT_G] = interleaved ? 1 : 0;
  t->stride[FALT_W] = interleaved ? t->size[FALT_G] : every;
  t->stride[FALT_H] = t->size[FALT_W] * t->stride[FALT_W] + gap;
  t->stride[FALT_D] = t->size[FALT_H] * t->stride[FALT_H] + gap;
  int64_t image = t->size[FALT_D] * t->stride[FALT_D];
  if (!interleaved) {
    t->stride[FALT_G] = image;
    image *= t->size[FALT_G];
  }
  t->stride[FALT_N] = image;
  t->offset = 0;
  for (int dim = FALT_D; dim <= FALT_W; dim++) {
    if (pick(seed, 0, 7) > 0) continue;
    t->offset += (t->size[dim] - 1) * t->stride[dim];
    t->stride[dim] = -t->stride[dim];
  }
}

static void random_axis(falt_problem *p, int i, uint64_t *seed) {
  const bool absent = i < 3 - p->space;
  p->input.size[FALT_D + i] = absent ? 1 : pick(seed, 1, pick(seed, 0, 2) ? 24 : i == 2 ? 150 : 60);
  p->filter.size[FALT_D + i] = absent ? 1 : pick(seed, 1, pick(seed, 0, 3) ? 5 : 13);
  falt_axis *axis = &p->axis[i];
  if (absent) return;
  axis->stride = pick(seed, 0, 2) ? 1 : pick(seed, 1, 4);
  axis->dilation = pick(seed, 0, 2) ? 1 : pick(seed, 1, 4);
  const int64_t extent = falt_extent(axis, p->filter.size[FALT_D + i]);
  for (int side = 0; side < 2; side++) {
    axis->boundary[side] = (falt_boundary)pick(seed, 0, FALT_BOUNDARY_COUNT - 1);
    axis->pad[side] = pick(seed, 0, 4) ? pick(seed, 0, extent) : pick(seed, -2, 3 * extent);
  }
}

/* A sum of outer products: integers, or reals rounded as the filter's type rounds. */
static void random_filter(sample *s, bool integers, int rank, uint64_t *seed) {
  const int64_t *size = s->problem.filter.size + FALT_D, plane = size[1] * size[2], count = size[0] * plane;
  double *v = calloc((size_t)(size[0] + size[1] + size[2]), sizeof *v);
  s->dense = calloc((size_t)count, sizeof *s->dense);
  for (int k = 0; k < rank; k++) {
    for (int64_t i = 0; i < size[0] + size[1] + size[2]; i++)
      v[i] = integers ? (double)pick(seed, -2, 3) : 2 * falt_random_unit(seed) - 1;
    for (int64_t i = 0; i < count; i++)
      s->dense[i] += v[i / plane] * v[size[0] + i / size[2] % size[1]] * v[size[0] + size[1] + i % size[2]];
  }
  free(v);
  falt_tensor *t = &s->problem.filter;
  const bool flip = pick(seed, 0, 1);
  t->stride[FALT_W] = flip ? -1 : 1;
  t->stride[FALT_H] = flip ? -size[2] : size[2];
  t->stride[FALT_D] = flip ? -plane : plane;
  t->offset = flip ? count - 1 : 0;
  s->filter = malloc((size_t)count * falt_type_size(t->type));
  for (int64_t i = 0; i < count; i++) falt_store(s->filter, t->type, flip ? count - 1 - i : i, s->dense[i]);
}

static void random_epilogue(falt_problem *p, uint64_t *seed) {
  static const falt_activation acts[] = {FALT_IDENTITY, FALT_IDENTITY, FALT_RELU, FALT_RELU6, FALT_CLIP};
  p->alpha = pick(seed, 0, 2) ? 1 : 0.0625;
  p->beta = pick(seed, 0, 2) ? 0 : 3;
  p->activation = acts[pick(seed, 0, 4)];
  p->act_a = p->activation == FALT_CLIP ? -10 : 0;
  p->act_b = p->activation == FALT_CLIP ? 90 : 0;
}

static void random_types(falt_problem *p, bool integers, uint64_t *seed) {
  static const falt_type types[] = {FALT_F32, FALT_U8, FALT_S16, FALT_U16, FALT_F64, FALT_S8, FALT_F16, FALT_BF16};
  p->input.type = p->output.type = types[pick(seed, 0, 7)];
  if (pick(seed, 0, 3) == 0) p->output.type = types[pick(seed, 0, 4)];
  if (p->input.type == FALT_U8 && pick(seed, 0, 3) == 0) p->output.type = FALT_S32;
  p->accumulator = p->input.type == FALT_F64 || p->output.type == FALT_F64 ? FALT_F64 : FALT_F32;
  p->filter.type = integers && pick(seed, 0, 1) ? FALT_S32 : p->accumulator;
}

static double sum_abs(const double *a, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += fabs(a[i]);
  return sum;
}

static void allocate(sample *s, uint64_t *seed) {
  const falt_problem *p = &s->problem;
  const int64_t elements = falt_tensor_span(&p->input);
  s->input = malloc((size_t)elements * falt_type_size(p->input.type));
  falt_random_fill(s->input, p->input.type, elements, *seed);
  double largest = fabs(p->boundary_value);
  for (int64_t i = 0; i < elements; i++) largest = fmax(largest, fabs(falt_load(s->input, p->input.type, i)));
  s->scale = largest * sum_abs(s->dense, p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W]);
  s->output_bytes = falt_tensor_span(&p->output) * (int64_t)falt_type_size(p->output.type);
  s->expected = malloc((size_t)s->output_bytes);
  s->output = malloc((size_t)s->output_bytes);
}

/* False if the random sizes make no problem. */
static bool random_sample(sample *s, uint64_t *seed) {
  memset(s, 0, sizeof *s);
  falt_problem *p = &s->problem;
  falt_problem_default(p);
  falt_budget_default(&s->budget);
  const bool integers = pick(seed, 0, 1), interleaved = pick(seed, 0, 2) == 0;
  p->is_filter = true;
  p->space = pick(seed, 0, 2) ? 2 : 3;
  random_types(p, integers, seed);
  for (int i = 0; i < 3; i++) random_axis(p, i, seed);
  p->input.size[FALT_N] = pick(seed, 0, 3) ? 1 : 2;
  p->input.size[FALT_G] = p->filter.size[FALT_G] = interleaved ? pick(seed, 1, 4) : pick(seed, 0, 2) ? 1 : 3;
  p->filter.stride[FALT_G] = 0;
  p->boundary_value = (double)pick(seed, 0, 2) * 1.5;
  if (falt_type_is_integer(p->input.type)) p->boundary_value = (double)pick(seed, 0, 9);
  random_epilogue(p, seed);
  stretch(&p->input, interleaved, seed);
  if (falt_problem_output(p) != FALT_OK) return false;
  stretch(&p->output, interleaved, seed);
  random_filter(s, integers, integers ? 1 : (int)pick(seed, 1, 2), seed);
  allocate(s, seed);
  return falt_problem_check(p) == FALT_OK;
}

static void free_sample(sample *s) {
  free(s->dense);
  free(s->filter);
  free(s->input);
  free(s->expected);
  free(s->output);
}

/* -------------------------------------------------------------------------------------------------- comparison */

/* Status of planning; runs if that went well. */
static falt_status run(sample *s, falt_device *device, const char *method, void *output) {
  falt_plan *plan = NULL;
  snprintf(s->budget.method, sizeof s->budget.method, "%s", method);
  falt_status status = falt_plan_create(&plan, device, &s->problem, &s->budget, s->filter);
  if (status != FALT_OK) return status;
  memset(output, 0xa5, (size_t)s->output_bytes);
  void *workspace = falt_alloc(falt_plan_workspace(plan));
  memset(workspace, 0xa5, falt_plan_workspace(plan));
  const falt_operands operands = {.input = s->input, .filter = s->filter, .output = output, .workspace = workspace};
  status = falt_execute(plan, &operands);
  assert_int_equal(status, FALT_OK);
  falt_free(workspace);
  falt_plan_destroy(&plan);
  return FALT_OK;
}

static bool near(const sample *s, double value, double expected) {
  const falt_problem *p = &s->problem;
  if (value == expected) return true;
  const double epsilon = p->accumulator == FALT_F64 ? 1e-14 : 2e-6;
  double allowed = epsilon * (fabs(p->alpha) * s->scale + fabs(p->beta));
  if (falt_type_is_integer(p->output.type))
    allowed = falt_type_is_integer(p->input.type) && s->dense[0] == nearbyint(s->dense[0]) ? 0 : allowed + 1;
  else
    allowed += 2 * falt_type_epsilon(p->output.type) * fabs(expected);
  return fabs(value - expected) <= allowed;
}

/* Index of the first wrong output element, or -1; makes *output equal to expected where it is near. */
static int64_t first_wrong(sample *s) {
  const falt_tensor *t = &s->problem.output;
  const int64_t *z = t->size;
  const int64_t count = z[0] * z[1] * z[2] * z[3] * z[4] * z[5];
  for (int64_t i = 0; i < count; i++) {
    const int64_t at =
        falt_tensor_at(t, i / (z[1] * z[2] * z[3] * z[4] * z[5]), i / (z[2] * z[3] * z[4] * z[5]) % z[1],
                       i / (z[3] * z[4] * z[5]) % z[2], i / (z[4] * z[5]) % z[3], i / z[5] % z[4], i % z[5]);
    const double value = falt_load(s->output, t->type, at), expected = falt_load(s->expected, t->type, at);
    if (!near(s, value, expected)) {
      print_message("element %lld: %.17g, not %.17g (sums up to %g)\n", (long long)i, value, expected, s->scale);
      return i;
    }
    falt_store(s->output, t->type, at, expected);
  }
  return -1;
}

static void fail_on(const sample *s, uint64_t seed, const char *what) {
  char line[600];
  falt_problem_print(&s->problem, NULL, line, sizeof line);
  fail_msg("seed %llu, %s: %s", (unsigned long long)seed, what, line);
}

static uint64_t setting(const char *name, uint64_t usual) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : usual;
}

static void equals_the_reference(void **state) {
  (void)state;
  const uint64_t first = setting("FALTUNG_TEST_SEED", 1), count = setting("FALTUNG_TEST_COUNT", COUNT);
  int64_t compared = 0, here = 0; /* of the instruction sets that this machine runs */
  for (uint64_t seed = first; seed < first + count; seed++) {
    sample s;
    uint64_t random = seed;
    const int isa = (int)(seed % FALT_ISA_COUNT);
    here += devices[isa][0] != NULL;
    if (random_sample(&s, &random) && devices[isa][0] &&
        run(&s, devices[isa][seed % THREADS], "separable", s.output) == FALT_OK) {
      assert_int_equal(run(&s, devices[isa][0], "reference", s.expected), FALT_OK);
      if (first_wrong(&s) >= 0) fail_on(&s, seed, falt_isa_name((falt_isa)isa));
      if (memcmp(s.output, s.expected, (size_t)s.output_bytes) != 0) fail_on(&s, seed, "wrote beside the output");
      compared++;
    }
    free_sample(&s);
  }
  print_message("%lld problems compared\n", (long long)compared);
  assert_true(here < 100 || compared > here / 4);
}

/* Whatever cuts the work, each sum is the same chain: equal bits for 1 to 3 threads and for small workspaces. */
static void gives_equal_bits(void **state) {
  (void)state;
  const int isa = (int)falt_isa_best();
  int compared = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    sample s;
    uint64_t random = seed + 5000;
    if (random_sample(&s, &random) && run(&s, devices[isa][0], "separable", s.expected) == FALT_OK) {
      for (int i = 1; i < THREADS; i++) {
        assert_int_equal(run(&s, devices[isa][i], "separable", s.output), FALT_OK);
        assert_memory_equal(s.output, s.expected, (size_t)s.output_bytes);
      }
      compared++;
    }
    free_sample(&s);
  }
  assert_true(compared > 10);
}

/* The kernel along rows gives the bits of `single`, whatever the steps, sizes and flags. */
static void sums_along_rows(void **state) {
  (void)state;
  enum { MOST = 512, ROWS = 3, TAPS = 70 };
  const falt_filter_kernels *kernels = falt_filter_kernels_for(falt_isa_best());
  float *in = falt_alloc(ROWS * 2 * MOST * sizeof *in), *out = falt_alloc(2 * ROWS * MOST * sizeof *out), taps[TAPS];
  falt_random_fill(in, FALT_F32, ROWS * 2 * MOST, 1);
  falt_random_fill(taps, FALT_F32, TAPS, 2);
  for (uint64_t seed = 1; seed <= 400; seed++) {
    uint64_t random = seed;
    falt_filter_along *along =
        falt_filter_along_for(kernels->isa, FALT_LANE_F32, 1 + (int64_t)(seed % FALT_FILTER_ALONG_MOST));
    if (!along) break;
    const int64_t n = FALT_FILTER_ALONG_STEP * pick(&random, 1, MOST / FALT_FILTER_ALONG_STEP);
    const int64_t odd = n < MOST ? pick(&random, 0, 1) : 0;
    falt_random_fill(out, FALT_F32, ROWS * MOST, seed);
    memcpy(out + ROWS * MOST, out, ROWS * MOST * sizeof *out);
    const void *rows[ROWS];
    void *sums[2 * ROWS];
    for (int i = 0; i < 2 * ROWS; i++) {
      rows[i % ROWS] = in + i % ROWS * 2 * MOST;
      sums[i] = out + i * MOST + odd;
    }
    falt_filter_rows call = {.rows = rows, .taps = taps, .out = sums, .n = n, .planes = 1, .r = 1};
    call.step = 1 + (int64_t)(seed % FALT_FILTER_ALONG_MOST);
    call.s = (int)pick(&random, 1, TAPS);
    call.accumulate = pick(&random, 0, 1);
    call.stream = pick(&random, 0, 1);
    along(&call, ROWS);
    for (int i = 0; i < ROWS; i++) {
      call.rows = rows + i;
      call.out = sums + ROWS + i;
      kernels->single[FALT_LANE_F32](&call);
    }
    assert_memory_equal(out, out + ROWS * MOST, ROWS * MOST * sizeof *out);
  }
  falt_free(in);
  falt_free(out);
}

/* Long rows go through the kernel along rows in their middle: the same bits at any address, and no others written. */
static void sums_long_rows(void **state) {
  (void)state;
  enum { MOST = 4096, TAPS = 70, ODD = 16 };
  const falt_filter_kernels *kernels = falt_filter_kernels_for(falt_isa_best());
  float *out = falt_alloc(2 * (MOST + ODD) * sizeof *out), taps[TAPS];
  falt_random_fill(taps, FALT_F32, TAPS, 2);
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    const int64_t n = pick(&random, 900, MOST), before = pick(&random, 0, ODD), after = pick(&random, 0, ODD);
    falt_filter_rows call = {.taps = taps, .n = n, .planes = 1, .r = 1};
    call.s = (int)pick(&random, 1, TAPS);
    call.step = pick(&random, 0, 3) == 0 ? 2 : 1;
    call.accumulate = pick(&random, 0, 1);
    call.stream = pick(&random, 0, 1);
    const int64_t count = before + n + (call.s - 1) * call.step;
    float *in = malloc((size_t)count * sizeof *in); /* so that a sanitizer sees where it ends */
    falt_random_fill(in, FALT_F32, count, seed);
    falt_random_fill(out, FALT_F32, MOST + ODD, seed);
    memcpy(out + MOST + ODD, out, (MOST + ODD) * sizeof *out);
    call.rows = (const void *const[]){in + before};
    call.out = (void *const[]){out + after};
    falt_filter_single(kernels, FALT_LANE_F32, &call);
    call.out = (void *const[]){out + MOST + ODD + after};
    kernels->single[FALT_LANE_F32](&call);
    assert_memory_equal(out, out + MOST + ODD, (MOST + ODD) * sizeof *out);
    free(in);
  }
  falt_free(out);
}

/* ------------------------------------------------------------------------------------------------- named cases */

static void parsed(sample *s, const char *line, const double *dense, uint64_t seed) {
  memset(s, 0, sizeof *s);
  assert_int_equal(falt_problem_parse(&s->problem, &s->budget, line), FALT_OK);
  const falt_tensor *t = &s->problem.filter;
  const int64_t count = t->size[FALT_D] * t->size[FALT_H] * t->size[FALT_W];
  s->dense = malloc((size_t)count * sizeof *dense);
  memcpy(s->dense, dense, (size_t)count * sizeof *dense);
  s->filter = malloc((size_t)count * falt_type_size(t->type));
  for (int64_t i = 0; i < count; i++) falt_store(s->filter, t->type, i, dense[i]);
  allocate(s, &seed);
}

static void smooths_bytes_exactly(void **state) {
  (void)state;
  static const double taps[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
  static const char *const lines[] = {
      "correlate h=37 w=1050 r=3 s=3 boundary=reflect101 type=u8 alpha=0.0625",
      "correlate h=37 w=1050 pixel=3 r=3 s=3 boundary=wrap type=u8 alpha=0.0625",
      "correlate h=70 w=5000 r=3 s=3 boundary=symmetric type=u16 alpha=0.0625",
      "correlate h=9 w=1 r=3 s=3 boundary=edge type=u8 out-type=s16",
  };
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < 4 && devices[isa][1]; i++) {
      sample s;
      parsed(&s, lines[i], taps, 11);
      assert_int_equal(run(&s, devices[isa][1], "separable", s.output), FALT_OK);
      assert_int_equal(run(&s, devices[isa][1], "reference", s.expected), FALT_OK);
      assert_memory_equal(s.output, s.expected, (size_t)s.output_bytes);
      free_sample(&s);
    }
}

static void obeys_small_workspaces(void **state) {
  (void)state;
  double taps[9 * 21];
  for (int i = 0; i < 189; i++) taps[i] = exp(-0.05 * (i % 21 - 10) * (i % 21 - 10)) * (1 + i / 21);
  sample s;
  parsed(&s, "correlate h=130 w=9000 r=9 s=21 boundary=wrap type=f32", taps, 5);
  falt_device *device = devices[falt_isa_best()][1];
  assert_int_equal(run(&s, device, "separable", s.expected), FALT_OK);
  int obeyed = 0;
  for (int64_t limit = 1 << 20; limit >= 0; limit = limit > 1 ? limit / 2 : limit - 1) {
    s.budget.max_workspace = limit;
    const falt_status status = run(&s, device, "separable", s.output);
    assert_true(status == FALT_OK || status == FALT_OVER_BUDGET || status == FALT_NO_SOLVER);
    if (status != FALT_OK) continue;
    obeyed++;
    assert_memory_equal(s.output, s.expected, (size_t)s.output_bytes);
  }
  assert_true(obeyed > 3);
  free_sample(&s);
}

static void trades_error_for_terms(void **state) {
  (void)state;
  double taps[15 * 15];
  for (int i = 0; i < 225; i++) {
    const double x = i % 15 - 7, y = i / 15 - 7;
    taps[i] = exp(-(x * x + y * y) / 18) * (1 + 1e-3 * x * y / 49);
  }
  sample s;
  parsed(&s, "correlate h=64 w=64 r=15 s=15 boundary=edge type=f32", taps, 5);
  falt_device *device = devices[falt_isa_best()][0];
  for (int i = 0; i < 2; i++) {
    falt_plan *plan = NULL;
    char text[200];
    snprintf(s.budget.method, sizeof s.budget.method, "separable");
    s.budget.max_error = i * 1e-2;
    assert_int_equal(falt_plan_create(&plan, device, &s.problem, &s.budget, s.filter), FALT_OK);
    falt_plan_print(plan, text, sizeof text);
    assert_non_null(strstr(text, i ? "rank=1 15x15" : "rank=2 15x15"));
    falt_plan_destroy(&plan);
  }
  free_sample(&s);
}

static void refuses_with_a_reason(void **state) {
  (void)state;
  double identity[25] = {0}, endless[25] = {INFINITY}, flat[25];
  for (int i = 0; i < 25; i++) {
    identity[i] = i % 6 == 0;
    flat[i] = 1;
  }
  const struct {
    const char *line;
    const double *taps;
    const char *reason;
  } cases[] = {
      {"correlate h=9 w=9 r=5 s=5 type=f32", identity, "rank is above 2"},
      {"correlate h=9 w=9 r=5 s=5 type=f32", endless, "infinite"},
      {"correlate h=9 w=9 r=1 s=5 type=f32", flat, "one axis only"},
      {"correlate w=9 s=5 type=f32", flat, "one axis only"},
      {"correlate h=9 w=9 r=2 s=2 type=f32", flat, "so small"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sample s;
    parsed(&s, cases[i].line, cases[i].taps, 1);
    assert_int_equal(run(&s, devices[0][0], "separable", s.output), FALT_NO_SOLVER);
    if (!strstr(falt_message(), cases[i].reason)) fail_msg("%s: %s", cases[i].line, falt_message());
    free_sample(&s);
  }
}

static void survives_lack_of_memory(void **state) {
  (void)state;
  double taps[25];
  for (int i = 0; i < 25; i++) taps[i] = 0.1 * (1 + i / 5) * (1 + i % 5);
  sample s;
  parsed(&s, "correlate h=9 w=9 r=5 s=5 type=f32", taps, 1);
  falt_status status = FALT_NO_MEMORY;
  for (int n = 0; status != FALT_OK; n++) {
    assert_true(n < 50);
    falt_plan *plan = NULL;
    snprintf(s.budget.method, sizeof s.budget.method, "separable");
    falt_alloc_fail_after(n);
    status = falt_plan_create(&plan, devices[0][0], &s.problem, &s.budget, s.filter);
    falt_alloc_fail_after(-1);
    assert_true(status == FALT_OK || status == FALT_NO_MEMORY);
    falt_plan_destroy(&plan);
  }
  free_sample(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_reference),    cmocka_unit_test(gives_equal_bits),
      cmocka_unit_test(smooths_bytes_exactly),   cmocka_unit_test(obeys_small_workspaces),
      cmocka_unit_test(trades_error_for_terms),  cmocka_unit_test(refuses_with_a_reason),
      cmocka_unit_test(survives_lack_of_memory), cmocka_unit_test(sums_along_rows),
      cmocka_unit_test(sums_long_rows),
  };
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
