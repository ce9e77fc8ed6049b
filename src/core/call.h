/* Public calls in progress: cancellation and progress. */
#ifndef FALT_CORE_CALL_H
#define FALT_CORE_CALL_H

#include <stdatomic.h>

#include "faltung/faltung.h"

/* The outermost public function on a thread opens a call on a device's control; nested calls share it, on this thread
 * and inside parallel loops. Long work polls falt_cancelled. Once true, it stays true and the output is undefined:
 * loops end, and falt_call_end returns FALT_CANCELLED. */

/* The controls of a device's calls: interruption and progress. */
typedef struct falt_control {
  _Atomic uint32_t interrupts; /* odd while interrupted; a call ends when it is not the even number that it noted */
  falt_progress progress;      /* NULL: no report */
  void *context;
} falt_control;

typedef struct falt_call {
  const falt_control *control;
  uint32_t noted;
  atomic_bool refused; /* the progress function returned false */
  bool nested;         /* nested in an outer call */
  /* progress; of the calling thread alone */
  falt_progress report; /* NULL: no report */
  const char *phase;
  bool keeps_phase;       /* parts do not change it */
  bool reporting, spoke;  /* inside report; reported since the phase began */
  double began, told;     /* seconds of the coarse clock */
  double low, high, done; /* the current part of [0, 1]; its progress */
} falt_call;

/* Where this thread is. */
typedef struct falt_place_in_call {
  falt_call *call; /* NULL: in no public call */
  int depth;       /* of bodies of parallel loops */
  bool owns;       /* made the call, and reports its progress */
} falt_place_in_call;
extern _Thread_local falt_place_in_call falt_here;

/* Opens a call, or joins the one that this thread is in. `phase` names its progress; NULL leaves that to its parts. */
void falt_call_begin(falt_call *call, const falt_control *control, const char *phase);
/* Ends it: FALT_CANCELLED where it was cancelled, else `status`. */
falt_status falt_call_end(falt_call *call, falt_status status);

/* Whether a call, which may be NULL, was cancelled: two loads. */
static inline bool falt_call_is_over(const falt_call *call) {
  return call && (atomic_load_explicit(&call->control->interrupts, memory_order_relaxed) != call->noted ||
                  atomic_load_explicit(&call->refused, memory_order_relaxed));
}

/* The next two exist only if progress is reported. */
void falt_progress_tick(void);
bool falt_progress_is_due(void);

/* Whether the call that this thread works for was cancelled. Poll it at least every 10 ms; also calls the progress
 * function if it is due. False outside of calls. */
static inline bool falt_cancelled(void) {
  if (falt_here.call && falt_here.call->report) falt_progress_tick();
  return falt_call_is_over(falt_here.call);
}

/* Starts a phase of a call that was opened without one: progress restarts. */
void falt_progress_phase(const char *phase);
/* Whether a progress report is due: requested, on this thread, and not just made. */
static inline bool falt_progress_due(void) {
  return falt_here.call && falt_here.call->report && falt_progress_is_due();
}
/* Reports the progress of the current part, in [0, 1]. Ignored inside nested loops. */
void falt_progress_at(double done);

/* Until falt_progress_leave, progress tells of [low, high] of the part that went on before. */
typedef struct falt_progress_range {
  double low, high;
} falt_progress_range;
falt_progress_range falt_progress_enter(double low, double high);
void falt_progress_leave(falt_progress_range before);

#endif
