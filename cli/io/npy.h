/* The .npy reader on a descriptor, for plain files and archive members. io_open, io_array_read and the fuzzers use it.
 */
#ifndef FALT_CLI_IO_NPY_H
#define FALT_CLI_IO_NPY_H

#include "io/npy_header.h"
#include "io/zip.h"

/* An open file or stream whose header has been read. */
typedef struct npy_file {
  char *name; /* for messages */
  int fd;
  zip_reader *archive; /* the archive of a member; else NULL */
  bool seekable;       /* a regular file: rows in any order, and its size is known to suffice */
  int64_t base;        /* where the elements begin */
  int64_t position;    /* bytes of elements consumed, where not seekable */
  char *whole;         /* all elements, once they had to be read together; else NULL */
  npy_header header;
} npy_file;

/* Takes fd over (standard input is left open). Checks header and file size before anything is allocated. */
bool npy_open_fd(npy_file *file, int fd, const char *name, io_error *error);
/* The same for an array of an archive; member as for zip_find. */
bool npy_open_archive(npy_file *file, int fd, const char *name, const char *member, io_error *error);
/* "-" is standard input; an archive is recognised by its extension, and its member follows a colon. */
bool npy_open_path(npy_file *file, const char *path, io_error *error);
/* Steps [first, first + count) of the first axis, in C order, of header.type in this machine's byte order. Fails at an
 * integer that f64 does not hold. */
bool npy_read_rows(npy_file *file, int64_t first, int64_t count, void *buffer, io_error *error);
/* Reads all elements into file->whole, as stored. A stream's memory grows with the data, not with the declared size. */
bool npy_load(npy_file *file, io_error *error);
void npy_close(npy_file *file);

/* Bytes of one step along the first axis, as stored. */
int64_t npy_row_bytes(const npy_header *header);

#endif
