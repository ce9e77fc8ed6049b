/* Tuning: executes the candidates on random data in the order of their estimates, until the time is over, and stores
 * the winner as wisdom. */
#include "planner/tune.h"

#include <math.h>

#include "core/clock.h"
#include "planner/trial.h"
#include "planner/wisdom.h"

static size_t largest_workspace(const falt_search *search, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; i++)
    if (search->entries[i].plan->workspace > bytes) bytes = search->entries[i].plan->workspace;
  return bytes;
}

/* Entry i of `count`, in the progress. */
static void measure(falt_search *search, int i, int count, const falt_operands *operands, double seconds) {
  falt_entry *entry = &search->entries[i];
  if (!falt_entry_ready(entry)) return;
  const falt_progress_range all = falt_progress_enter((double)i / count, (double)(i + 1) / count);
  falt_timing timing;
  if (falt_trial_time(entry->plan, operands, seconds, &timing) != FALT_OK)
    timing = (falt_timing){INFINITY, INFINITY}; /* a plan that fails is not a candidate */
  falt_progress_leave(all);
  entry->median = timing.median;
  entry->min = timing.min;
}

/* The first is always measured; later ones while time is left for at least one run as predicted. */
static void measure_within(falt_search *search, int count, const falt_operands *operands, double seconds) {
  double end = falt_seconds() + seconds;
  falt_progress_phase("tune");
  for (int i = 0; i < count && !falt_cancelled(); i++) {
    double left = end - falt_seconds();
    if (i > 0 && !(search->entries[i].plan->cost.seconds < left)) break;
    measure(search, i, count, operands, left / (count - i));
  }
}

static void remember(const falt_search *search) {
  char line[FALT_WISDOM_LINE];
  uint64_t among;
  const falt_entry *best = &search->entries[0];
  if (search->device->wisdom && falt_search_key(search, line, sizeof line, &among))
    falt_wisdom_learn(search->device->wisdom, line, among, best->solver->name, best->min);
}

void falt_search_tune(falt_search *search) {
  int count = falt_search_fitting(search);
  falt_trial trial;
  if (!(search->budget.tune_seconds > 0) || count < 2 || search->budget.method[0] || search->from_wisdom) return;
  if (search->budget.deterministic) return; /* another run would measure something else */
  if (falt_trial_open(&trial, search->device, &search->problem, largest_workspace(search, count)) != FALT_OK) return;
  measure_within(search, count, &trial.operands, search->budget.tune_seconds);
  falt_trial_close(&trial);
  if (falt_cancelled()) return;
  falt_search_sort(search);
  falt_search_choose(search);
  if (search->chosen == search->entries[0].plan) remember(search);
}

/* The entries, which are in the order of their estimates, up to one of which an execution is predicted to take longer
 * than `seconds` and either ten times as long as the first's or LONG. Of last resorts up to `seconds`. */
static int worth_measuring(const falt_search *search, double seconds) {
  static const double LONG = 10;
  const int fitting = falt_search_fitting(search);
  int count = 0;
  for (; count < search->count; count++) {
    const falt_entry *entry = &search->entries[count], *first = search->entries;
    const bool last_resort = entry->outcome == FALT_LAST_RESORT;
    if (count >= fitting && !last_resort) break;
    const double most = last_resort && count > 0 ? 0 : fmin(10 * first->plan->cost.seconds, LONG);
    if (entry->plan->cost.seconds > fmax(seconds, most)) break;
  }
  return count;
}

/* Without memory for the operands nothing is measured. */
falt_status falt_search_measure(falt_search *search, double seconds) {
  int count = worth_measuring(search, seconds);
  if (count == 0) return FALT_OK;
  falt_trial trial;
  const falt_status opened =
      falt_trial_open(&trial, search->device, &search->problem, largest_workspace(search, count));
  if (opened != FALT_OK) return opened == FALT_NO_MEMORY ? FALT_OK : opened;
  falt_progress_phase("measure");
  for (int i = 0; i < count && !falt_cancelled(); i++) measure(search, i, count, &trial.operands, seconds);
  falt_trial_close(&trial);
  if (falt_cancelled()) return FALT_CANCELLED;
  falt_search_sort(search);
  return FALT_OK;
}
