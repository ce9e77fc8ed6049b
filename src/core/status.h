/* Errors: a status to return and one line for falt_message(). */
#ifndef FALT_CORE_STATUS_H
#define FALT_CORE_STATUS_H

#include "faltung/faltung.h"

/* Sets this thread's message and returns status, so that a check reads: return falt_fail(FALT_INVALID_SIZE, "..."). */
falt_status falt_fail(falt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define FALT_TRY(expression)                      \
  do {                                            \
    falt_status try_status = (expression);        \
    if (try_status != FALT_OK) return try_status; \
  } while (0)

#endif
