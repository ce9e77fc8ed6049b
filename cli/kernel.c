/* Kernels from the command line: literals and files. Named ones are in kernel_named.c, their values in kernel_values.c.
 */
#include "kernel.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/format.h"
#include "report.h"

enum { MAX_TEXT = 1 << 26 };

/* ---- literals */

/* A literal while it is read. */
typedef struct literal {
  double *value;
  size_t count, room;
  int64_t columns, rows, planes; /* of the first row and plane; 0 until they end */
  int64_t column, row;           /* in the current ones */
} literal;

static bool push(literal *l, double value, io_error *error) {
  if (l->count == CLI_MOST_TAPS)
    return cli_wrong(error, "--kernel: more than %d numbers; make it smaller", CLI_MOST_TAPS);
  if (l->count == l->room) {
    size_t room = l->room ? 2 * l->room : 64;
    double *larger = realloc(l->value, room * sizeof *larger);
    if (!larger) return cli_wrong(error, "--kernel: out of memory; make it smaller");
    l->value = larger;
    l->room = room;
  }
  l->value[l->count++] = value;
  l->column++;
  return true;
}

static bool end_row(literal *l, io_error *error) {
  if (l->column == 0) return true;
  if (l->columns == 0) l->columns = l->column;
  if (l->column != l->columns) {
    return cli_wrong(error, "--kernel: a row of %lld numbers after one of %lld; give all rows the same length",
                     (long long)l->column, (long long)l->columns);
  }
  l->column = 0;
  l->row++;
  return true;
}

static bool end_plane(literal *l, io_error *error) {
  if (!end_row(l, error)) return false;
  if (l->row == 0) return true;
  if (l->rows == 0) l->rows = l->row;
  if (l->row != l->rows) {
    return cli_wrong(error, "--kernel: a plane of %lld rows after one of %lld; give all planes the same size",
                     (long long)l->row, (long long)l->rows);
  }
  l->row = 0;
  l->planes++;
  return true;
}

/* Passes blanks and separators. One ; or line end ends a row; two, or a /, a plane; a line end after ; adds nothing. */
static const char *read_separators(const char *at, literal *l, bool *ok, io_error *error) {
  int semicolons = 0, lines = 0, slashes = 0;
  for (; *at && strchr(" \t\r,;\n/#", *at); at++) {
    if (*at == '#') at += strcspn(at, "\n");
    semicolons += *at == ';';
    lines += *at == '\n';
    slashes += *at == '/';
    if (!*at) break;
  }
  bool plane = slashes || semicolons > 1 || (semicolons == 0 && lines > 1);
  if (plane) *ok = end_plane(l, error);
  if (!plane && semicolons + lines) *ok = end_row(l, error);
  return at;
}

/* A number, or two with a / and no blanks between them. NULL if none stands at text. */
static const char *read_fraction(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end == text) return NULL;
  if (*end == '/' && end[1] && !strchr(" \t\r\n;,/", end[1])) {
    char *after;
    double divisor = strtod(end + 1, &after);
    if (after == end + 1) return NULL;
    *value /= divisor;
    end = after;
  }
  return *end == '\0' || strchr(" \t\r\n,;/#", *end) ? end : NULL;
}

static bool read_literal(const char *text, literal *l, io_error *error) {
  bool ok = true;
  for (const char *at = read_separators(text, l, &ok, error); ok && *at; at = read_separators(at, l, &ok, error)) {
    double value;
    const char *end = read_fraction(at, &value);
    if (!end) {
      return cli_wrong(error, "--kernel: %.*s: not a number; write rows as in \"1 2 1; 2 4 2; 1 2 1\"",
                       (int)(strcspn(at, " \t\r\n,;") < 30 ? strcspn(at, " \t\r\n,;") : 30), at);
    }
    if (!push(l, value, error)) return false;
    at = end;
  }
  return ok && end_plane(l, error);
}

bool cli_kernel_is_literal(const char *text) {
  double value;
  return read_fraction(text + strspn(text, " \t\r\n"), &value) != NULL;
}

bool cli_kernel_literal(const char *text, cli_kernel *kernel, io_error *error) {
  literal l = {0};
  bool ok = read_literal(text, &l, error);
  if (ok && l.count == 0) ok = cli_wrong(error, "--kernel: no numbers in it; write at least one");
  if (!ok) {
    free(l.value);
    return false;
  }
  *kernel = (cli_kernel){.size = {l.planes, l.rows, l.columns}, .value = l.value};
  return true;
}

/* ---- files */

static bool convert_array(const io_array *array, cli_kernel *kernel, io_error *error) {
  int64_t size[3] = {1, 1, 1};
  if (array->rank > 3) return cli_wrong(error, "--kernel: an array of rank %d; a kernel has 1 to 3 axes", array->rank);
  for (int i = 0; i < array->rank; i++) size[3 - array->rank + i] = array->size[i];
  if (!cli_kernel_allocate(size, kernel, error)) return false;
  for (int64_t i = 0; i < array->count; i++) {
    double *value = &kernel->value[i];
    switch (array->type) {
      case FALT_U8:
        *value = ((const uint8_t *)array->data)[i];
        break;
      case FALT_S8:
        *value = ((const int8_t *)array->data)[i];
        break;
      case FALT_U16:
        *value = ((const uint16_t *)array->data)[i];
        break;
      case FALT_S16:
        *value = ((const int16_t *)array->data)[i];
        break;
      case FALT_S32:
        *value = ((const int32_t *)array->data)[i];
        break;
      case FALT_F32:
        *value = ((const float *)array->data)[i];
        break;
      case FALT_F64:
        *value = ((const double *)array->data)[i];
        break;
      default:
        return cli_wrong(error, "--kernel: an array of %s; save it as f32 or f64", falt_type_name(array->type));
    }
  }
  return true;
}

static bool read_npy(const char *path, cli_kernel *kernel, io_error *error) {
  io_array array;
  if (!io_array_read(path, &array, error)) return false;
  bool ok = convert_array(&array, kernel, error);
  if (!ok) cli_kernel_free(kernel);
  io_array_free(&array);
  return ok;
}

/* An impulse response: one channel, whose integer samples are shares of full scale. */
static bool convert_audio(io_reader *reader, const char *path, cli_kernel *kernel, io_error *error) {
  const io_info *info = io_reader_info(reader);
  if (info->channels > 1)
    return cli_wrong(error, "--kernel %.200s: has %lld channels, and a kernel has one; mix it down or split it", path,
                     (long long)info->channels);
  if (info->size[2] > CLI_MOST_TAPS)
    return cli_wrong(error, "--kernel %.200s: more than %d taps; make it shorter", path, CLI_MOST_TAPS);
  io_array samples = {.type = info->type, .rank = 1, .size = {info->size[2]}, .count = info->size[2]};
  samples.data = malloc((size_t)samples.count * falt_type_size(samples.type));
  bool done = samples.data ? io_read(reader, 0, samples.count, samples.data, error) : io_fail_memory(error, path);
  done = done && convert_array(&samples, kernel, error);
  const double scale = samples.type == FALT_S8    ? 0x1p-7
                       : samples.type == FALT_S16 ? 0x1p-15
                       : samples.type == FALT_S32 ? 0x1p-31
                                                  : 1;
  for (int64_t i = 0; done && i < samples.count; i++) kernel->value[i] *= scale;
  kernel->rate = info->rate;
  io_array_free(&samples);
  return done;
}

static bool read_audio(const char *path, cli_kernel *kernel, io_error *error) {
  io_reader *reader = io_open(path, &(io_request){0}, error);
  const bool done = reader && convert_audio(reader, path, kernel, error);
  if (!done) cli_kernel_free(kernel);
  io_close(&reader);
  return done;
}

/* The whole of a text file, NUL-terminated; NULL and *error if it cannot be. */
static char *read_text(const char *path, FILE *file, io_error *error) {
  size_t room = 1 << 12, length = 0;
  char *text = malloc(room);
  while (text) {
    length += fread(text + length, 1, room - length - 1, file);
    if (length < room - 1) break;
    char *larger = room < MAX_TEXT ? realloc(text, 2 * room) : NULL;
    if (!larger) free(text);
    text = larger;
    room *= 2;
  }
  if (!text) {
    cli_wrong(error, "--kernel %.200s: larger than %d MiB or than memory; save it as .npy", path, MAX_TEXT >> 20);
    return NULL;
  }
  text[length] = '\0';
  if (!ferror(file) && strlen(text) == length) return text;
  const char *why = ferror(file) ? strerror(errno) : "not text";
  cli_wrong(error, "--kernel %.200s: cannot be read: %s; give a text file or an .npy file", path, why);
  free(text);
  return NULL;
}

bool cli_kernel_file(const char *path, cli_kernel *kernel, io_error *error) {
  char extension[32];
  io_extension(path, extension, sizeof extension);
  if (io_lists(".npy .npz", extension)) return read_npy(path, kernel, error);
  if (io_lists(".wav .flac .aiff .aif .au .caf .w64 .ogg", extension)) return read_audio(path, kernel, error);
  FILE *file = fopen(path, "rb");
  if (!file) {
    return cli_wrong(error,
                     "--kernel %.200s: cannot be opened: %s; give a file, a name such as gaussian:2 or a literal", path,
                     strerror(errno));
  }
  char *text = read_text(path, file, error);
  fclose(file);
  bool ok = text && cli_kernel_literal(text, kernel, error);
  free(text);
  return ok;
}

/* ---- all of them */

/* A path has a dot or a slash, or is there. */
static bool is_file(const char *text) {
  if (strpbrk(text, "./")) return true;
  FILE *file = fopen(text, "rb");
  if (file) fclose(file);
  return file != NULL;
}

static bool make(const char *text, int space, bool dense, cli_kernel *kernel, io_error *error) {
  if (cli_kernel_is_name(text)) return cli_kernel_named(text, space, dense, kernel, error);
  if (cli_kernel_is_literal(text)) return cli_kernel_literal(text, kernel, error);
  if (is_file(text)) return cli_kernel_file(text, kernel, error);
  char hint[256];
  return cli_wrong(error, "--kernel %.60s: unknown name and no such file%s", text,
                   cli_kernel_suggestion(text, hint, sizeof hint));
}

bool cli_kernel_make(const char *text, int space, bool dense, cli_kernel *kernel, io_error *error) {
  *kernel = (cli_kernel){0};
  if (!make(text, space, dense, kernel, error)) return false;
  if (cli_kernel_check(kernel, space, error)) return true;
  cli_kernel_free(kernel);
  return false;
}

bool cli_kernel_is_volume(const char *text) {
  cli_kernel kernel;
  io_error error;
  if (cli_kernel_make(text, 2, false, &kernel, &error)) {
    cli_kernel_free(&kernel);
    return false;
  }
  const bool is_volume = cli_kernel_make(text, 3, false, &kernel, &error);
  cli_kernel_free(&kernel);
  return is_volume;
}
