/* The interface of one file format to io.h: a table of functions. .npy is built in. Other formats are modules that are
 * loaded with the first such file, because their libraries take longer to load than a small image takes to filter. */
#ifndef FALT_CLI_IO_FORMAT_H
#define FALT_CLI_IO_FORMAT_H

#include <limits.h>

#include "io/io.h"
#include "io/output.h"

/* Raised with every change of io_backend, or of a struct that it takes; a module of another version is refused. */
enum { IO_BACKEND_VERSION = 3 };

/* The symbol that a module exports: a const io_backend. */
#define IO_BACKEND_SYMBOL "io_backend_export"

typedef struct io_backend {
  int version;
  unsigned spaces; /* bit s: holds arrays of space s */
  /* Bit t: files with this extension (lower case, with its dot) hold samples of falt_type t. 0: cannot be written. */
  unsigned (*types)(const char *extension);
  /* Whether files with this extension hold several pages. NULL: none do. */
  bool (*pages)(const char *extension);
  /* Opens path, fills *info except for the fields that io.c checks, returns the reader's state or NULL. */
  void *(*open)(const char *path, const io_request *request, io_info *info, io_error *error);
  bool (*read)(void *reader, int64_t first, int64_t count, void *buffer, io_error *error);
  void (*close)(void *reader);
  /* Begins the file output->temporary. like is the state of a reader of the same format, or NULL. It may be closed
   * before the writer is finished. */
  void *(*create)(const io_output *output, const io_info *info, const void *like, io_error *error);
  bool (*write)(void *writer, int64_t count, const void *buffer, io_error *error);
  /* Finishes the file, or drops it; releases the writer in both cases. io.c syncs and renames. */
  bool (*finish)(void *writer, io_error *error);
  void (*abandon)(void *writer);
} io_backend;

/* Writes the line and returns false, for use in a return statement. */
bool io_fail(io_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool io_fail_memory(io_error *error, const char *path);

/* Integers that no falt_type has. They are read as f64. */
typedef enum io_wide { IO_NARROW, IO_U32, IO_S64, IO_U64 } io_wide;

/* Converts count integers to f64; from may be the last bytes of to's memory, or to itself for 8-byte integers. Returns
 * the index of the first integer that f64 does not hold and writes its digits to text, or count. */
int64_t io_widen(io_wide kind, const void *from, int64_t count, double *to, char text[24]);

/* The built-in formats, .npy and .npz. */
extern const io_backend io_npy;

/* The extension of a path's file with its dot, in lower case, cut to size; ".nii.gz" counts as one. Empty if there is
 * none. */
void io_extension(const char *path, char *text, size_t size);

/* The file of a path, without the array that is named in it: "x.npz" of "x.npz:weight". Returns the array's name, or
 * NULL. *file is empty where the path is too long to be one. */
const char *io_split(const char *path, char file[PATH_MAX]);

/* Whether a path names an archive of arrays, or an array of one. */
bool io_is_archive(const char *path);

/* Whether a word of a list separated by blanks is the extension. */
bool io_lists(const char *list, const char *extension);

/* Rows of all pages. */
int64_t io_all_rows(const io_info *info);

/* io_row_elements in bytes. */
int64_t io_row_bytes(const io_info *info);

/* The backend for an extension, loading its module if needed; NULL with *error, which begins with the path, filled. */
const io_backend *io_backend_find(const char *path, const char *extension, io_error *error);

#endif
