/* Copying what is not read again soon. */
#ifndef FALT_CORE_COPY_H
#define FALT_CORE_COPY_H

#include <stddef.h>

/* memcpy whose stores pass by the caches where the processor can: no line is fetched only to be overwritten. */
void falt_copy_stream(void *to, const void *from, size_t bytes);

#endif
