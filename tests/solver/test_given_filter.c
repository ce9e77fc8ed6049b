/* A filter that comes with each execution gives the bits of a filter known to the plan: layers of f32 and of f64, every
 * solver that takes them, random shapes, layouts and filter strides (of either sign, zero, with gaps), one thread and
 * three. FALT_SEED chooses another seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "faltung/faltung.h"

enum { PROBLEMS = 220, NAMES = 12, TEXT = 2048 };

static const char *const solvers[NAMES] = {"direct-nhwc", "igemm-nchw",        "dgrad-strided",  "dgrad-pixelfold",
                                           "grouped",     "fprop-pixelfold",   "dgrad-col2im",   "depthwise",
                                           "generic",     "depthwise-rowtile", "depthwise-nchw", "inner-product"};

static uint64_t seed;

static int64_t pick(int64_t low, int64_t high) {
  return falt_random_int(&seed, low, high);
}

static bool is_one_of(int64_t in) {
  return pick(1, in) == 1;
}

/* ---- problems */

static void random_line(char *line, size_t size) {
  static const char *const layouts[][2] = {{"ncw", "nwc"}, {"nchw", "nhwc"}, {"ncdhw", "ndhwc"}};
  const int64_t space = pick(1, 3), kind = pick(0, 5), stride = is_one_of(3) ? 2 : 1;
  const int64_t channels = is_one_of(4) ? pick(60, 140) : pick(1, 40), most = space == 1 ? 40 : space == 2 ? 10 : 5;
  const int64_t groups = kind == 0 ? channels : kind == 1 ? pick(2, 5) : 1;
  const int64_t c = kind == 1 ? groups * pick(1, 9) : channels, r = pick(1, 3), w = pick(3, most + 2);
  const int64_t k = kind == 0 ? c : kind == 1 ? groups * pick(1, 9) : is_one_of(3) ? pick(60, 150) : pick(1, 30);
  char axes[128] = "";
  if (space == 3) snprintf(axes, sizeof axes, " d=%d t=%d", (int)pick(3, most), (int)pick(1, 3));
  if (space >= 2) snprintf(axes + strlen(axes), sizeof axes - strlen(axes), " h=%d r=%d", (int)pick(3, most), (int)r);
  snprintf(line, size, "%s n=%d c=%d%s w=%d s=%d k=%d groups=%d stride=%d dilation=%d pad=%d layout=%s%s%s",
           pick(0, 1) ? "forward" : "backward-data", (int)pick(1, 3), (int)c, axes, (int)w, (int)pick(1, 3), (int)k,
           (int)groups, (int)stride, is_one_of(5) ? 2 : 1, (int)pick(1, 2), layouts[space - 1][pick(0, 1)],
           space == 2 && is_one_of(4) ? " weight-layout=hwio" : "", is_one_of(3) ? " type=f64" : "");
}

/* The filter's axes in any order and direction, with gaps and shared elements now and then. */
static void shuffle_strides(falt_tensor *w) {
  int order[6] = {0, 1, 2, 3, 4, 5};
  int64_t stride = 1;
  w->offset = 0;
  for (int i = 5; i > 0; i--) {
    const int j = (int)pick(0, i), other = order[i];
    order[i] = order[j];
    order[j] = other;
  }
  for (int i = 0; i < 6; i++) {
    const int dim = order[i];
    const bool back = is_one_of(3), shared = is_one_of(12);
    w->stride[dim] = shared ? 0 : back ? -stride : stride;
    if (back && !shared) w->offset += stride * (w->size[dim] - 1);
    if (!shared) stride *= w->size[dim];
    if (is_one_of(6)) stride += pick(1, 3);
  }
}

/* ---- executions */

typedef struct trial {
  falt_problem problem;
  falt_operands operands;
  void *filter, *result;
  size_t bytes; /* of the result */
} trial;

static void *room(const falt_tensor *t, uint64_t values) {
  const int64_t count = falt_tensor_span(t);
  void *memory = falt_alloc((size_t)count * falt_type_size(t->type));
  assert_non_null(memory);
  falt_random_fill(memory, t->type, count, values);
  return memory;
}

static void open_trial(trial *t) {
  const falt_problem *p = &t->problem;
  const falt_tensor *result = p->operation == FALT_FORWARD ? &p->output : &p->input;
  falt_operands_default(&t->operands);
  t->operands.input = room(&p->input, 1);
  t->operands.output = room(&p->output, 2);
  t->filter = room(&p->filter, 3);
  t->operands.filter = t->filter;
  t->result = p->operation == FALT_FORWARD ? t->operands.output : t->operands.input;
  t->bytes = (size_t)falt_tensor_span(result) * falt_type_size(result->type);
}

static void close_trial(trial *t) {
  falt_free(t->operands.input);
  falt_free(t->operands.output);
  falt_free(t->filter);
}

/* The plan's words but those that say how the filter is packed. */
static void describe(const falt_plan *plan, char *text) {
  static const char word[] = " just-in-time";
  falt_plan_print(plan, text, TEXT);
  for (char *at; (at = strstr(text, word));) memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
}

/* Executes in memory that is all ones before, so that nothing is left from the execution before. filter: NULL where the
 * plan knows it. */
static void execute(trial *t, const falt_plan *plan, void *filter, void *result) {
  t->operands.filter = filter;
  const size_t bytes = falt_plan_workspace(plan);
  t->operands.workspace = falt_alloc(bytes + 1);
  assert_non_null(t->operands.workspace);
  memset(t->operands.workspace, 0xff, bytes);
  memset(t->result, 0xff, t->bytes);
  assert_int_equal(falt_execute(plan, &t->operands), FALT_OK);
  memcpy(result, t->result, t->bytes);
  falt_free(t->operands.workspace);
}

/* Whether both plans exist and are made of the same solvers. */
static bool check_solver(falt_device *device, trial *t, const char *solver, const char *line) {
  char texts[2][TEXT];
  falt_plan *known = NULL, *given = NULL;
  falt_budget budget;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", solver);
  bool same = falt_plan_create(&known, device, &t->problem, &budget, t->filter) == FALT_OK &&
              falt_plan_create(&given, device, &t->problem, &budget, NULL) == FALT_OK;
  if (same) {
    describe(known, texts[0]);
    describe(given, texts[1]);
    /* other children sum in another order, and a plan of many does not name all */
    same = strcmp(texts[0], texts[1]) == 0 && !strstr(texts[0], "...");
  }
  if (same) {
    void *results[2] = {falt_alloc(t->bytes), falt_alloc(t->bytes)};
    assert_true(results[0] && results[1]);
    execute(t, known, NULL, results[0]);
    execute(t, given, t->filter, results[1]);
    if (memcmp(results[0], results[1], t->bytes) != 0) fail_msg("%s: other bits: %s", texts[1], line);
    falt_free(results[0]);
    falt_free(results[1]);
  }
  falt_plan_destroy(&known);
  falt_plan_destroy(&given);
  return same;
}

/* ---- tests */

static int counts[NAMES];

static void check_problem(falt_device *const devices[2], const char *line, bool shuffles) {
  trial t;
  falt_budget budget;
  falt_problem_default(&t.problem);
  falt_budget_default(&budget);
  if (falt_problem_parse(&t.problem, &budget, line) != FALT_OK) return; /* its filter is larger than its input */
  if (shuffles) shuffle_strides(&t.problem.filter);
  open_trial(&t);
  for (int i = 0; i < NAMES; i++)
    for (int d = 0; d < 2; d++) counts[i] += check_solver(devices[d], &t, solvers[i], line);
  close_trial(&t);
}

/* Layers whose panels are packed part by part, just in time, and those of many tasks. */
static const char *const large[] = {
    "forward n=1 c=512 h=7 w=7 k=130 r=3 s=3 pad=1 layout=nhwc",
    "forward n=1 c=512 h=7 w=7 k=130 r=3 s=3 pad=1 layout=nchw",
    "backward-data n=1 c=130 h=7 w=7 k=512 r=3 s=3 pad=1 layout=nhwc",
    "backward-data n=1 c=130 h=7 w=7 k=512 r=3 s=3 pad=1 layout=nchw",
    "backward-data n=1 c=200 h=14 w=14 k=300 r=3 s=3 pad=1 stride=2 layout=nchw",
    "forward n=1 c=5000 h=1 w=1 k=70 r=1 s=1 layout=nhwc",
    "backward-data n=1 c=1000 h=1 w=1 k=2100 r=1 s=1 layout=nchw",
    "forward n=1 c=600 d=2 h=5 w=5 k=96 t=3 r=3 s=3 pad=1 layout=ndhwc weight-layout=oidhw",
    "forward n=2 c=40 h=30 w=31 k=200 r=3 s=3 pad=1 layout=nhwc",
    "forward n=1 c=300 h=9 w=9 k=600 r=1 s=7 pad=0x3 groups=2 layout=nhwc",
    "backward-data n=1 c=768 h=7 w=7 k=768 r=7 s=7 pad=3 groups=768 layout=nhwc",
    "forward n=2 c=101 h=9 w=8 k=101 r=3 s=3 pad=1 groups=101 layout=nhwc",
    "forward n=3 c=101 h=9 w=8 k=101 r=3 s=3 pad=1 stride=2 groups=101",
    "backward-data n=2 c=70 d=3 h=20 w=18 k=70 t=3 r=3 s=3 pad=1 groups=70",
    "forward n=1 c=64 h=20 w=24 k=3 r=3 s=3 pad=1 layout=nhwc",
    "forward n=1 c=512 h=7 w=7 k=130 r=3 s=3 pad=1 layout=nhwc type=f64",
    "forward n=1 c=512 h=7 w=7 k=130 r=3 s=3 pad=1 layout=nhwc type=f64 weight-layout=hwio",
    "forward n=1 c=5000 h=1 w=1 k=70 r=1 s=1 layout=nhwc type=f64",
    "backward-data n=1 c=200 h=14 w=14 k=300 r=3 s=3 pad=1 stride=2 layout=nhwc type=f64",
    "forward n=1 c=300 h=9 w=9 k=600 r=1 s=7 pad=0x3 groups=2 layout=nhwc type=f64",
};

static void test_bits(void **state) {
  (void)state;
  falt_device *devices[2] = {NULL, NULL};
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  for (int d = 0; d < 2; d++) {
    options.threads = d == 0 ? 1 : 3;
    assert_int_equal(falt_device_cpu(&devices[d], &options), FALT_OK);
  }
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int shuffles = 0; shuffles < 2; shuffles++) check_problem(devices, large[i], shuffles);
  for (int i = 0; i < PROBLEMS; i++) {
    char line[512];
    random_line(line, sizeof line);
    check_problem(devices, line, is_one_of(2));
  }
  for (int i = 0; i < NAMES; i++) {
    printf("%s: %d pairs of plans\n", solvers[i], counts[i]);
    assert_true(counts[i] > 0);
  }
  falt_device_destroy(&devices[0]);
  falt_device_destroy(&devices[1]);
}

int main(void) {
  const char *chosen = getenv("FALT_SEED");
  seed = chosen ? strtoull(chosen, NULL, 0) : 20261123;
  printf("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
