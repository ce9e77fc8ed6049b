/* ZIP archives as numpy.savez writes and numpy.load reads them (PKWARE's APPNOTE 6.3): reads one stored or deflated
 * member in order, and writes one stored member. */
#ifndef FALT_CLI_IO_ZIP_H
#define FALT_CLI_IO_ZIP_H

#include <sys/types.h>

#include "io/io.h"
#include "io/output.h"

/* Continues the CRC-32 `crc` with these bytes; start with 0. */
uint32_t zip_crc(uint32_t crc, const void *data, size_t bytes);

/* ---- the directory */

typedef struct zip_member {
  unsigned method; /* ZIP_STORED or ZIP_DEFLATED */
  uint32_t crc;
  int64_t offset; /* of the data in the file */
  int64_t packed; /* bytes in the file */
  int64_t size;   /* uncompressed bytes: at most 1032 times as many */
} zip_member;
enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

/* Finds the array `name`, with or without ".npy"; NULL: the only one. All offsets and sizes are within the file. */
bool zip_find(int fd, const char *path, const char *name, zip_member *member, io_error *error);

/* ---- reading */

typedef struct zip_reader zip_reader;

/* Takes fd over; path is for messages. NULL with *error. */
zip_reader *zip_open(int fd, const char *path, const char *name, io_error *error);
/* Bytes that are still to be read. */
int64_t zip_left(const zip_reader *reader);
/* Reads up to `bytes` bytes; 0 at the end, -1 with *error. The last byte comes only if the checksum is right. */
ssize_t zip_read(zip_reader *reader, void *buffer, size_t bytes, io_error *error);
/* Accepts NULL. */
void zip_close(zip_reader *reader);

/* Deflate, by zlib. NULL: out of memory, or this build has no zlib. */
typedef struct zip_inflater zip_inflater;
extern const bool zip_inflates; /* whether this build has zlib */
zip_inflater *zip_inflater_new(void);
/* Takes bytes from *from and writes to *to, advancing both; false if the data is damaged. Stops when either side has
 * none left, or at the end of the compressed data, where *ended is set. */
bool zip_inflate(zip_inflater *inflater, const void **from, size_t *available, void **to, size_t *room, bool *ended);
void zip_inflater_free(zip_inflater *inflater);

/* ---- writing */

enum { ZIP_MAX_NAME = 1024 };

typedef struct zip_writer {
  const io_output *output;
  char name[ZIP_MAX_NAME]; /* of the member, with ".npy" */
  int64_t size;            /* of the member */
  uint32_t crc;
} zip_writer;

/* Begins an archive of one member of `size` bytes: output->member, or arr_0. */
bool zip_begin(zip_writer *writer, const io_output *output, int64_t size, io_error *error);
bool zip_write(zip_writer *writer, const void *data, int64_t bytes, io_error *error);
/* Writes the checksum and the directory. */
bool zip_finish(zip_writer *writer, io_error *error);

#endif
