/* Explain: repeats the planner's search and reports each candidate. */
#include "planner/explain.h"

#include "planner/cost.h"
#include "planner/tune.h"

enum { PLAN_TEXT = 1024 };

/* Rates follow from the measured median if there is one, else from the estimate. */
static void fill_rates(falt_candidate *candidate, const falt_device *device, const falt_problem *problem) {
  falt_limit limit = falt_problem_limit(device, problem);
  double seconds = candidate->seconds_median > 0 ? candidate->seconds_median : candidate->predicted_seconds;
  candidate->flops = limit.flops;
  candidate->bytes = limit.bytes;
  candidate->bound = falt_limit_bound(&limit);
  if (!(seconds > 0)) return;
  candidate->gbytes_per_s = limit.bytes / seconds * 1e-9;
  candidate->gflops = limit.flops / seconds * 1e-9;
  candidate->limit_share = limit.seconds / seconds;
}

void falt_candidate_fill(falt_candidate *candidate, const falt_plan *plan, const falt_timing *timing) {
  *candidate = (falt_candidate){.solver = plan->solver->name,
                                .plan = "",
                                .predicted_seconds = plan->cost.seconds,
                                .seconds_median = timing->median,
                                .seconds_min = timing->min,
                                .workspace_bytes = plan->workspace,
                                .error = plan->cost.error};
  fill_rates(candidate, plan->device, &plan->problem);
}

static void print_plan(const falt_plan *plan, char text[PLAN_TEXT]) {
  falt_text out = falt_text_over(text, PLAN_TEXT);
  plan->table->print(plan, &out);
}

static void fill_entry(falt_candidate *candidate, const falt_search *search, const falt_entry *entry, char *text) {
  *candidate = (falt_candidate){.solver = entry->solver->name};
  if (entry->plan)
    falt_candidate_fill(candidate, entry->plan, &(falt_timing){entry->median, entry->min});
  else
    fill_rates(candidate, search->device, &search->problem);
  candidate->plan = text;
  text[0] = '\0';
  if (entry->outcome <= FALT_LAST_RESORT)
    print_plan(entry->plan, text);
  else
    candidate->rejected = entry->reason;
  candidate->chosen = entry->plan && entry->plan == search->chosen;
  candidate->out_of_scope = !falt_solver_covers(entry->solver, &search->problem);
}

static void report_all(const falt_search *search, void (*report)(void *context, const falt_candidate *candidate),
                       void *context) {
  char text[PLAN_TEXT];
  falt_candidate candidate;
  for (int i = 0; i < search->count; i++) {
    fill_entry(&candidate, search, &search->entries[i], text);
    report(context, &candidate);
  }
}

falt_status falt_explain_search(const falt_solver *const *solvers, falt_device *device, const falt_problem *problem,
                                const falt_budget *budget, const void *filter_values, double measure_seconds,
                                void (*report)(void *context, const falt_candidate *candidate), void *context) {
  FALT_TRY(falt_question_check(device, problem, budget));
  if (!report) return falt_fail(FALT_INVALID_ARGUMENT, "report: NULL; pass the function to call for each candidate");
  if (!(measure_seconds >= 0))
    return falt_fail(FALT_INVALID_ARGUMENT, "measure_seconds: %g is not a time; use 0 or more", measure_seconds);
  falt_search search;
  falt_search_init(&search, solvers, device, problem, budget, filter_values);
  falt_status status = falt_search_run(&search, false);
  if (status == FALT_OK) falt_search_tune(&search);
  if (status == FALT_OK && falt_cancelled()) status = FALT_CANCELLED;
  if (status == FALT_OK && measure_seconds > 0) status = falt_search_measure(&search, measure_seconds);
  if (status == FALT_OK) {
    report_all(&search, report, context);
    if (!search.chosen) status = falt_search_failure(&search);
  }
  falt_search_close(&search, NULL);
  return status;
}
