/* Files as rows of samples. The command opens, reads and writes every format through this interface. A row is one step
 * of the slowest axis: a line of an image, a plane of a volume, a frame of audio, a[i] of an array. */
#ifndef FALT_CLI_IO_H
#define FALT_CLI_IO_H

#include "faltung/faltung.h"

/* Samples are interleaved: element (z, y, x, channel) of a row-major d x h x w x channels array. The slowest axis is d
 * for volumes (space 3), h for images (space 2), w for signals (space 1). */

/* One line for the user: "what: why; what to do", without the leading "faltung: ". */
typedef struct io_error {
  char text[512];
} io_error;

typedef struct io_info {
  falt_type type;
  int space;                  /* 1, 2 or 3 */
  int64_t size[3];            /* d, h, w; 1 where absent */
  int64_t channels;           /* interleaved; 1 if none */
  int64_t pages;              /* consecutive images of these sizes: frames of an animation, pages of a TIFF; or 1 */
  int64_t in_file;            /* pages of the file, of which `pages` are read */
  double rate;                /* audio frames per second of the input, else 0 */
  int64_t step[3], origin[3]; /* output sample i is at input sample origin + i * step, along d, h, w */
} io_info;

/* How to read a file. Zeros: by its content, all pages, in order. */
typedef struct io_request {
  int space;    /* how many axes are space, 1 to 3; 0: as the file looks */
  bool volume;  /* without `space`: an array of three axes is a volume, also if its last axis has 2 to 4 elements */
  int64_t page; /* one page, from 1; 0: all */
  bool random;  /* rows in any order; otherwise each row is read once, in rising order, with bounded memory */
} io_request;

typedef struct io_reader io_reader;
typedef struct io_writer io_writer;

/* Elements of one row and rows of one page, from an info that io_open returned (checked against overflow there). */
int64_t io_row_elements(const io_info *info);
int64_t io_rows(const io_info *info);

/* Opens path by its extension (behind .npz a colon and the array's name may follow; "-" is standard input, whose first
 * bytes tell the format) and checks everything that can be checked before reading. An .npy of rank 1, 2, 3 is a signal,
 * image, volume; rank 3 with a last axis of 2 to 4 is an image of interleaved pixels, unless the request says
 * otherwise. Other formats know their space, and a request for another is refused. Returns NULL and fills *error. */
io_reader *io_open(const char *path, const io_request *request, io_error *error);
const io_info *io_reader_info(const io_reader *reader);
/* Reads rows [first, first + count), counted through all pages, into buffer of count * io_row_elements elements. */
bool io_read(io_reader *reader, int64_t first, int64_t count, void *buffer, io_error *error);
void io_close(io_reader **reader);

/* Whether such a file holds several pages; false for one that cannot be written. See io_create. */
bool io_holds_pages(const char *path, const char *format);

/* Creates path ("-" is standard output) under a temporary name beside it. format is an extension without its dot; NULL:
 * the path's own, .npy for standard output. like, if not NULL, lends its metadata,
 * colour profile, rate and header. A type that the format cannot hold is an error that names those it can. Zero pages
 * and steps count as 1. */
io_writer *io_create(const char *path, const char *format, const io_info *info, const io_reader *like, io_error *error);
/* Writes the next count rows, page after page. */
bool io_write(io_writer *writer, int64_t count, const void *buffer, io_error *error);
/* Completes the file, syncs it and gives it its name. On failure the temporary is removed. */
bool io_finish(io_writer **writer, io_error *error);
/* Gives up: removes the temporary. Accepts NULL. */
void io_abandon(io_writer **writer);

/* Whole arrays of any rank, for layers: .npy and .npz only. */
typedef struct io_array {
  falt_type type;
  int rank; /* 0 to 8 */
  int64_t size[8];
  int64_t count; /* product of the sizes */
  void *data;    /* C order; free with io_array_free */
} io_array;
bool io_array_read(const char *path, io_array *array, io_error *error);
void io_array_free(io_array *array);

/* Creates the file of an array before it is computed, under a temporary name, so that errors are reported before the
 * work. NULL fills *error. */
typedef struct io_array_writer io_array_writer;
io_array_writer *io_array_create(const char *path, io_error *error);
bool io_array_write(io_array_writer *writer, const io_array *array, io_error *error);
/* Gives the file its name, and releases the writer in both cases. */
bool io_array_finish(io_array_writer **writer, io_error *error);
/* Removes the temporary. Accepts *writer NULL. */
void io_array_abandon(io_array_writer **writer);

/* One line a format: name, extensions, "found 8.14.1" or "not found: apt install libvips-dev". i from 0 until false. */
bool io_format(int i, const char **name, const char **extensions, const char **state);

#endif
