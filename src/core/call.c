/* Public calls in progress: cancellation and progress reports. */
#include "core/call.h"

#include <string.h>

#include "core/clock.h"
#include "core/status.h"

static const double silence = 0.5; /* seconds at the beginning of a call in which nothing is reported */
static const double pause = 0.1;   /* between reports */

_Thread_local falt_place_in_call falt_here;

/* ---- reporting */

static void report(falt_call *call, double done) {
  call->reporting = true;
  if (!call->report(call->control->context, call->phase, done)) atomic_store(&call->refused, true);
  call->reporting = false;
  call->spoke = true;
}

/* The phase is over: its reports end with 1. */
static void report_end(falt_call *call) {
  if (call->report && call->spoke && !falt_call_is_over(call)) report(call, 1);
  call->spoke = false;
}

static bool is_due(const falt_call *call) {
  if (call->reporting) return false;
  const double now = falt_seconds_coarse();
  return now - call->began >= silence && now - call->told >= pause;
}

static void report_if_due(falt_call *call) {
  if (!is_due(call)) return;
  call->told = falt_seconds_coarse();
  report(call, call->done);
}

/* The call whose progress this thread may report, at a number of nested loops at most; or NULL. */
static falt_call *told_by_me(int depth) {
  falt_call *call = falt_here.call;
  return call && call->report && falt_here.owns && falt_here.depth <= depth ? call : NULL;
}

bool falt_progress_is_due(void) {
  const falt_call *call = told_by_me(1);
  return call && is_due(call);
}

void falt_progress_at(double done) {
  falt_call *call = told_by_me(1);
  if (!call) return;
  const double all = call->low + (call->high - call->low) * (done < 0 ? 0 : done > 1 ? 1 : done);
  if (all > call->done) call->done = all;
  report_if_due(call);
}

void falt_progress_tick(void) {
  falt_call *call = told_by_me(INT32_MAX);
  if (call) report_if_due(call);
}

falt_progress_range falt_progress_enter(double low, double high) {
  falt_call *call = told_by_me(0);
  if (!call) return (falt_progress_range){0, 0};
  const falt_progress_range before = {call->low, call->high};
  call->low = before.low + (before.high - before.low) * low;
  call->high = before.low + (before.high - before.low) * high;
  falt_progress_at(0);
  return before;
}

void falt_progress_leave(falt_progress_range before) {
  falt_call *call = told_by_me(0);
  if (!call) return;
  call->low = before.low;
  call->high = before.high;
}

static void begin_phase(falt_call *call, const char *phase) {
  call->phase = phase ? phase : "plan";
  call->low = call->done = 0;
  call->high = 1;
}

void falt_progress_phase(const char *phase) {
  falt_call *call = told_by_me(0);
  if (!call || call->keeps_phase || !phase || strcmp(call->phase, phase) == 0) return;
  report_end(call);
  begin_phase(call, phase);
}

/* ---- calls */

void falt_call_begin(falt_call *call, const falt_control *control, const char *phase) {
  call->nested = falt_here.call != NULL;
  if (call->nested) {
    falt_progress_phase(phase);
    return;
  }
  call->control = control;
  call->noted = atomic_load_explicit(&control->interrupts, memory_order_acquire) & ~UINT32_C(1);
  atomic_init(&call->refused, false);
  call->report = control->progress;
  if (call->report) {
    call->keeps_phase = phase != NULL;
    call->reporting = call->spoke = false;
    call->began = call->told = falt_seconds_coarse();
    begin_phase(call, phase);
  }
  falt_here.call = call;
  falt_here.owns = true;
}

static falt_status fail_cancelled(const falt_call *call) {
  if (atomic_load(&call->refused))
    return falt_fail(FALT_CANCELLED, "call: cancelled; the progress function returned false");
  return falt_fail(FALT_CANCELLED,
                   "call: cancelled by falt_device_interrupt; falt_device_resume lets the device work again");
}

falt_status falt_call_end(falt_call *call, falt_status status) {
  falt_call *all = falt_here.call;
  if (!call->nested) {
    if (status == FALT_OK) report_end(all);
    falt_here.call = NULL;
    falt_here.owns = false;
  }
  return falt_call_is_over(all) ? fail_cancelled(all) : status;
}
