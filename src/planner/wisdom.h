/* Wisdom: the fastest measured solver of each problem on this device. A table behind a lock, used by planning and not
 * by execution, and its text format. */
#ifndef FALT_PLANNER_WISDOM_H
#define FALT_PLANNER_WISDOM_H

#include "planner/planner.h"

/*   faltung-wisdom 1 <hash of the solvers and the version> <device; processor>
 *   <solver> <seconds> <hash of the solvers that competed> <problem line with its budget>
 *
 * A file may hold several such sections, one for each device. */

enum { FALT_WISDOM_LINE = 2048, FALT_WISDOM_NAME = 32, FALT_WISDOM_FILE = 16 << 20 };

typedef struct falt_wisdom falt_wisdom;

falt_wisdom *falt_wisdom_create(void); /* NULL when memory is short */
void falt_wisdom_destroy(falt_wisdom *wisdom);
bool falt_wisdom_is_empty(falt_wisdom *wisdom);
void falt_wisdom_clear(falt_wisdom *wisdom);

/* The winner among these competitors for this problem line; false if none is remembered. */
bool falt_wisdom_find(falt_wisdom *wisdom, const char *line, uint64_t among, char solver[FALT_WISDOM_NAME]);
/* Stores an entry, replacing an older one. False if memory is short or the table is full. */
bool falt_wisdom_learn(falt_wisdom *wisdom, const char *line, uint64_t among, const char *solver, double seconds);
/* Adds everything of `other`, which is left empty. FALT_NO_MEMORY changes nothing. */
falt_status falt_wisdom_merge(falt_wisdom *wisdom, falt_wisdom *other);
/* Calls visit for each entry, under the lock. */
void falt_wisdom_each(falt_wisdom *wisdom,
                      void (*visit)(void *context, const char *line, uint64_t among, const char *solver,
                                    double seconds),
                      void *context);

/* Reads this device's sections of a text. Any text that falt_wisdom_export would not write is FALT_INVALID_TEXT and
 * changes nothing. *sections is the number of sections for this device. */
falt_status falt_wisdom_import(falt_device *device, const falt_solver *const *solvers, const char *text, size_t length,
                               int *sections);
/* Writes this device's section, then the sections of other devices that `old` (NULL: none) holds. Free with falt_free;
 * NULL when memory is short. */
char *falt_wisdom_export(const falt_device *device, const falt_solver *const *solvers, const char *old, size_t *length);

#endif
