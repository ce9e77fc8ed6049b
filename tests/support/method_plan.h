/* Plans of one method on a CPU device, for a problem line and known taps. */
#ifndef FALT_TESTS_METHOD_PLAN_H
#define FALT_TESTS_METHOD_PLAN_H

#include <stdio.h>

#include "faltung/faltung.h"

static falt_device *make_device(void) {
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  return device;
}

/* The plan of a method for these taps; NULL if the method refuses them. */
static falt_plan *plan_of(falt_device *device, const char *line, const float *taps, const char *method) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  snprintf(budget.method, sizeof budget.method, "%s", method);
  (void)falt_plan_create(&plan, device, &problem, &budget, taps);
  return plan;
}

#endif
