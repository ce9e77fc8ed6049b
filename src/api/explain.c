/* Public entries: explain and timing. */
#include "planner/explain.h"

#include "planner/trial.h"

#define FIRST_EXECUTION 0.25 /* of the progress of timing a plan that is slow; fast ones tell nothing */

falt_status falt_explain(falt_device *device, const falt_problem *problem, const falt_budget *budget,
                         const void *filter_values, double measure_seconds,
                         void (*report)(void *context, const falt_candidate *candidate), void *context) {
  if (!device || !problem) return falt_question_check(device, problem, budget);
  FALT_TRY(falt_problem_check_values(problem, filter_values));
  if (device->described) measure_seconds = 0;
  falt_call call;
  falt_call_begin(&call, &device->control, NULL);
  return falt_call_end(&call, falt_explain_search(falt_solvers, device, problem, budget, filter_values, measure_seconds,
                                                  report, context));
}

static falt_status measure(const falt_plan *plan, const falt_operands *operands, double seconds, falt_timing *timing) {
  const falt_progress_range all = falt_progress_enter(0, FIRST_EXECUTION);
  const falt_status status = falt_execute(plan, operands); /* checks them, and warms the caches */
  falt_progress_leave(all);
  FALT_TRY(status);
  falt_progress_enter(FIRST_EXECUTION, 1);
  const falt_status timed = falt_trial_time(plan, operands, seconds, timing);
  falt_progress_leave(all);
  FALT_TRY(timed);
  return falt_device_synchronize(plan->device); /* errors of earlier work appear here */
}

falt_status falt_plan_time(const falt_plan *plan, const falt_operands *operands, double seconds,
                           falt_candidate *candidate) {
  if (!candidate) return falt_fail(FALT_INVALID_ARGUMENT, "candidate: NULL; pass the struct to fill");
  if (!(seconds >= 0)) return falt_fail(FALT_INVALID_ARGUMENT, "seconds: %g is not a time; use 0 or more", seconds);
  if (!plan) return falt_execute(plan, operands); /* its message names the missing library */
  falt_timing timing;
  falt_call call;
  falt_call_begin(&call, &plan->device->control, "measure");
  FALT_TRY(falt_call_end(&call, measure(plan, operands, seconds, &timing)));
  falt_candidate_fill(candidate, plan, &timing);
  candidate->chosen = true;
  return FALT_OK;
}
