/* Monotonic time. */
#ifndef FALT_CORE_CLOCK_H
#define FALT_CORE_CLOCK_H

double falt_seconds(void);

#endif
