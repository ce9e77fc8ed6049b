/* How far sums of many taps drift: every solver of a device on data that are all alike and positive, where one chain of
 * roundings drifts systematically. Plain C over the public header. */
#ifndef FALT_TESTS_CHAINS_H
#define FALT_TESTS_CHAINS_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

/* The largest errors allowed and found, in units of FLT_EPSILON * max|x| * sum|w|. */
enum { CHAINS_MOST = 8 };

static const char *const chains_lines[] = {
    "correlate h=9 w=70 r=63 s=63 boundary=edge",
    "correlate d=3 h=6 w=34 t=31 r=31 s=31 boundary=edge",
    "correlate w=600 s=4097 boundary=edge",
    "correlate h=6 w=300 r=25 s=25 boundary=edge",
    "correlate w=3000 s=301 boundary=edge",
    "forward c=8 groups=8 h=9 w=33 k=8 r=31 s=31 pad=15 boundary=edge",
    "forward c=8 groups=8 h=9 w=33 k=8 r=31 s=31 pad=15 boundary=edge layout=nhwc",
};
enum { CHAINS_LINES = sizeof chains_lines / sizeof *chains_lines };

static inline float *chains_fill(int64_t count, float value) {
  float *data = malloc((size_t)count * sizeof *data);
  for (int64_t i = 0; data && i < count; i++) data[i] = value;
  return data;
}

/* The error of a plan's results; negative if it does not run. */
static inline double chains_error(const falt_plan *plan, const falt_problem *p, const float *w, float x_value,
                                  float w_value) {
  const int64_t count = falt_tensor_span(&p->output);
  const double taps = (double)(p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W]);
  const double exact = (double)x_value * (double)w_value * taps;
  float *x = chains_fill(falt_tensor_span(&p->input), x_value), *y = chains_fill(count, NAN);
  const falt_operands operands = {.input = x, .filter = (void *)(uintptr_t)w, .output = y};
  double worst = x && y && falt_execute_host(plan, &operands) == FALT_OK ? 0 : -1;
  for (int64_t i = 0; worst >= 0 && i < count; i++)
    worst = fabs((double)y[i] - exact) > worst || isnan(y[i]) ? fabs((double)y[i] - exact) : worst;
  free(x);
  free(y);
  return worst < 0 ? -1 : worst / exact / (double)FLT_EPSILON;
}

typedef struct chains_solvers {
  char name[64][32];
  int count;
} chains_solvers;

static inline void chains_note(void *context, const falt_candidate *candidate) {
  chains_solvers *s = context;
  if (!candidate->rejected && s->count < 64 && strcmp(candidate->solver, "reference") != 0)
    snprintf(s->name[s->count++], sizeof *s->name, "%s", candidate->solver);
}

/* Every solver on one line; calls report(context, solver, error) for each. False if none could be asked. */
static inline bool chains_measure(falt_device *device, const char *line, float x_value, float w_value,
                                  void (*report)(void *context, const char *solver, double error), void *context) {
  falt_problem p;
  falt_budget budget;
  chains_solvers solvers = {.count = 0};
  if (falt_problem_parse(&p, &budget, line) != FALT_OK) return false;
  float *w = chains_fill(falt_tensor_span(&p.filter), w_value);
  bool fine = w && falt_explain(device, &p, &budget, w, 0, chains_note, &solvers) == FALT_OK && solvers.count > 0;
  for (int i = 0; fine && i < solvers.count; i++) {
    falt_plan *plan = NULL;
    snprintf(budget.method, sizeof budget.method, "%s", solvers.name[i]);
    fine = falt_plan_create(&plan, device, &p, &budget, w) == FALT_OK;
    if (fine) report(context, solvers.name[i], chains_error(plan, &p, w, x_value, w_value));
    falt_plan_destroy(&plan);
  }
  free(w);
  return fine;
}

#endif
