/* Prints the lines of FALTUNG_VERBOSE=plan,time: one for each plan, one for each execution. */
#include "api/verbose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cost.h"

enum { PLAN_TEXT = 512, PROBLEM_TEXT = 1024 };
static const char *const words[] = {"plan", "time"};

falt_status falt_verbose_read(unsigned *flags) {
  *flags = 0;
  const char *at = getenv("FALTUNG_VERBOSE");
  while (at && *at) {
    size_t length = strcspn(at, ",");
    int found = falt_find_name(at, length, words, 2);
    if (found < 0 && length)
      return falt_fail(FALT_INVALID_ARGUMENT,
                       "FALTUNG_VERBOSE: '%.*s' is not known; use plan, time or both with a comma", (int)length, at);
    if (length) *flags |= 1u << found;
    at += length + (at[length] == ',');
  }
  return FALT_OK;
}

void falt_verbose_plan(const falt_plan *plan, const falt_budget *budget) {
  char text[PLAN_TEXT], problem[PROBLEM_TEXT];
  falt_plan_print(plan, text, sizeof text);
  falt_problem_print(&plan->problem, budget, problem, sizeof problem);
  fprintf(stderr, "faltung: plan: %s: %s predicted_seconds=%.4g workspace_bytes=%zu on %s\n", problem, text,
          plan->cost.seconds, plan->workspace, plan->device->name);
}

void falt_verbose_time(const falt_plan *plan, double seconds) {
  char text[PLAN_TEXT];
  falt_plan_print(plan, text, sizeof text);
  falt_limit limit = falt_problem_limit(plan->device, &plan->problem);
  fprintf(stderr, "faltung: time: %s seconds=%.4g gbytes_per_s=%.4g gflops=%.4g\n", text, seconds,
          limit.bytes / seconds * 1e-9, limit.flops / seconds * 1e-9);
}
