/* Samples of one channel among interleaved ones, as the numbers that a convolver takes. */
#ifndef FALT_CLI_SAMPLES_H
#define FALT_CLI_SAMPLES_H

#include <stdbool.h>

#include "faltung/faltung.h"

/* Whether audio files have samples of this type. */
bool cli_samples_known(falt_type type);
/* to[i] = from[i * step] for i < count, where `to` is f32 or f64. */
void cli_samples_load(const void *from, falt_type type, int64_t step, int64_t count, void *to, falt_type lane);
/* to[i * step] = alpha * from[i * skip] + beta for i < count, saturated into integers and rounded to the nearest
 * integer, ties to even. */
void cli_samples_store(const void *from, falt_type lane, int64_t skip, int64_t count, double alpha, double beta,
                       void *to, falt_type type, int64_t step);
/* The first and the last of the values (f32 or f64) that are not finite, which become zero; first > last: there are
 * none. */
void cli_samples_clean(void *values, falt_type lane, int64_t count, int64_t *first, int64_t *last);

#endif
