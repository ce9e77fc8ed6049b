/* Streaming copies of large blocks. */
#ifndef FALT_CORE_COPY_H
#define FALT_CORE_COPY_H

#include <stddef.h>

/* memcpy with non-temporal stores if the processor has them: no line is fetched only to be overwritten. */
void falt_copy_stream(void *to, const void *from, size_t bytes);

/* memcpy and memset for gigabytes: they end early once the call is cancelled (core/call.h). */
void falt_copy_large(void *to, const void *from, size_t bytes);
void falt_fill_large(void *to, int byte, size_t bytes);

#endif
