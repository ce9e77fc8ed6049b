/* Solver cuda-running-sums against the reference on the CPU: random boxes of every dimension, type and boundary, large
 * ones, boxes with other ends, operands at every alignment, and elements that are not finite or very large, which must
 * reach their windows and no other. boxes [COUNT] [SEED]; prints what fails. */
#include <math.h>
#include <string.h>

#include "box_lines.h"
#include "fixture.h"
#include "problem/problem.h"

typedef struct sample {
  const char *line;
  falt_problem problem;
  char *taps, *input, *output, *expected;
  size_t bytes;
  double scale; /* of the largest sum under a window */
} sample;

static char *room(const falt_tensor *t, size_t *bytes) {
  *bytes = (size_t)(falt_tensor_span(t) + t->offset) * falt_type_size(t->type);
  return calloc(1, *bytes + 1);
}

/* Taps of 0.37, or 3 of integers; `end` of them at both ends of an axis of 5 taps or more. */
static void set_taps(sample *s, double end) {
  const falt_problem *p = &s->problem;
  const falt_tensor *w = &p->filter;
  const bool whole = falt_type_is_integer(w->type);
  const int64_t *size = &w->size[FALT_D];
  const double weight = whole ? 3 : 0.37;
  size_t bytes;
  s->scale = weight;
  for (int i = 0; i < 3; i++) s->scale *= (double)size[i];
  s->taps = p->factors ? calloc((size_t)falt_problem_filter_elements(p), falt_type_size(w->type)) : room(w, &bytes);
  if (!p->factors) {
    for (int64_t i = 0; i < falt_tensor_span(w) + w->offset; i++) falt_store(s->taps, w->type, i, weight);
    return;
  }
  int64_t at = 0;
  for (int axis = 0; axis < 3; axis++)
    for (int64_t i = 0; i < size[axis]; i++) {
      const bool edge = size[axis] > 4 && (i == 0 || i == size[axis] - 1);
      falt_store(s->taps, w->type, at++, (edge && !whole ? end : 1) * (axis == 2 ? weight : 1));
    }
}

static void set_input(sample *s, uint64_t *seed, double factor) {
  const falt_tensor *t = &s->problem.input;
  const bool whole = falt_type_is_integer(t->type);
  const double low = fmax(falt_type_min(t->type), -0x1p31), high = fmin(falt_type_max(t->type), 0x1p31 - 1);
  double largest = fabs(s->problem.boundary_value);
  size_t bytes;
  s->input = room(t, &bytes);
  for (int64_t i = 0; i < falt_tensor_span(t) + t->offset; i++) {
    const double value =
        whole ? (double)falt_random_int(seed, (int64_t)low, (int64_t)high) : (2 * falt_random_unit(seed) - 1) * factor;
    falt_store(s->input, t->type, i, value);
    largest = fmax(largest, fabs(value));
  }
  s->scale *= largest;
}

static bool open_sample(sample *s, const char *line, uint64_t *seed, double factor) {
  *s = (sample){.line = line};
  if (falt_problem_parse(&s->problem, NULL, line) != FALT_OK) return false;
  set_taps(s, 0.25);
  set_input(s, seed, factor);
  s->output = room(&s->problem.output, &s->bytes);
  s->expected = room(&s->problem.output, &s->bytes);
  return true;
}

static void close_sample(sample *s) {
  free(s->taps);
  free(s->input);
  free(s->output);
  free(s->expected);
}

static bool compute(const sample *s, falt_device *device, const char *method, char *output) {
  falt_plan *plan = NULL;
  falt_budget budget;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  const falt_operands host = {.input = s->input, .output = output};
  bool done = falt_plan_create(&plan, device, &s->problem, &budget, s->taps) == FALT_OK;
  done = done && falt_execute_host(plan, &host) == FALT_OK;
  falt_plan_destroy(&plan);
  return done;
}

/* Integers: to the bit where nothing on the way is a fraction, else one unit, since a tie may fall either way. */
static double tolerance(const sample *s, double expected) {
  const falt_problem *p = &s->problem;
  const falt_type type = p->output.type;
  const double own = falt_type_is_integer(type) ? 0 : 2 * falt_type_epsilon(type) * fabs(expected);
  if (falt_type_is_integer(p->input.type) && falt_type_is_integer(p->filter.type)) return own;
  const double accumulator = falt_type_epsilon(p->accumulator == FALT_F64 ? FALT_F64 : FALT_F32);
  return own + 64 * accumulator * (s->scale + fabs(expected)) + (falt_type_is_integer(type) ? 1 : 0);
}

static void compare(const sample *s) {
  const falt_type type = s->problem.output.type;
  for (int64_t i = 0; i < (int64_t)(s->bytes / falt_type_size(type)); i++) {
    const double is = falt_load(s->output, type, i), should = falt_load(s->expected, type, i);
    if (is == should || (isnan(is) && isnan(should)) || fabs(is - should) <= tolerance(s, should)) continue;
    fprintf(stderr, "FAILED %s: element %lld is %.17g and not %.17g\n", s->line, (long long)i, is, should);
    failures++;
    return;
  }
}

static void check(sample *s, falt_device *gpu, falt_device *cpu) {
  const bool done = compute(s, cpu, "reference", s->expected) && compute(s, gpu, "cuda-running-sums", s->output);
  expect(done, "computing", s->line);
  if (done) compare(s);
}

static void test_lines(falt_device *gpu, falt_device *cpu, const char *const *lines, uint64_t seed) {
  for (; *lines; lines++) {
    sample s;
    const bool open = open_sample(&s, *lines, &seed, 1);
    expect(open, "reading", *lines);
    if (open) check(&s, gpu, cpu);
    if (open) close_sample(&s);
  }
}

/* Half of those whose taps are floats as factors, with other ends; a third from an odd address on. */
static void test_random(falt_device *gpu, falt_device *cpu, int count, uint64_t first) {
  for (int i = 0; i < count; i++) {
    uint64_t seed = first + (uint64_t)i;
    char line[LINE];
    draw_box_line(line, &seed);
    if (falt_random_int(&seed, 0, 1) && !strstr(line, "weight-type=s32")) add_words(line, " factors=1");
    if (falt_random_int(&seed, 0, 2) == 0) add_words(line, " input-offset=1 output-offset=3");
    test_lines(gpu, cpu, (const char *const[]){line, NULL}, seed);
  }
}

/* One element is not finite, or so large that a difference of sums would lose all others. */
static void test_nothing_spreads(falt_device *gpu, falt_device *cpu) {
  static const char *const lines[] = {
      "correlate h=50 w=60 r=7 s=19 boundary=reflect101", "correlate h=50 w=60 r=7 s=19 type=f64 boundary=wrap",
      "correlate w=900 s=33 type=bf16 out-type=f32",      "correlate d=12 h=13 w=50 t=5 r=3 s=34 boundary=edge",
      "correlate h=50 w=60 r=19 s=3 stride=2 type=f16",   "correlate h=300 w=700 r=101 s=31 factors=1",
  };
  static const double values[] = {NAN, INFINITY, -INFINITY, 30000, 1e30};
  uint64_t seed = 11;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      sample s;
      if (!open_sample(&s, lines[i], &seed, 0x1p-20)) continue; /* the tolerance is that of the small elements */
      for (int times = 0; times < 3; times++)
        falt_store(s.input, s.problem.input.type, falt_random_int(&seed, 0, falt_tensor_count(&s.problem.input) - 1),
                   values[k]);
      check(&s, gpu, cpu);
      close_sample(&s);
    }
}

int main(int argc, char **argv) {
  static const char *const large[] = {
      "correlate h=90 w=9000 r=7 s=33 boundary=wrap type=u8 weight-type=s32 out-type=s32",
      "correlate h=90 w=9000 r=7 s=33 boundary=wrap",
      "correlate h=60 w=400 r=301 s=301 boundary=reflect101",
      "correlate h=60 w=400 r=301 s=301 boundary=reflect101 type=u8",
      "correlate h=301 w=640 pixel=3 r=101 s=31 boundary=symmetric type=u8",
      "correlate w=30000 s=1001 boundary=symmetric",
      "correlate w=50000 s=20001 boundary=edge",
      "correlate w=300 s=1001 boundary=reflect101 type=u16 weight-type=s32 out-type=s32",
      "correlate w=5000 s=40 dilation=3 boundary=edge",
      "correlate h=9000 w=40 r=3001 s=1 boundary=wrap",
      "correlate d=40 h=30 w=50 t=9 r=7 s=20 boundary=edge",
      "correlate d=40 h=34 w=40 t=31 r=31 s=31 boundary=reflect101 factors=1",
      "correlate h=40 w=5000 pixel=3 r=3 s=17 boundary=wrap type=u8",
      NULL,
  };
  falt_device *gpu = NULL, *cpu = NULL;
  if (falt_device_cuda(&gpu, NULL) != FALT_OK || falt_device_cpu(&cpu, NULL) != FALT_OK) {
    fprintf(stderr, "boxes: %s\n", falt_message());
    return 3;
  }
  test_lines(gpu, cpu, large, 3);
  test_nothing_spreads(gpu, cpu);
  test_random(gpu, cpu, argc > 1 ? atoi(argv[1]) : 200, argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
  falt_device_destroy(&gpu);
  falt_device_destroy(&cpu);
  fprintf(stderr, "boxes: %d failures\n", failures);
  return failures > 0;
}
