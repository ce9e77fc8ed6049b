/* One member of a ZIP archive, read in order: stored or deflated bytes, and their CRC-32. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/format.h"
#include "io/zip.h"

enum { INPUT_BYTES = 1 << 16, SLICES = 8 };

struct zip_reader {
  int fd;
  char *path;
  zip_member member;
  int64_t position; /* bytes taken from the file */
  int64_t done;     /* bytes given to the caller */
  uint32_t crc;
  zip_inflater *inflater; /* NULL: stored */
  const void *input;      /* bytes that the inflater has not consumed */
  size_t available;
  unsigned char buffer[INPUT_BYTES];
};

/* ---- CRC-32, eight bytes at a time (Kounavis and Berry, 2005) */

static uint32_t crc_table[SLICES][256];

static void fill_crc_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    crc_table[0][i] = crc;
  }
  for (int slice = 1; slice < SLICES; slice++)
    for (int i = 0; i < 256; i++) {
      const uint32_t crc = crc_table[slice - 1][i];
      crc_table[slice][i] = crc >> 8 ^ crc_table[0][crc & 255];
    }
}

uint32_t zip_crc(uint32_t crc, const void *data, size_t bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_crc_table);
  const unsigned char *from = data;
  crc = ~crc;
  for (; bytes >= SLICES; bytes -= SLICES, from += SLICES) {
    uint32_t next = 0;
    for (int i = 0; i < SLICES; i++) {
      const uint32_t mask = i < 4 ? crc >> 8 * i & 255 : 0;
      next ^= crc_table[SLICES - 1 - i][from[i] ^ mask];
    }
    crc = next;
  }
  for (; bytes > 0; bytes--) crc = crc >> 8 ^ crc_table[0][(crc ^ *from++) & 255];
  return ~crc;
}

/* ---- reading */

zip_reader *zip_open(int fd, const char *path, const char *name, io_error *error) {
  zip_reader *reader = calloc(1, sizeof *reader);
  if (!reader) {
    close(fd);
    io_fail_memory(error, path);
    return NULL;
  }
  reader->fd = fd;
  reader->path = strdup(path);
  bool done = reader->path || io_fail_memory(error, path);
  done = done && zip_find(fd, path, name, &reader->member, error);
  if (done && reader->member.method == ZIP_DEFLATED) {
    reader->inflater = zip_inflater_new();
    done = reader->inflater || io_fail_memory(error, path);
  }
  if (done) return reader;
  zip_close(reader);
  return NULL;
}

int64_t zip_left(const zip_reader *reader) {
  return reader->member.size - reader->done;
}

void zip_close(zip_reader *reader) {
  if (!reader) return;
  close(reader->fd);
  zip_inflater_free(reader->inflater);
  free(reader->path);
  free(reader);
}

static bool damaged(const zip_reader *reader, const char *why, io_error *error) {
  return io_fail(error, "%s: is damaged: %s; copy or write it again", reader->path, why);
}

/* The next bytes of the member as the file has them, at least one; 0 with *error. */
static size_t fetch(zip_reader *reader, void *to, size_t bytes, io_error *error) {
  const int64_t left = reader->member.packed - reader->position;
  const size_t want = (int64_t)bytes < left ? bytes : (size_t)left;
  ssize_t n = 0;
  do n = want ? pread(reader->fd, to, want, (off_t)(reader->member.offset + reader->position)) : 0;
  while (n < 0 && errno == EINTR);
  if (n < 0) io_fail(error, "%s: cannot be read: %s; check the file", reader->path, strerror(errno));
  if (n == 0) damaged(reader, "its data ends early", error);
  if (n <= 0) return 0;
  reader->position += n;
  return (size_t)n;
}

/* Fills the buffer; 0 with *error. */
static size_t inflate_bytes(zip_reader *reader, void *buffer, size_t bytes, io_error *error) {
  void *to = buffer;
  size_t room = bytes;
  bool ended = false;
  while (room > 0) {
    if (reader->available == 0) {
      reader->input = reader->buffer;
      reader->available = fetch(reader, reader->buffer, INPUT_BYTES, error);
      if (reader->available == 0) return 0;
    }
    if (!zip_inflate(reader->inflater, &reader->input, &reader->available, &to, &room, &ended) || (ended && room > 0)) {
      damaged(reader, "its compressed data is wrong", error);
      return 0;
    }
  }
  return bytes;
}

ssize_t zip_read(zip_reader *reader, void *buffer, size_t bytes, io_error *error) {
  const int64_t left = zip_left(reader);
  const size_t want = (int64_t)bytes < left ? bytes : (size_t)left;
  if (want == 0) return 0;
  const size_t n = reader->inflater ? inflate_bytes(reader, buffer, want, error) : fetch(reader, buffer, want, error);
  if (n == 0) return -1;
  reader->done += (int64_t)n;
  reader->crc = zip_crc(reader->crc, buffer, n);
  const bool sound = zip_left(reader) > 0 || reader->crc == reader->member.crc;
  return sound || damaged(reader, "its checksum is wrong", error) ? (ssize_t)n : -1;
}
