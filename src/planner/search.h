/* The search: asks every solver, checks every plan against the budget, and chooses the fastest that fits. The list of
 * solvers is an argument, so tests can pass their own. */
#ifndef FALT_PLANNER_SEARCH_H
#define FALT_PLANNER_SEARCH_H

#include "planner/planner.h"

typedef enum falt_outcome {
  FALT_FITS,
  FALT_LAST_RESORT,    /* fits, and is chosen only if nothing else does */
  FALT_BY_NAME_ONLY,   /* would fit had it been named */
  FALT_OTHER_METHOD,   /* another one was named */
  FALT_OVER_WORKSPACE, /* the budget excludes it ... */
  FALT_NOT_DETERMINISTIC,
  FALT_TRANSFORMS,
  FALT_INEXACT,
  FALT_NOT_READY,      /* fitted, and could not be made ready to run */
  FALT_INAPPLICABLE,   /* the solver said no */
  FALT_SHORT_OF_MEMORY /* the solver could not allocate its plan */
} falt_outcome;

typedef struct falt_entry {
  const falt_solver *solver;
  falt_plan *plan; /* NULL when the solver said no */
  falt_outcome outcome;
  falt_status status; /* why it did not, where the outcome is FALT_NOT_READY */
  int order;          /* in the list: breaks ties */
  double steady;      /* seconds on the steady device, by which alone plans are chosen then; 0: there is none */
  double median, min; /* seconds; 0 unless measured */
  char reason[160];   /* the reason that it does not fit; empty if it does */
} falt_entry;

typedef struct falt_search {
  const falt_solver *const *solvers;
  falt_device *device;
  falt_problem problem; /* filter_when follows filter_values */
  falt_budget budget;
  const void *filter_values;
  int depth;
  bool own_gaps;       /* as the question has it */
  uint64_t pick;       /* the same */
  falt_entry *entries; /* best first, the rejected last */
  int count;
  const falt_plan *chosen; /* one of the entries', or NULL */
  bool from_wisdom;        /* chosen because it was the fastest when measured */
} falt_search;

/* Fills the question; entries stay empty. */
void falt_search_init(falt_search *search, const falt_solver *const *solvers, falt_device *device,
                      const falt_problem *problem, const falt_budget *budget, const void *filter_values);
/* Asks every solver of the device, or only the one that the budget names if `only_named`; sorts and chooses, by wisdom
 * if there is any. Fails only with FALT_NO_MEMORY, FALT_INVALID_METHOD or FALT_CANCELLED; finding nothing leaves chosen
 * NULL. */
falt_status falt_search_run(falt_search *search, bool only_named);
/* Makes an entry's plan ready to run. False if that fails: the entry is then rejected with the reason and its plan
 * destroyed; sort again. */
bool falt_entry_ready(falt_entry *entry);
/* Sorts by measured time, else by the estimate; for deterministic problems by the steady device's estimate. */
void falt_search_sort(falt_search *search);
/* Chooses the best that can be made ready: by wisdom if there is any, else the first. */
void falt_search_choose(falt_search *search);
/* Why chosen is NULL, as the status and message of the whole search. */
falt_status falt_search_failure(const falt_search *search);
/* Destroys every plan but one (NULL: all). */
void falt_search_close(falt_search *search, const falt_plan *keep);

/* Entries that fit and compete; they come first. */
int falt_search_fitting(const falt_search *search);
/* The key of the problem in wisdom, and the hash of the solvers that competed. False if the key is too long. */
bool falt_search_key(const falt_search *search, char *line, size_t size, uint64_t *among);

/* Makes the fallback of a plan, by its solver's `fallbacks`, in no more workspace than the plan has. False with
 * ask->reason set if there is none. */
bool falt_fallback_make(falt_plan *plan, falt_ask *ask);

/* Checks device, problem and budget (which may be NULL). */
falt_status falt_question_check(const falt_device *device, const falt_problem *problem, const falt_budget *budget);

/* falt_plan_create over a list of solvers. */
falt_status falt_plan_search(falt_plan **plan, const falt_solver *const *solvers, falt_device *device,
                             const falt_problem *problem, const falt_budget *budget, const void *filter_values);

#endif
