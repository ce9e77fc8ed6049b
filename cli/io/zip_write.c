/* A ZIP archive of one stored member. zip64 records are written only where 32 bits do not suffice. The time stamp is
 * ZIP's first day: the same array gives the same file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/format.h"
#include "io/zip.h"

enum {
  CRC_OFFSET = 14, /* in the local header */
  FIRST_DAY = 1 << 5 | 1,
  FLAG_UTF8 = 1 << 11,
  UNIX_FILE = 0100644,
  RECORD_BYTES = 256 + ZIP_MAX_NAME /* more than all records together */
};

/* Little-endian bytes that grow. */
typedef struct record {
  unsigned char bytes[RECORD_BYTES];
  int64_t length;
} record;

static void put(record *r, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; i++) r->bytes[r->length++] = (unsigned char)(value >> 8 * i);
}

static void put_text(record *r, const char *text) {
  const size_t length = strlen(text);
  memcpy(r->bytes + r->length, text, length);
  r->length += (int64_t)length;
}

static bool is_large(int64_t size) {
  return size >= UINT32_MAX;
}

static uint64_t narrow(int64_t size) {
  return is_large(size) ? UINT32_MAX : (uint64_t)size;
}

/* From the version needed to the length of the name: the same in the local header and in the directory. */
static void put_common(record *r, const zip_writer *w) {
  bool ascii = true;
  for (const char *c = w->name; *c; c++) ascii &= (unsigned char)*c < 128;
  put(r, 2, is_large(w->size) ? 45 : 20);
  put(r, 2, ascii ? 0 : FLAG_UTF8);
  put(r, 2, ZIP_STORED);
  put(r, 2, 0); /* midnight */
  put(r, 2, FIRST_DAY);
  put(r, 4, w->crc);
  put(r, 4, narrow(w->size));
  put(r, 4, narrow(w->size));
  put(r, 2, strlen(w->name));
}

/* The zip64 field of a large member: both sizes. */
static void put_extra(record *r, const zip_writer *w) {
  if (!is_large(w->size)) return;
  put(r, 2, 1);
  put(r, 2, 16);
  put(r, 8, (uint64_t)w->size);
  put(r, 8, (uint64_t)w->size);
}

static void put_local(record *r, const zip_writer *w) {
  put_text(r, "PK\3\4");
  put_common(r, w);
  put(r, 2, is_large(w->size) ? 20 : 0);
  put_text(r, w->name);
  put_extra(r, w);
}

static void put_directory(record *r, const zip_writer *w) {
  put_text(r, "PK\1\2");
  put(r, 2, 3 << 8 | 45); /* made by: Unix */
  put_common(r, w);
  put(r, 2, is_large(w->size) ? 20 : 0);
  put(r, 2, 0); /* comment */
  put(r, 2, 0); /* disk */
  put(r, 2, 0); /* not text */
  put(r, 4, (uint64_t)UNIX_FILE << 16);
  put(r, 4, 0); /* offset of the local header */
  put_text(r, w->name);
  put_extra(r, w);
}

/* The zip64 end record and its locator, for a directory of `bytes` at `start`. */
static void put_end64(record *r, int64_t start, int64_t bytes) {
  put_text(r, "PK\6\6");
  put(r, 8, 44); /* bytes that follow */
  put(r, 2, 3 << 8 | 45);
  put(r, 2, 45);
  put(r, 8, 0); /* disks */
  put(r, 8, 1); /* entries on this disk, and in all */
  put(r, 8, 1);
  put(r, 8, (uint64_t)bytes);
  put(r, 8, (uint64_t)start);
  put_text(r, "PK\6\7");
  put(r, 4, 0);
  put(r, 8, (uint64_t)(start + bytes));
  put(r, 4, 1);
}

static void put_end(record *r, int64_t start) {
  const int64_t bytes = r->length;
  if (is_large(start)) put_end64(r, start, bytes);
  put_text(r, "PK\5\6");
  put(r, 4, 0); /* disks */
  put(r, 2, 1);
  put(r, 2, 1);
  put(r, 4, (uint64_t)bytes);
  put(r, 4, narrow(start));
  put(r, 2, 0); /* comment */
}

static bool set_name(zip_writer *w, io_error *error) {
  const char *name = w->output->member ? w->output->member : "arr_0";
  const size_t length = strlen(name);
  const bool has_extension = length >= 4 && strcmp(name + length - 4, ".npy") == 0;
  if (length == 0)
    return io_fail(error, "%s: no name follows the colon; name the array or leave the colon out", w->output->path);
  if (length + 4 >= ZIP_MAX_NAME)
    return io_fail(error, "%s: the array's name has %zu bytes; take a shorter one", w->output->path, length);
  snprintf(w->name, sizeof w->name, "%s%s", name, has_extension ? "" : ".npy");
  return true;
}

bool zip_begin(zip_writer *writer, const io_output *output, int64_t size, io_error *error) {
  record local = {.length = 0};
  int64_t total;
  writer->output = output;
  writer->size = size;
  writer->crc = 0;
  if (!set_name(writer, error)) return false;
  put_local(&local, writer);
  if (__builtin_add_overflow(size, local.length + RECORD_BYTES, &total))
    return io_fail(error, "%s: would need more than 2^63 bytes; write a smaller array", output->path);
  return (!output->temporary || io_output_reserve(output, size + local.length, error)) &&
         io_output_write(output, local.bytes, local.length, error);
}

bool zip_write(zip_writer *writer, const void *data, int64_t bytes, io_error *error) {
  writer->crc = zip_crc(writer->crc, data, (size_t)bytes);
  return io_output_write(writer->output, data, bytes, error);
}

bool zip_finish(zip_writer *writer, io_error *error) {
  record local = {.length = 0}, end = {.length = 0};
  put_local(&local, writer);
  put_directory(&end, writer);
  put_end(&end, local.length + writer->size);
  if (pwrite(writer->output->fd, local.bytes + CRC_OFFSET, 4, CRC_OFFSET) != 4)
    return io_fail(error, "%s: cannot be written: %s; check the path", writer->output->path, strerror(errno));
  return io_output_write(writer->output, end.bytes, end.length, error);
}
