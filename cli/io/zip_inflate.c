/* Deflate (RFC 1951) by zlib, where the build found it. Without zlib stored members still work. */
#include <stdlib.h>

#include "io/zip.h"

#ifdef FALT_ZLIB_VERSION

#include <zlib.h>

struct zip_inflater {
  z_stream stream;
};

const bool zip_inflates = true;

zip_inflater *zip_inflater_new(void) {
  zip_inflater *inflater = calloc(1, sizeof *inflater);
  if (!inflater || inflateInit2(&inflater->stream, -MAX_WBITS) == Z_OK) return inflater; /* negative: no header */
  free(inflater);
  return NULL;
}

bool zip_inflate(zip_inflater *inflater, const void **from, size_t *available, void **to, size_t *room, bool *ended) {
  enum { MOST = 1 << 30 }; /* zlib counts in 32 bits */
  z_stream *z = &inflater->stream;
  const uInt given = *available < MOST ? (uInt)*available : MOST, place = *room < MOST ? (uInt)*room : MOST;
  z->next_in = (z_const Bytef *)*from;
  z->avail_in = given;
  z->next_out = *to;
  z->avail_out = place;
  const int status = inflate(z, Z_NO_FLUSH);
  *from = z->next_in;
  *available -= given - z->avail_in;
  *to = z->next_out;
  *room -= place - z->avail_out;
  *ended = status == Z_STREAM_END;
  return status == Z_OK || status == Z_STREAM_END;
}

void zip_inflater_free(zip_inflater *inflater) {
  if (inflater) inflateEnd(&inflater->stream);
  free(inflater);
}

#else

const bool zip_inflates = false;

zip_inflater *zip_inflater_new(void) {
  return NULL;
}

bool zip_inflate(zip_inflater *inflater, const void **from, size_t *available, void **to, size_t *room, bool *ended) {
  (void)inflater, (void)from, (void)available, (void)to, (void)room, (void)ended;
  return false;
}

void zip_inflater_free(zip_inflater *inflater) {
  (void)inflater;
}

#endif
