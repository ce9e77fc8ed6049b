/* The common interface of all formats: finds the backend by extension, checks the common guarantees, keeps rows in
 * order, and writes files atomically. */
#include "io/io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/format.h"
#include "io/standard.h"

struct io_reader {
  const io_backend *backend;
  void *state;
  char *path;
  const char *copy; /* the temporary file that holds standard input, or NULL */
  io_info info;
  io_request request;
  int64_t next; /* first row that may still be requested, unless random */
};

struct io_writer {
  const io_backend *backend;
  void *state;
  io_output output;
  io_info info;
  int64_t next;
};

/* Sizes at least 1, and all samples together countable in bytes. */
static bool check_info(const char *path, const io_info *info, io_error *error) {
  int64_t bytes = (int64_t)falt_type_size(info->type);
  bool overflow =
      __builtin_mul_overflow(bytes, info->channels, &bytes) || __builtin_mul_overflow(bytes, info->pages, &bytes);
  bool positive = info->channels > 0 && info->pages > 0;
  for (int i = 0; i < 3; i++) {
    positive &= info->size[i] > 0;
    overflow |= __builtin_mul_overflow(bytes, info->size[i], &bytes);
  }
  if (!positive) return io_fail(error, "%s: is empty: one of its sizes is not positive; check the file", path);
  return !overflow || io_fail(error, "%s: declares more than 2^63 bytes of samples; it cannot be real", path);
}

/* ------------------------------------------------------------------------------------------------------ reading */

/* Checks a request for formats without a choice. */
static bool check_request(const io_reader *reader, io_error *error) {
  static const char *const kinds[] = {"", "a signal", "an image", "a volume"};
  const io_request *request = &reader->request;
  const io_info *info = &reader->info;
  if (request->page > info->in_file)
    return io_fail(error, "%s: has %lld page%s, and page %lld was asked for; give --page 1 to %lld", reader->path,
                   (long long)info->in_file, info->in_file > 1 ? "s" : "", (long long)request->page,
                   (long long)info->in_file);
  return !request->space || request->space == info->space ||
         io_fail(error, "%s: is %s; --space %d is for arrays; leave it out, or convert the file to .npy", reader->path,
                 kinds[info->space], request->space);
}

static bool find_file(io_reader *reader, io_error *error) {
  struct stat status;
  char extension[32], name[PATH_MAX];
  const bool standard = strcmp(reader->path, "-") == 0;
  if (standard && !io_standard_open(&reader->copy, error)) return false;
  io_split(reader->path, name);
  if (!standard && stat(name, &status) != 0)
    return io_fail(error, "%s: cannot be read: %s; check the path", reader->path, strerror(errno));
  if (!standard && S_ISDIR(status.st_mode))
    return io_fail(error, "%s: is a directory; name a file in it", reader->path);
  io_extension(reader->copy ? reader->copy : reader->path, extension, sizeof extension);
  reader->backend = io_backend_find(standard ? "standard input" : reader->path,
                                    standard && !reader->copy ? ".npy" : extension, error);
  return reader->backend != NULL;
}

static bool open_reader(io_reader *reader, io_error *error) {
  if (!find_file(reader, error)) return false;
  const char *path = reader->copy ? reader->copy : reader->path;
  reader->state = reader->backend->open(path, &reader->request, &reader->info, error);
  return reader->state && check_info(reader->path, &reader->info, error) && check_request(reader, error);
}

/* Backends know a copy of standard input by its file's name. */
static void name_standard_input(const io_reader *reader, io_error *error) {
  char rest[sizeof error->text], *at;
  while (reader->copy && (at = strstr(error->text, reader->copy)) != NULL) {
    snprintf(rest, sizeof rest, "%s", at + strlen(reader->copy));
    snprintf(at, sizeof error->text - (size_t)(at - error->text), "standard input%s", rest);
  }
}

io_reader *io_open(const char *path, const io_request *request, io_error *error) {
  io_reader *reader = calloc(1, sizeof *reader);
  if (reader) reader->path = strdup(path);
  if (!reader || !reader->path) {
    free(reader);
    io_fail_memory(error, path);
    return NULL;
  }
  reader->request = *request;
  reader->info = (io_info){.size = {1, 1, 1}, .channels = 1, .pages = 1, .in_file = 1, .step = {1, 1, 1}};
  if (open_reader(reader, error)) return reader;
  name_standard_input(reader, error);
  io_close(&reader);
  return reader;
}

const io_info *io_reader_info(const io_reader *reader) {
  return &reader->info;
}

bool io_read(io_reader *reader, int64_t first, int64_t count, void *buffer, io_error *error) {
  const int64_t rows = io_all_rows(&reader->info);
  if (first < 0 || count < 0 || first > rows || count > rows - first)
    return io_fail(error, "%s: rows %lld to %lld of %lld were asked for; please report this", reader->path,
                   (long long)first, (long long)(first + count), (long long)rows);
  if (!reader->request.random && first < reader->next)
    return io_fail(error, "%s: row %lld was asked for after row %lld; please report this", reader->path,
                   (long long)first, (long long)reader->next);
  reader->next = first + count;
  if (count == 0 || reader->backend->read(reader->state, first, count, buffer, error)) return true;
  name_standard_input(reader, error);
  return false;
}

void io_close(io_reader **reader) {
  io_reader *r = *reader;
  if (!r) return;
  if (r->state) r->backend->close(r->state);
  free(r->path);
  free(r);
  *reader = NULL;
}

/* ------------------------------------------------------------------------------------------------------ writing */

/* "u8, u16 and f32" from a set of types. */
static void list_types(unsigned set, char *text, size_t size) {
  size_t n = 0;
  text[0] = '\0';
  for (int t = 0; t < FALT_TYPE_COUNT; t++) {
    if (!(set >> t & 1)) continue;
    const char *joint = n == 0 ? "" : set >> (t + 1) ? ", " : " and ";
    const char *name = falt_type_name((falt_type)t);
    if (n + strlen(joint) + strlen(name) >= size) return;
    memcpy(text + n, joint, strlen(joint) + 1);
    n += strlen(joint);
    memcpy(text + n, name, strlen(name) + 1);
    n += strlen(name);
  }
}

static bool check_holds(const io_backend *backend, const char *path, const char *extension, const io_info *info,
                        io_error *error) {
  static const char *const kinds[] = {"", "signals", "images", "volumes"};
  char list[64];
  if (!(backend->spaces >> info->space & 1))
    return io_fail(error, "%s: %s files hold no %s; write .npy or a format for %s", path, extension, kinds[info->space],
                   kinds[info->space]);
  const unsigned set = backend->types(extension);
  if (!extension[0])
    return io_fail(error, "%s: has no extension, which would say the format; name it .npy, .png, ..., or add --format",
                   path);
  if (set == 0)
    return io_fail(error, "%s: %s files cannot be written; write .npy, .png, .tif, .wav, ...", path, extension);
  if (set >> info->type & 1) return true;
  list_types(set, list, sizeof list);
  return io_fail(error, "%s: %s files hold %s, not %s; choose --out-type or another format", path, extension, list,
                 falt_type_name(info->type));
}

static void find_extension(const char *path, const char *format, char extension[32]) {
  char name[32];
  snprintf(name, sizeof name, "a.%s", format ? format : "npy");
  io_extension(format || strcmp(path, "-") == 0 ? name : path, extension, 32);
}

bool io_holds_pages(const char *path, const char *format) {
  io_error error;
  char extension[32];
  find_extension(path, format, extension);
  const io_backend *backend = io_backend_find(path, extension, &error);
  return backend && backend->pages && backend->pages(extension);
}

static bool check_pages(const char *path, const char *format, const char *extension, const io_info *info,
                        io_error *error) {
  return info->pages == 1 || io_holds_pages(path, format) ||
         io_fail(error, "%s: %s files hold one page, not %lld; choose one with --page N, or write .tif or .npy", path,
                 extension, (long long)info->pages);
}

static bool open_writer(io_writer *writer, const char *path, const char *format, const io_reader *like,
                        io_error *error) {
  char extension[32];
  find_extension(path, format, extension);
  const char *name = strcmp(path, "-") == 0 ? "standard output" : path;
  writer->backend = io_backend_find(name, extension, error);
  if (!writer->backend || !check_info(name, &writer->info, error)) return false;
  const bool direct = strcmp(extension, ".npy") == 0;
  if (!direct && !check_holds(writer->backend, name, extension, &writer->info, error)) return false;
  if (!check_pages(name, format, extension, &writer->info, error)) return false;
  if (!io_output_open(&writer->output, path, extension, direct, error)) return false;
  const void *source = like && like->backend == writer->backend ? like->state : NULL;
  writer->state = writer->backend->create(&writer->output, &writer->info, source, error);
  if (!writer->state) io_output_discard(&writer->output);
  return writer->state != NULL;
}

io_writer *io_create(const char *path, const char *format, const io_info *info, const io_reader *like,
                     io_error *error) {
  io_writer *writer = calloc(1, sizeof *writer);
  if (!writer) {
    io_fail_memory(error, path);
    return NULL;
  }
  writer->info = *info;
  if (!info->pages) writer->info.pages = 1;
  for (int i = 0; i < 3; i++)
    if (!info->step[i]) writer->info.step[i] = 1;
  if (open_writer(writer, path, format, like, error)) return writer;
  free(writer);
  return NULL;
}

bool io_write(io_writer *writer, int64_t count, const void *buffer, io_error *error) {
  const int64_t left = io_all_rows(&writer->info) - writer->next;
  if (count < 0 || count > left)
    return io_fail(error, "%s: %lld rows were written where %lld were left; please report this", writer->output.path,
                   (long long)count, (long long)left);
  writer->next += count;
  return count == 0 || writer->backend->write(writer->state, count, buffer, error);
}

bool io_finish(io_writer **writer, io_error *error) {
  io_writer *w = *writer;
  const int64_t left = io_all_rows(&w->info) - w->next;
  bool done;
  if (left == 0) {
    done = w->backend->finish(w->state, error);
  } else {
    w->backend->abandon(w->state);
    done = io_fail(error, "%s: ended with %lld rows missing; please report this", w->output.path, (long long)left);
  }
  if (done)
    done = io_output_commit(&w->output, error);
  else
    io_output_discard(&w->output);
  free(w);
  *writer = NULL;
  return done;
}

void io_abandon(io_writer **writer) {
  io_writer *w = *writer;
  if (!w) return;
  w->backend->abandon(w->state);
  io_output_discard(&w->output);
  free(w);
  *writer = NULL;
}
