/* Images pushed row by row against the result of the whole image: random filters and layers, pushes of any count,
 * little capacity. Blocks of rows have memory of their own, without a byte to spare: sanitizers see what goes beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "core/sanitize.h"
#include "core/types.h"
#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))
enum { TRIALS = FALT_ANY_SANITIZER ? 400 : 2500, LINES = FALT_ANY_SANITIZER ? 150 : 1000 };

static falt_device *device;
static uint64_t seed;

static int64_t pick(int64_t low, int64_t high) {
  return falt_random_int(&seed, low, high);
}

static bool once_in(int n) {
  return pick(1, n) == 1;
}

/* ---- rows of a tensor */

typedef struct rows_of {
  int64_t pitch, bytes; /* of a row, as the header has them */
  int64_t lowest;       /* bytes to its first element in memory */
} rows_of;

static int dim_of(const falt_problem *p) {
  return FALT_D + 3 - p->space;
}

static rows_of rows_in(const falt_tensor *tensor, int dim) {
  falt_tensor row = *tensor;
  const int64_t element = (int64_t)falt_type_size(tensor->type);
  int64_t span = 1, lowest = tensor->offset;
  for (int i = 0; i < FALT_DIMS; i++) {
    if (i == dim) continue;
    span += (row.size[i] - 1) * llabs(row.stride[i]);
    if (row.stride[i] < 0) lowest += (row.size[i] - 1) * row.stride[i];
  }
  return (rows_of){(tensor->size[dim] == 1 ? span : tensor->stride[dim]) * element, span * element, lowest * element};
}

static size_t block_bytes(const rows_of *r, int64_t count) {
  return count ? (size_t)((count - 1) * r->pitch + r->bytes) : 0;
}

/* ---- a trial */

typedef struct trial {
  falt_problem whole;   /* of the image */
  falt_problem problem; /* for create: of another height, where any is allowed */
  falt_convolver_rows_options options;
  void *filter, *input, *expected, *bias, *scale;
  char name[1200];
} trial;

static void *elements(int64_t count, falt_type type, double low, double high, bool integers) {
  void *data = calloc((size_t)count + 1, falt_type_size(type));
  for (int64_t i = 0; i < count; i++) {
    const double value = low + (high - low) * falt_random_unit(&seed);
    falt_store(data, type, i, integers ? floor(value + 0.5) : value);
  }
  return data;
}

static void compute_expected(trial *t) {
  falt_plan *plan = NULL;
  const falt_tensor *y = &t->whole.output;
  t->expected = calloc((size_t)falt_tensor_span(y), falt_type_size(y->type));
  if (falt_plan_create(&plan, device, &t->whole, &t->options.budget, t->filter) != FALT_OK)
    fail_msg("%s: %s", t->name, falt_message());
  const falt_operands operands = {
      .input = t->input, .filter = t->filter, .output = t->expected, .bias = t->bias, .scale = t->scale};
  if (falt_execute_host(plan, &operands) != FALT_OK) fail_msg("%s: %s", t->name, falt_message());
  falt_plan_destroy(&plan);
}

static void close_trial(trial *t) {
  free(t->filter), free(t->input), free(t->expected), free(t->bias), free(t->scale);
}

/* ---- pushing */

typedef struct pusher {
  const trial *t;
  falt_convolver_rows *rows;
  rows_of in, out, source, result; /* of a push; of the whole */
  int64_t written;
  double tolerance;
} pusher;

static int64_t choose_count(int way, int64_t left) {
  const int64_t most = way == 0 ? left : way == 1 ? 1 : way == 2 ? 7 : 40;
  const int64_t count = way == 0 && !once_in(9) ? left : pick(way != 1, most);
  return count < left ? count : left;
}

static void compare_row(const pusher *p, const char *row, int64_t y) {
  const falt_tensor *t = &p->t->whole.output;
  const int dim = dim_of(&p->t->whole);
  const char *expected = (const char *)p->t->expected + y * p->result.pitch;
  int64_t at[FALT_DIMS] = {0};
  for (;;) {
    int64_t place = t->offset;
    for (int i = 0; i < FALT_DIMS; i++) place += at[i] * (i == dim ? 0 : t->stride[i]);
    const double a = falt_load(row - p->out.lowest, t->type, place), b = falt_load(expected, t->type, place);
    const double scale = falt_type_is_integer(t->type) ? 1 : fmax(1, fabs(b));
    if (!(fabs(a - b) <= p->tolerance * scale) && !(isnan(a) && isnan(b)) && a != b)
      fail_msg("%s: row %lld, element %lld %lld: %.9g instead of %.9g", p->t->name, (long long)y, (long long)at[FALT_G],
               (long long)at[FALT_W], a, b);
    int i = FALT_DIMS;
    while (i-- > 0 && (i == dim || ++at[i] == t->size[i])) at[i] = 0;
    if (i < 0) return;
  }
}

/* A block of output rows: begins with the first element in memory. */
static char *open_block(const rows_of *r, int64_t capacity) {
  const size_t bytes = block_bytes(r, capacity);
  char *block = malloc(bytes ? bytes : 1);
  memset(block, 0x5a, bytes ? bytes : 1);
  return block;
}

static void close_block(pusher *p, char *block, int64_t written) {
  for (int64_t i = 0; i < written; i++) compare_row(p, block + i * p->out.pitch, p->written + i);
  p->written += written;
  free(block);
}

static void push_all(pusher *p, int64_t height, int way, bool small) {
  for (int64_t at = 0, idle = 0; at < height && idle < 20000; idle++) {
    const int64_t count = choose_count(way, height - at);
    const int64_t capacity = small ? pick(0, 3) : p->t->whole.output.size[dim_of(&p->t->whole)] - p->written;
    char *block = open_block(&p->out, capacity), *input = malloc(block_bytes(&p->in, count) + 1);
    for (int64_t i = 0; i < count; i++)
      memcpy(input + i * p->in.pitch, (char *)p->t->input + p->source.lowest + (at + i) * p->source.pitch,
             (size_t)p->in.bytes);
    int64_t taken = count, written = -1;
    const falt_status status = falt_convolver_rows_push(p->rows, input - p->in.lowest, count, small ? &taken : NULL,
                                                        block - p->out.lowest, capacity, &written);
    if (status != FALT_OK) fail_msg("%s: row %lld: %s", p->t->name, (long long)at, falt_message());
    assert_true(taken <= count && written <= capacity);
    at += taken;
    free(input);
    close_block(p, block, written);
  }
}

static void finish(pusher *p, bool small) {
  const int64_t all = p->t->whole.output.size[dim_of(&p->t->whole)];
  for (int64_t written = 1; written > 0;) {
    const int64_t capacity = small ? pick(1, 3) : all + 1;
    char *block = open_block(&p->out, capacity);
    if (falt_convolver_rows_finish(p->rows, block - p->out.lowest, capacity, &written) != FALT_OK)
      fail_msg("%s: finish: %s", p->t->name, falt_message());
    close_block(p, block, written);
  }
  if (p->written != all)
    fail_msg("%s: %lld output rows instead of %lld", p->t->name, (long long)p->written, (long long)all);
}

/* Twice with one convolver. False if create refuses. */
static bool run(const trial *t, double tolerance) {
  const int dim = dim_of(&t->whole);
  pusher p = {.t = t,
              .in = rows_in(&t->problem.input, dim),
              .out = rows_in(&t->problem.output, dim),
              .source = rows_in(&t->whole.input, dim),
              .result = rows_in(&t->whole.output, dim),
              .tolerance = tolerance};
  if (falt_convolver_rows_create(&p.rows, device, &t->problem, &t->options, t->filter) != FALT_OK) {
    assert_null(p.rows);
    return false;
  }
  for (int i = 0; i < 2; i++) {
    const bool small = once_in(3);
    p.written = 0;
    push_all(&p, t->whole.input.size[dim], (int)pick(0, 3), small);
    if (i == 1 || once_in(2)) finish(&p, small);
    falt_convolver_rows_reset(p.rows);
  }
  falt_convolver_rows_destroy(&p.rows);
  assert_null(p.rows);
  return true;
}

/* ---- random filters */

typedef struct sizes {
  int64_t h, w, channels, r, s;
} sizes;

static falt_boundary boundary(bool wraps) {
  return (falt_boundary)pick(0, wraps ? FALT_WRAP : FALT_REFLECT101);
}

/* Anchors within the filter and beyond it; an axis of a mode or of a pad. */
static void choose_axes(falt_options *o, const sizes *z, bool integer) {
  static const double values[] = {0, 0, 3, -2.5, 0.1};
  const int64_t taps[] = {1, z->r, z->s};
  o->boundary_value = integer && once_in(5) ? 300.5 : values[pick(0, 3 + !integer)];
  for (int i = 1; i < 3; i++) {
    falt_axis *axis = &o->axis[i];
    axis->stride = once_in(3) ? pick(1, 5) : 1;
    axis->dilation = once_in(3) ? pick(1, 3) : 1;
    for (int side = 0; side < 2; side++) axis->boundary[side] = boundary(i == 2);
    if (o->mode == FALT_SAME && once_in(3)) o->anchor[i] = pick(0, taps[i] - 1);
    if (!once_in(8)) continue;
    o->anchor[i] = FALT_ANCHOR_PAD;
    axis->pad[0] = pick(-3, 2 * taps[i] * axis->dilation);
    axis->pad[1] = pick(once_in(2) ? -9 : taps[i] * axis->dilation, 2 * taps[i] * axis->dilation + 20);
  }
}

static falt_status describe(const sizes *z, int64_t h, falt_type type, falt_type weights, falt_type out, bool flip,
                            const falt_options *o, falt_problem *p) {
  const falt_const_array src = falt_const_image(NULL, type, h, z->w, z->channels, z->w * z->channels);
  const falt_const_array taps = falt_const_volume(NULL, weights, 1, z->r, z->s);
  return falt_problem_filter(p, &src.tensor, &taps.tensor, out, flip, o);
}

static void spread(falt_tensor *t) {
  if (t->size[FALT_H] > 1) t->stride[FALT_H] += once_in(2) ? 0 : once_in(2) ? pick(1, 9) : 3 * t->stride[FALT_H];
}

/* False if the draw is no legal problem: a window larger than the image. */
static bool draw(trial *t, double *tolerance) {
  static const falt_type types[] = {FALT_U8, FALT_S16, FALT_U16, FALT_F16, FALT_F32, FALT_F64};
  const falt_type type = types[pick(0, 5)], weights = type == FALT_F64 ? FALT_F64 : FALT_F32;
  const bool integer = falt_type_is_integer(type), flip = once_in(2);
  const falt_type out = once_in(4) ? FALT_F32 : type;
  sizes z = {once_in(8) ? 1 : pick(1, 60), once_in(8) ? 1 : pick(1, 40), once_in(2) ? 1 : pick(2, 4),
             once_in(6) ? pick(1, 70) : pick(1, 7), pick(1, 6)};
  if (z.w == 1) z.channels = 1; /* else the output's layout is not clear */
  falt_options o;
  falt_options_default(&o);
  o.mode = (falt_mode)pick(0, 2);
  choose_axes(&o, &z, integer);
  falt_convolver_rows_options_default(&t->options);
  t->options.any_height = o.anchor[1] != FALT_ANCHOR_PAD && once_in(2);
  t->options.mode = o.mode;
  t->options.latency = once_in(2) ? 0 : pick(0, 20);
  const int64_t other = t->options.any_height ? z.h + pick(-z.h + 1, 90) : z.h;
  if (describe(&z, z.h, type, weights, out, flip, &o, &t->whole) != FALT_OK) return false;
  if (describe(&z, other, type, weights, out, flip, &o, &t->problem) != FALT_OK) return false;
  falt_tensor *const spreads[] = {&t->whole.input, &t->whole.output, &t->problem.input, &t->problem.output};
  for (int i = 0; i < 4; i++) spread(spreads[i]);
  const bool halves = o.boundary_value != floor(o.boundary_value);
  if (integer && (halves || once_in(3))) t->whole.beta = t->problem.beta = 0.25; /* no sum is rounded from a tie */
  if (integer && !halves && once_in(3)) t->whole.alpha = t->problem.alpha = 0.5, t->whole.beta = t->problem.beta = 0.25;
  if (once_in(4)) t->whole.factors = t->problem.factors = (int)pick(1, 2);
  t->filter = elements(falt_problem_filter_elements(&t->whole), weights, -1, 2, integer || type == FALT_F16);
  t->input = elements(falt_tensor_span(&t->whole.input), type, integer ? 0 : -1, integer ? 255 : 1, integer);
  *tolerance = falt_type_is_integer(out) && integer ? 0
               : type == FALT_F16                   ? 4e-3
                                                    : (weights == FALT_F64 && out == FALT_F64 ? 1e-12 : 2e-4);
  falt_problem_print(&t->whole, NULL, t->name, sizeof t->name);
  return true;
}

static void test_random_filters(UNUSED void **state) {
  int drawn = 0;
  for (int i = 0; i < TRIALS; i++) {
    trial t = {.filter = NULL};
    double tolerance;
    seed = (uint64_t)i + 1;
    if (!draw(&t, &tolerance)) continue;
    const size_t length = strlen(t.name);
    snprintf(t.name + length, sizeof t.name - length, " (seed %d, latency %lld, height %lld)", i + 1,
             (long long)t.options.latency, (long long)(t.options.any_height ? t.problem.input.size[FALT_H] : 0));
    compute_expected(&t);
    if (!run(&t, tolerance)) fail_msg("%s: %s", t.name, falt_message());
    close_trial(&t);
    drawn++;
  }
  assert_true(drawn > TRIALS / 2);
}

/* ---- random lines: layers, volumes and signals too */

static bool is_for_rows(const falt_problem *p) {
  const falt_axis *axis = &p->axis[3 - p->space];
  return p->operation == FALT_FORWARD && p->input.size[FALT_N] == 1 && !p->has_residual &&
         axis->boundary[0] != FALT_WRAP && axis->boundary[1] != FALT_WRAP;
}

static double tolerance_of(const falt_problem *p) {
  const falt_type type = p->output.type;
  if (falt_type_is_integer(type)) return 1;
  return falt_type_is_half(type) || falt_type_is_half(p->input.type) || falt_type_is_half(p->filter.type) ? 2e-2 : 2e-3;
}

static void test_random_lines(UNUSED void **state) {
  int ran = 0;
  for (int i = 0; i < LINES; i++) {
    trial t = {.filter = NULL};
    seed = (uint64_t)i + 1;
    falt_problem_random((uint64_t)i, t.name, sizeof t.name);
    falt_convolver_rows_options_default(&t.options);
    assert_int_equal(falt_problem_parse(&t.whole, &t.options.budget, t.name), FALT_OK);
    if (!is_for_rows(&t.whole) || t.whole.filter_when == FALT_FILTER_GIVEN) continue;
    falt_budget_default(&t.options.budget);
    t.problem = t.whole;
    t.filter = elements(falt_problem_filter_elements(&t.whole), t.whole.filter.type, -2, 2, true);
    t.input = elements(falt_tensor_span(&t.whole.input), t.whole.input.type, 0, 3, true);
    const falt_type real = falt_type_real(t.whole.output.type);
    const int64_t channels = t.whole.filter.size[FALT_G] * t.whole.filter.size[FALT_K];
    if (t.whole.has_bias) t.options.bias = t.bias = elements(channels, real, -1, 1, false);
    if (t.whole.has_scale) t.options.scale = t.scale = elements(channels, real, -1, 1, false);
    compute_expected(&t);
    ran += run(&t, tolerance_of(&t.whole));
    close_trial(&t);
  }
  assert_true(ran > LINES / 30);
}

static int make_device(UNUSED void **state) {
  return falt_device_cpu(&device, NULL) != FALT_OK;
}

static int end_device(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_filters), cmocka_unit_test(test_random_lines)};
  return cmocka_run_group_tests(tests, make_device, end_device);
}
