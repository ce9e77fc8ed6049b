/* Asking why, and how long. */
#include "planner/explain.h"

#include "planner/trial.h"

falt_status falt_explain(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                         const void *filter_values, double measure_seconds,
                         void (*report)(void *context, const falt_candidate *candidate), void *context) {
  if (device && device->described) measure_seconds = 0;
  return falt_explain_search(falt_solvers, device, problem, budget, filter_values, measure_seconds, report, context);
}

falt_status falt_plan_time(const falt_plan *plan, const falt_operands *operands, double seconds,
                           falt_candidate *candidate) {
  if (!candidate) return falt_fail(FALT_INVALID_ARGUMENT, "candidate: NULL; pass the struct to fill");
  if (!(seconds >= 0)) return falt_fail(FALT_INVALID_ARGUMENT, "seconds: %g is not a time; use 0 or more", seconds);
  FALT_TRY(falt_execute(plan, operands)); /* checks them, and warms the caches */
  falt_timing timing = falt_trial_time(plan, operands, seconds);
  FALT_TRY(falt_device_synchronize(plan->device)); /* what went wrong meanwhile shows here */
  falt_candidate_fill(candidate, plan, &timing);
  candidate->chosen = true;
  return FALT_OK;
}
