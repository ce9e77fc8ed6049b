/* Streaming copies with 16-byte non-temporal stores, which write-combining buffers merge into whole lines. */
#include "core/copy.h"

#include <stdint.h>
#include <string.h>

#include "core/call.h"

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LEAST = 4096, LINE = 64 };

/* Copies whole lines to an aligned address; the caller copies the rest. */
static size_t stream_lines(char *to, const char *from, size_t bytes) {
  size_t done = 0;
  for (; done + LINE <= bytes; done += LINE) {
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + done));
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + done + 16));
    const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + done + 32));
    const __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + done + 48));
    _mm_stream_si128((__m128i *)(void *)(to + done), a);
    _mm_stream_si128((__m128i *)(void *)(to + done + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + done + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + done + 48), d);
  }
  _mm_sfence();
  return done;
}

void falt_copy_stream(void *to, const void *from, size_t bytes) {
  if (bytes < LEAST) {
    memcpy(to, from, bytes);
    return;
  }
  const size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
  memcpy(to, from, head);
  const size_t done = head + stream_lines((char *)to + head, (const char *)from + head, bytes - head);
  memcpy((char *)to + done, (const char *)from + done, bytes - done);
}
#else
void falt_copy_stream(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}
#endif

enum { CHUNK = 8 << 20 }; /* some milliseconds, page faults included */

static size_t chunk_of(size_t left) {
  return left < CHUNK ? left : CHUNK;
}

void falt_copy_large(void *to, const void *from, size_t bytes) {
  for (size_t at = 0; at < bytes && !falt_cancelled(); at += CHUNK)
    memcpy((char *)to + at, (const char *)from + at, chunk_of(bytes - at));
}

void falt_fill_large(void *to, int byte, size_t bytes) {
  for (size_t at = 0; at < bytes && !falt_cancelled(); at += CHUNK) memset((char *)to + at, byte, chunk_of(bytes - at));
}
