/* Errors: a status to return, and one line for falt_message(). */
#ifndef FALT_CORE_STATUS_H
#define FALT_CORE_STATUS_H

#include "faltung/faltung.h"

/* Sets this thread's message and returns status: return falt_fail(FALT_INVALID_SIZE, "..."). */
falt_status falt_fail(falt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define FALT_TRY(expression)                      \
  do {                                            \
    falt_status try_status = (expression);        \
    if (try_status != FALT_OK) return try_status; \
  } while (0)

/* FALT_INVALID_ARGUMENT if a reserved field is not zero, because a later version may define it. FALT_CHECK_RESERVED
 * uses the variable's name as the struct's name. */
falt_status falt_check_reserved(const uint64_t *reserved, size_t count, const char *name, const char *filled_by);
#define FALT_CHECK_RESERVED(pointer, filled_by) \
  falt_check_reserved((pointer)->reserved, sizeof(pointer)->reserved / sizeof *(pointer)->reserved, #pointer, filled_by)

#endif
