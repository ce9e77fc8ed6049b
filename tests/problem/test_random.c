/* Random problems: equal seeds give equal lines; every word, value and kind of window is frequent enough; every CPU
 * solver applies often enough; no problem has too much work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/verify.h"
#include "planner/search.h"
#include "problem/line.h"

enum { LINES = 20000, PLANNED = 5000, LONGEST = 2048 };

static void draw(uint64_t seed, falt_problem *p, falt_budget *budget, char line[LONGEST]) {
  assert_true(falt_problem_random(seed, line, LONGEST) < LONGEST);
  if (falt_problem_parse(p, budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
}

/* Equal seeds give equal lines, and lines are canonical. */
static void test_lines_round_trip(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < LINES; seed++) {
    char line[LONGEST], again[LONGEST];
    falt_problem p, q;
    falt_budget budget;
    draw(seed, &p, &budget, line);
    falt_problem_random(seed, again, sizeof again);
    assert_string_equal(line, again);
    falt_problem_print(&p, &budget, again, sizeof again);
    assert_string_equal(line, again);
    q = p;
    falt_problem_canonical(&q);
    if (!falt_problem_equal(&p, &q)) fail_msg("not canonical: %s", line);
  }
}

/* These lines belong to these seeds on every machine. */
static void test_lines_are_the_same_everywhere(void **state) {
  (void)state;
  uint64_t hash = 0;
  for (uint64_t seed = 0; seed < LINES / 10; seed++) {
    char line[LONGEST];
    falt_problem_random(seed, line, sizeof line);
    for (const char *at = line; *at; at++) hash = hash * 31 + (unsigned char)*at;
  }
  assert_int_equal(hash, UINT64_C(0x48d91f4be5992f54));
}

/* ---- what comes */

typedef struct census {
  int verbs[FALT_VERB_COUNT], words[FALT_WORD_COUNT];
  int types[4][FALT_TYPE_COUNT]; /* input, weights, output, residual */
  int pairs[FALT_TYPE_COUNT][FALT_TYPE_COUNT], sums[FALT_TYPE_COUNT];
  int activations[FALT_ACTIVATION_COUNT], boundaries[FALT_BOUNDARY_COUNT][FALT_BOUNDARY_COUNT];
  int layouts[FALT_LAYOUT_COUNT], space[4];
  int narrow, single, outside, beyond, cropped, longer, apart, unaligned, negative, zero, reversed_gradient, residual,
      huge;
} census;

static int verb_of(const char *line) {
  const char *names[FALT_VERB_COUNT];
  for (int i = 0; i < FALT_VERB_COUNT; i++) names[i] = falt_verb_name(i);
  return falt_find_name(line, strcspn(line, " "), names, FALT_VERB_COUNT);
}

static void count_words(census *c, const char *line) {
  for (int i = 0; i < FALT_WORD_COUNT; i++) {
    char word[40];
    snprintf(word, sizeof word, " %s=", falt_words[i].name);
    c->words[i] += strstr(line, word) != NULL;
  }
}

static void count_axis(census *c, const falt_problem *p, int i) {
  const falt_axis *axis = &p->axis[i];
  const int64_t in = p->input.size[FALT_D + i], taps = p->filter.size[FALT_D + i], out = p->output.size[FALT_D + i];
  const int64_t extent = falt_extent(axis, taps), last = (out - 1) * axis->stride - axis->pad[0];
  c->boundaries[axis->boundary[0]][axis->boundary[1]]++;
  c->outside += axis->pad[0] >= extent || last >= in;
  c->beyond += axis->pad[0] > in || (!p->is_filter && axis->pad[1] > in);
  c->cropped += axis->pad[0] < 0 || (!p->is_filter && axis->pad[1] < 0);
  c->longer += extent > in;
  c->apart += axis->stride > extent;
  c->huge += taps > 1000;
}

static void count_tensors(census *c, const falt_problem *p) {
  const falt_tensor *tensors[] = {&p->input, &p->filter, &p->output, &p->residual};
  bool negative = false, zero = false, unaligned = false;
  for (int t = 0; t < 4; t++) {
    for (int dim = 0; dim < FALT_DIMS; dim++) {
      negative |= tensors[t]->stride[dim] < 0;
      zero |= tensors[t]->stride[dim] == 0 && tensors[t]->size[dim] > 1;
    }
    unaligned |= tensors[t]->offset % 4 != 0;
  }
  c->negative += negative;
  c->zero += zero;
  c->unaligned += unaligned;
  c->reversed_gradient += negative && p->operation == FALT_BACKWARD_FILTER;
  c->residual += p->has_residual && memcmp(p->residual.stride, p->output.stride, sizeof p->output.stride) != 0;
}

static void count_problem(census *c, const falt_problem *p, const char *line) {
  c->verbs[verb_of(line)]++;
  count_words(c, line);
  for (int i = 3 - p->space; i < 3; i++) count_axis(c, p, i);
  count_tensors(c, p);
  c->types[0][p->input.type]++;
  c->types[1][p->filter.type]++;
  c->types[2][p->output.type]++;
  if (p->has_residual) c->types[3][p->residual.type]++;
  if (p->operation == FALT_FORWARD) c->pairs[p->input.type][p->filter.type]++;
  c->sums[p->accumulator]++;
  c->activations[p->activation]++;
  c->space[p->space]++;
  for (int i = 0; i < FALT_LAYOUT_COUNT; i++)
    c->layouts[i] += falt_tensor_is(i < FALT_OIHW ? &p->input : &p->filter, (falt_layout)i);
  c->narrow += p->output.size[FALT_W] == 1;
  c->single += p->output.size[FALT_W] == 1 && strstr(line, " out=") != NULL;
}

static void at_least(const int *counts, int count, int least, const char *what) {
  for (int i = 0; i < count; i++)
    if (counts[i] < least) fail_msg("%s %d: %d of %d problems, fewer than %d", what, i, counts[i], LINES, least);
}

static void test_everything_comes(void **state) {
  (void)state;
  static census c;
  for (uint64_t seed = 0; seed < LINES; seed++) {
    char line[LONGEST];
    falt_problem p;
    falt_budget budget;
    draw(seed, &p, &budget, line);
    count_problem(&c, &p, line);
  }
  at_least(c.verbs, FALT_VERB_COUNT, LINES / 100, "verb");
  at_least(&c.space[1], 3, LINES / 10, "space");
  at_least(&c.types[0][0], 3 * FALT_TYPE_COUNT, LINES / 200, "type");
  at_least(c.types[3], FALT_TYPE_COUNT, LINES / 2000, "residual's type");
  at_least(&c.pairs[0][0], FALT_TYPE_COUNT * FALT_TYPE_COUNT, LINES / 5000, "types of input and weights");
  at_least(&c.boundaries[0][0], FALT_BOUNDARY_COUNT * FALT_BOUNDARY_COUNT, LINES / 200, "boundaries of both sides");
  at_least(c.activations, FALT_ACTIVATION_COUNT, LINES / 200, "activation");
  at_least(c.layouts, FALT_LAYOUT_COUNT, LINES / 50, "layout");
  const int others[] = {
      c.sums[FALT_S32], c.sums[FALT_F32], c.sums[FALT_F64], c.narrow,    c.single,   c.outside, c.beyond,
      c.cropped,        c.longer,         c.apart,          c.unaligned, c.negative, c.zero};
  at_least(others, sizeof others / sizeof *others, LINES / 100, "kind");
  assert_true(c.huge >= LINES / 2000);
  assert_true(c.residual >= LINES / 500);
  assert_true(c.reversed_gradient >= LINES / 400);
  for (int i = 0; i < FALT_WORD_COUNT; i++) {
    static const char *const never[] = {"origin", "max-error", "method", "tune"}; /* origin is printed as anchor */
    if (falt_find_name(falt_words[i].name, strlen(falt_words[i].name), never, 4) >= 0) continue;
    if (c.words[i] < LINES / 1000) fail_msg("%s: in %d of %d problems", falt_words[i].name, c.words[i], LINES);
  }
}

/* ---- work */

/* The mean of a million problems decides how many can be run; a single one must not hold the others up. */
static void test_work_is_bounded(void **state) {
  (void)state;
  double sum = 0;
  for (uint64_t seed = 0; seed < LINES; seed++) {
    char line[LONGEST];
    falt_problem p;
    falt_budget budget;
    draw(seed, &p, &budget, line);
    const double work = falt_problem_flops(&p) / 2;
    if (!(work <= 1.5e7)) fail_msg("%g multiply-adds: %s", work, line);
    sum += work;
  }
  print_message("%g multiply-adds a problem\n", sum / LINES);
  assert_true(sum / LINES < 1e5);
}

/* ---- solvers */

/* Plans of each solver, and of each form of winograd. */
static const char *const forms[] = {"F(2,3)x2", "F(4,3)x2", "F(6,3)x2", "F(2,5)x2", "F(4,5)x2",
                                    "F(2,3) ",  "F(4,3) ",  "F(6,3) ",  "F(2,5) ",  "F(4,5) "};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct plans {
  int solver[128], form[FORMS];
} plans;

static void count_plan(const falt_entry *entry, plans *counts) {
  char text[512];
  int at = 0;
  while (falt_solvers[at] != entry->solver) at++;
  counts->solver[at]++;
  if (strcmp(entry->solver->name, "winograd") != 0) return;
  falt_plan_print(entry->plan, text, sizeof text);
  for (int i = 0; i < FORMS; i++) counts->form[i] += strstr(text, forms[i]) != NULL;
}

/* The filter is filled as falt_verify fills it: of the line's rank, half of those of rank one boxes. */
static void count_plans(falt_device *device, const falt_problem *p, const falt_budget *budget, uint64_t seed,
                        plans *counts) {
  const bool known = (p->rank > 0 && p->operation == FALT_FORWARD) || p->filter_when == FALT_FILTER_KNOWN;
  falt_search search;
  falt_bench bench;
  assert_int_equal(falt_bench_open(&bench, p, 0), FALT_OK);
  if (known) falt_bench_fill(&bench, p, FALT_FILL_PLAIN, seed);
  falt_search_init(&search, falt_solvers, device, p, budget,
                   known ? falt_guarded_data(&bench.operand[FALT_FILTER]) : NULL);
  assert_int_equal(falt_search_run(&search, true), FALT_OK);
  for (int i = 0; i < search.count; i++)
    if (search.entries[i].outcome <= FALT_BY_NAME_ONLY && falt_entry_ready(&search.entries[i]))
      count_plan(&search.entries[i], counts);
  falt_search_close(&search, NULL);
  falt_bench_close(&bench);
}

/* Solvers that need instructions. */
static bool has_instructions(const falt_solver *solver, falt_isa isa) {
  return isa >= FALT_ISA_AVX2 || strcmp(solver->name, "direct-u8") != 0;
}

/* One problem in a hundred for every solver, whatever the instructions: ten thousand checks in a million problems. */
static void check_solvers(falt_isa isa) {
  falt_cpu_options options;
  falt_device *device = NULL;
  plans counts = {{0}, {0}};
  falt_cpu_options_default(&options);
  options.threads = 1;
  snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name(isa));
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  for (uint64_t seed = 0; seed < PLANNED; seed++) {
    char line[LONGEST];
    falt_problem p;
    falt_budget budget;
    draw(seed, &p, &budget, line);
    count_plans(device, &p, &budget, seed, &counts);
  }
  const int *planned = counts.solver;
  for (int i = 0; i < FORMS; i++) {
    print_message("%s %s: %.2f%%\n", falt_isa_name(isa), forms[i], 100.0 * counts.form[i] / PLANNED);
    if (counts.form[i] < PLANNED / 2500)
      fail_msg("%s on %s: plans %d of %d problems", forms[i], falt_isa_name(isa), counts.form[i], PLANNED);
  }
  for (int i = 0; falt_solvers[i]; i++) {
    if (strcmp(falt_solvers[i]->device_kind, "cpu") != 0 || falt_solvers[i]->only_by_name) continue;
    print_message("%s %s: %.2f%%\n", falt_isa_name(isa), falt_solvers[i]->name, 100.0 * planned[i] / PLANNED);
    if (planned[i] < PLANNED / 100 && has_instructions(falt_solvers[i], isa))
      fail_msg("%s on %s: plans %d of %d problems", falt_solvers[i]->name, falt_isa_name(isa), planned[i], PLANNED);
  }
  falt_device_destroy(&device);
}

static void test_every_solver_is_asked(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (falt_isa_runs((falt_isa)isa)) check_solvers((falt_isa)isa);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines_round_trip),
                                     cmocka_unit_test(test_lines_are_the_same_everywhere),
                                     cmocka_unit_test(test_everything_comes), cmocka_unit_test(test_work_is_bounded),
                                     cmocka_unit_test(test_every_solver_is_asked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
