/* Reads .npy: rows directly from the file to the caller's memory, streams and archive members in order. Fortran order
 * needs the whole array at once, for a blocked transposition. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/format.h"
#include "io/npy.h"
#include "io/standard.h"

enum {
  READ_CHUNK = 16 << 20, /* a signal waits for it */
  FIRST_GROWTH = 1 << 20,
  GATHER_ROWS = 64,
  GATHER_COLUMNS = 32,
  HUGE_PAGE = 2 << 20,
  SKIP_BYTES = 1 << 16
};

int64_t npy_row_bytes(const npy_header *header) {
  return header->rank == 0 ? header->bytes : header->size[0] == 0 ? 0 : header->bytes / header->size[0];
}

/* One read; offset < 0 reads a stream or a member of an archive. -1 with *error. */
static ssize_t read_some(const npy_file *file, void *to, size_t bytes, int64_t offset, io_error *error) {
  if (file->archive) return zip_read(file->archive, to, bytes, error);
  for (;;) {
    const ssize_t n = offset >= 0                ? pread(file->fd, to, bytes, (off_t)offset)
                      : file->fd == STDIN_FILENO ? io_standard_read(to, bytes)
                                                 : read(file->fd, to, bytes);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    io_fail(error, "%s: cannot be read: %s; check the file", file->name, strerror(errno));
    return -1;
  }
}

/* Reads until bytes are there or the input ends; the number read, or -1 with *error. */
static int64_t read_fully(const npy_file *file, void *buffer, int64_t bytes, int64_t offset, io_error *error) {
  int64_t done = 0;
  while (done < bytes) {
    const size_t want = bytes - done < READ_CHUNK ? (size_t)(bytes - done) : READ_CHUNK;
    const ssize_t n = read_some(file, (char *)buffer + done, want, offset >= 0 ? offset + done : -1, error);
    if (n < 0) return -1;
    if (n == 0) break;
    done += n;
  }
  return done;
}

/* got < 0: *error is filled already. */
static bool short_read(const npy_file *file, int64_t got, int64_t wanted, io_error *error) {
  return got >= 0 && io_fail(error, "%s: is truncated: %lld of %lld bytes are there; copy or write it again",
                             file->name, (long long)got, (long long)wanted);
}

/* ---------------------------------------------------------------------------------------------------- opening */

static bool read_header(npy_file *file, io_error *error) {
  unsigned char start[NPY_PRELUDE];
  int prelude = 10;
  int64_t text_length, n = read_fully(file, start, 10, -1, error);
  if (n < 10) return n >= 0 && io_fail(error, "%s: is too short for a .npy file; write it with numpy.save", file->name);
  if (!npy_prelude_parse(start, 10, &prelude, &text_length, file->name, error)) return false;
  if (prelude > 10) {
    n = read_fully(file, start + 10, prelude - 10, -1, error);
    if (n != prelude - 10) return short_read(file, n < 0 ? n : 10 + n, prelude, error);
    if (!npy_prelude_parse(start, prelude, &prelude, &text_length, file->name, error)) return false;
  }
  char *text = malloc((size_t)text_length + 1);
  if (!text) return io_fail_memory(error, file->name);
  n = read_fully(file, text, text_length, -1, error);
  const bool done = n == text_length ? npy_header_parse(&file->header, text, (size_t)text_length, file->name, error)
                                     : short_read(file, n < 0 ? n : prelude + n, prelude + text_length, error);
  free(text);
  return done;
}

/* A regular file must hold what its header declares. Standard input may be one too, and may be read from its middle. */
static bool check_size(npy_file *file, io_error *error) {
  struct stat status;
  if (fstat(file->fd, &status) != 0)
    return io_fail(error, "%s: cannot be read: %s; check the file", file->name, strerror(errno));
  if (S_ISDIR(status.st_mode)) return io_fail(error, "%s: is a directory; name a file in it", file->name);
  file->base = lseek(file->fd, 0, SEEK_CUR);
  file->seekable = S_ISREG(status.st_mode) && file->base >= 0;
  if (!file->seekable || status.st_size - file->base >= file->header.bytes) return true;
  return short_read(file, status.st_size > file->base ? status.st_size - file->base : 0, file->header.bytes, error);
}

bool npy_open_fd(npy_file *file, int fd, const char *name, io_error *error) {
  *file = (npy_file){.name = strdup(name), .fd = fd};
  struct stat status;
  bool done = file->name != NULL || io_fail_memory(error, name);
  if (done && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
    done = io_fail(error, "%s: is a directory; name a file in it", name);
  done = done && read_header(file, error) && check_size(file, error);
  if (!done) npy_close(file);
  return done;
}

/* A member that is longer than its array would never be read to its checksum. */
static bool check_member(const npy_file *file, io_error *error) {
  const int64_t left = zip_left(file->archive);
  return left == file->header.bytes ||
         io_fail(error, "%s: holds %lld bytes of elements where its header declares %lld; write it again", file->name,
                 (long long)left, (long long)file->header.bytes);
}

bool npy_open_archive(npy_file *file, int fd, const char *name, const char *member, io_error *error) {
  *file = (npy_file){.name = strdup(name), .fd = -1};
  file->archive = zip_open(fd, name, member, error);
  bool done = file->archive && (file->name || io_fail_memory(error, name));
  done = done && read_header(file, error) && check_member(file, error);
  if (!done) npy_close(file);
  return done;
}

bool npy_open_path(npy_file *file, const char *path, io_error *error) {
  char name[PATH_MAX];
  const char *member = io_split(path, name);
  *file = (npy_file){.fd = -1};
  if (strcmp(path, "-") == 0) {
    if (isatty(STDIN_FILENO)) return io_fail(error, "standard input: is a terminal; redirect a .npy file to it");
    return npy_open_fd(file, STDIN_FILENO, "standard input", error);
  }
  const int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_fail(error, "%s: cannot be read: %s; check the path", path, strerror(errno));
  return io_is_archive(path) ? npy_open_archive(file, fd, path, member, error) : npy_open_fd(file, fd, path, error);
}

void npy_close(npy_file *file) {
  if (file->fd > STDIN_FILENO) close(file->fd);
  zip_close(file->archive);
  free(file->name);
  free(file->whole);
  *file = (npy_file){.fd = -1};
}

/* ------------------------------------------------------------------------------------------------------- rows */

static bool load_stream(npy_file *file, io_error *error) {
  const int64_t total = file->header.bytes;
  int64_t capacity = 0, filled = 0;
  while (filled < total) {
    const int64_t grown = capacity == 0 ? FIRST_GROWTH : capacity > total / 2 ? total : capacity * 2;
    capacity = grown < total ? grown : total;
    char *larger = realloc(file->whole, (size_t)capacity);
    if (!larger)
      return io_fail(error, "%s: does not fit into memory (%lld bytes); use a smaller array", file->name,
                     (long long)capacity);
    file->whole = larger;
    const int64_t n = read_fully(file, file->whole + filled, capacity - filled, -1, error);
    if (n != capacity - filled) return short_read(file, n < 0 ? n : filled + n, total, error);
    filled = capacity;
  }
  return true;
}

/* On large pages, if there are any: a transposition visits every page again for every band. */
static char *allocate_whole(int64_t bytes) {
  void *memory = NULL;
  if (bytes < HUGE_PAGE) return malloc(bytes ? (size_t)bytes : 1);
  if (posix_memalign(&memory, HUGE_PAGE, (size_t)bytes) != 0) return NULL;
  madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
  return memory;
}

static bool load_file(npy_file *file, io_error *error) {
  const int64_t total = file->header.bytes;
  file->whole = allocate_whole(total);
  if (!file->whole)
    return io_fail(error, "%s: does not fit into memory (%lld bytes); use a smaller array", file->name,
                   (long long)total);
  const int64_t n = read_fully(file, file->whole, total, file->base, error);
  return n == total || short_read(file, n, total, error);
}

bool npy_load(npy_file *file, io_error *error) {
  if (file->whole) return true;
  const bool done = file->seekable ? load_file(file, error) : load_stream(file, error);
  if (!done) free(file->whole);
  if (!done) file->whole = NULL;
  return done;
}

/* Copies one column: `rows` neighbours along the first (fastest) axis go to places `step` bytes apart. Specialised by
 * the compiler for each element size. */
static inline __attribute__((always_inline)) void scatter(char *to, const char *from, int64_t rows, int64_t step,
                                                          size_t size) {
  for (int64_t i = 0; i < rows; i++) memcpy(to + i * step, from + i * (int64_t)size, size);
}

static void scatter_column(char *to, const char *from, int64_t rows, int64_t step, size_t size) {
  switch (size) {
    case 1:
      scatter(to, from, rows, step, 1);
      break;
    case 2:
      scatter(to, from, rows, step, 2);
      break;
    case 4:
      scatter(to, from, rows, step, 4);
      break;
    default:
      scatter(to, from, rows, step, 8);
      break;
  }
}

/* Where a walk over all axes but the first is, in C order: the last axis is the fastest. */
typedef struct odometer {
  int64_t step[NPY_MAX_RANK], index[NPY_MAX_RANK], offset; /* in elements */
} odometer;

static void advance(odometer *o, const npy_header *h) {
  for (int axis = h->rank - 1; axis > 0; axis--) {
    o->offset += o->step[axis];
    if (++o->index[axis] < h->size[axis]) break;
    o->offset -= o->step[axis] * h->size[axis];
    o->index[axis] = 0;
  }
}

/* Rows [first, first + count), at most GATHER_ROWS, of an array in Fortran order. A tile of columns is transposed where
 * the first cache holds it, since rows of the output may lie a power of two apart and evict each other. */
static void gather_rows(const npy_header *h, const char *whole, int64_t first, int64_t count, char *buffer) {
  char tile[GATHER_ROWS * GATHER_COLUMNS * 8];
  const int64_t size = h->stored, row_bytes = npy_row_bytes(h), step = GATHER_COLUMNS * size;
  odometer o = {.offset = first, .step = {1}};
  for (int i = 1; i < h->rank; i++) o.step[i] = o.step[i - 1] * h->size[i - 1];
  for (int64_t at = 0; at < row_bytes; at += step) {
    const int64_t wide = row_bytes - at < step ? row_bytes - at : step;
    for (int64_t x = 0; x < wide; x += size) {
      scatter_column(tile + x, whole + o.offset * size, count, step, (size_t)size);
      advance(&o, h);
    }
    for (int64_t i = 0; i < count; i++) memcpy(buffer + i * row_bytes + at, tile + i * step, (size_t)wide);
  }
}

static bool read_gathered(npy_file *file, int64_t first, int64_t count, char *buffer, io_error *error) {
  const int64_t row_bytes = npy_row_bytes(&file->header);
  if (!npy_load(file, error)) return false;
  for (int64_t i = 0; i < count; i += GATHER_ROWS) {
    const int64_t rows = count - i < GATHER_ROWS ? count - i : GATHER_ROWS;
    gather_rows(&file->header, file->whole, first + i, rows, buffer + i * row_bytes);
  }
  return true;
}

static bool skip_stream(npy_file *file, int64_t to, io_error *error) {
  char unused[SKIP_BYTES];
  while (file->position < to) {
    const int64_t want = to - file->position < SKIP_BYTES ? to - file->position : SKIP_BYTES;
    const int64_t n = read_fully(file, unused, want, -1, error);
    if (n != want) return short_read(file, n < 0 ? n : file->position + n, file->header.bytes, error);
    file->position += n;
  }
  return true;
}

static bool read_direct(npy_file *file, int64_t offset, int64_t bytes, char *buffer, io_error *error) {
  if (file->whole) {
    memcpy(buffer, file->whole + offset, (size_t)bytes);
    return true;
  }
  if (!file->seekable && !skip_stream(file, offset, error)) return false;
  const int64_t n = read_fully(file, buffer, bytes, file->seekable ? file->base + offset : -1, error);
  if (n != bytes) return short_read(file, n < 0 ? n : offset + n, file->header.bytes, error);
  file->position = offset + bytes;
  return true;
}

static void swap_elements(void *data, int64_t count, size_t size) {
  uint16_t *two = data;
  uint32_t *four = data;
  uint64_t *eight = data;
  for (int64_t i = 0; size == 2 && i < count; i++) two[i] = __builtin_bswap16(two[i]);
  for (int64_t i = 0; size == 4 && i < count; i++) four[i] = __builtin_bswap32(four[i]);
  for (int64_t i = 0; size == 8 && i < count; i++) eight[i] = __builtin_bswap64(eight[i]);
}

/* Says which element f64 does not hold: its value, and its index in C order. */
static bool fail_inexact(const npy_file *file, int64_t index, const char *value, io_error *error) {
  const npy_header *h = &file->header;
  char place[NPY_MAX_RANK * 24] = "";
  for (int axis = h->rank - 1; axis >= 0; axis--) {
    char rest[sizeof place];
    snprintf(rest, sizeof rest, "%s", place);
    snprintf(place, sizeof place, "%lld%s%.*s", (long long)(index % h->size[axis]), *rest ? ", " : "",
             (int)sizeof place - 30, rest);
    index /= h->size[axis];
  }
  return io_fail(error, "%s: element [%s] is %s, which f64 does not hold; save it as another type", file->name, place,
                 value);
}

bool npy_read_rows(npy_file *file, int64_t first, int64_t count, void *buffer, io_error *error) {
  const npy_header *h = &file->header;
  const int64_t row_bytes = npy_row_bytes(h), row = row_bytes / h->stored, elements = count * row;
  char value[24];
  /* Stored elements narrower than f64 are at the buffer's end and are converted from its start. */
  char *stored = (char *)buffer + elements * ((int64_t)falt_type_size(h->type) - h->stored);
  const bool done = h->fortran ? read_gathered(file, first, count, stored, error)
                               : read_direct(file, first * row_bytes, count * row_bytes, stored, error);
  if (done && h->swap) swap_elements(stored, elements, (size_t)h->stored);
  if (!done || h->wide == IO_NARROW) return done;
  const int64_t exact = io_widen(h->wide, stored, elements, buffer, value);
  return exact == elements || fail_inexact(file, first * row + exact, value, error);
}
