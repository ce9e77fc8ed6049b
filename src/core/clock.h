/* Monotonic time. */
#ifndef FALT_CORE_CLOCK_H
#define FALT_CORE_CLOCK_H

double falt_seconds(void);
/* The same clock to some milliseconds, which costs less to read. */
double falt_seconds_coarse(void);

#endif
