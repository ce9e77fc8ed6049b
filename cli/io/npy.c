/* .npy and .npz files as rows of samples, and as whole arrays for layers. Axes are d, h, w, then interleaved channels.
 */
#include "io/npy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "io/format.h"

typedef struct npy_reader {
  npy_file file;
  bool channel_axis; /* the last axis is the channels', even if it has size 1: written again as such */
} npy_reader;

typedef struct npy_writer {
  const io_output *output;
  bool archived; /* in an archive of one member */
  zip_writer archive;
  int64_t row_bytes;
} npy_writer;

static unsigned types(const char *extension) {
  (void)extension;
  return (1u << FALT_TYPE_COUNT) - 1;
}

/* Pages become the first axis. */
static bool holds_pages(const char *extension) {
  (void)extension;
  return true;
}

/* ------------------------------------------------------------------------------------------------------ reader */

/* Which axes are space: see io_open. */
static int natural_space(const npy_header *h, bool volume) {
  const bool pixels = h->rank == 3 && !volume && h->size[2] >= 2 && h->size[2] <= 4;
  return pixels ? 2 : h->rank < 3 ? h->rank : 3;
}

static bool describe(npy_reader *reader, const io_request *request, io_info *info, io_error *error) {
  static const char *const kinds[] = {"", "a signal", "an image", "a volume"};
  const npy_header *h = &reader->file.header;
  const char *name = reader->file.name;
  if (h->rank == 0 || h->rank > 4)
    return io_fail(error, "%s: has %d axes; a signal, an image or a volume has 1 to 3, and one more for channels", name,
                   h->rank);
  info->space = request->space ? request->space : natural_space(h, request->volume);
  if (h->rank != info->space && h->rank != info->space + 1)
    return io_fail(error, "%s: has %d axes, but %s has %d, or %d with channels; reshape it", name, h->rank,
                   kinds[info->space], info->space, info->space + 1);
  if (h->count == 0) return io_fail(error, "%s: is empty: one of its sizes is 0; write an array with elements", name);
  reader->channel_axis = h->rank > info->space;
  info->type = h->type;
  info->channels = reader->channel_axis ? h->size[h->rank - 1] : 1;
  for (int i = 0; i < 3; i++) info->size[i] = i < 3 - info->space ? 1 : h->size[i - (3 - info->space)];
  return true;
}

static void *open_npy(const char *path, const io_request *request, io_info *info, io_error *error) {
  npy_reader *reader = calloc(1, sizeof *reader);
  if (!reader) {
    io_fail_memory(error, path);
    return NULL;
  }
  bool done = npy_open_path(&reader->file, path, error);
  done = done && describe(reader, request, info, error);
  if (done && request->random && !reader->file.seekable) done = npy_load(&reader->file, error);
  if (done) return reader;
  npy_close(&reader->file);
  free(reader);
  return NULL;
}

static bool read_npy(void *state, int64_t first, int64_t count, void *buffer, io_error *error) {
  return npy_read_rows(&((npy_reader *)state)->file, first, count, buffer, error);
}

static void close_npy(void *state) {
  npy_reader *reader = state;
  npy_close(&reader->file);
  free(reader);
}

/* ------------------------------------------------------------------------------------------------------ writer */

static bool append(npy_writer *writer, const void *data, int64_t bytes, io_error *error) {
  return writer->archived ? zip_write(&writer->archive, data, bytes, error)
                          : io_output_write(writer->output, data, bytes, error);
}

/* Writes the header and allocates the file's full length, so that a full disk is reported before the work. File systems
 * without the call report it later. */
static bool begin(npy_writer *writer, const io_output *output, npy_header *header, io_error *error) {
  char bytes[NPY_MAX_HEADER];
  writer->output = output;
  writer->archived = strcmp(output->extension, ".npz") == 0;
  if (!npy_header_measure(header))
    return io_fail(error, "%s: would need more than 2^63 bytes; write a smaller array", output->path);
  const size_t length = npy_header_print(header, bytes);
  int64_t total;
  if (__builtin_add_overflow(header->bytes, (int64_t)length, &total))
    return io_fail(error, "%s: would need more than 2^63 bytes; write a smaller array", output->path);
  if (writer->archived && !zip_begin(&writer->archive, output, total, error)) return false;
  if (!writer->archived && output->temporary && !io_output_reserve(output, total, error)) return false;
  return append(writer, bytes, (int64_t)length, error);
}

static bool finish(npy_writer *writer, io_error *error) {
  return !writer->archived || zip_finish(&writer->archive, error);
}

static void *create_npy(const io_output *output, const io_info *info, const void *like, io_error *error) {
  npy_header header = {.type = info->type};
  const npy_reader *source = like;
  if (info->pages > 1) header.size[header.rank++] = info->pages;
  for (int i = 3 - info->space; i < 3; i++) header.size[header.rank++] = info->size[i];
  if (info->channels > 1 || (source && source->channel_axis)) header.size[header.rank++] = info->channels;
  npy_writer *writer = calloc(1, sizeof *writer);
  if (!writer) {
    io_fail_memory(error, output->path);
    return NULL;
  }
  writer->row_bytes = io_row_bytes(info);
  if (begin(writer, output, &header, error)) return writer;
  free(writer);
  return NULL;
}

static bool write_npy(void *state, int64_t count, const void *buffer, io_error *error) {
  npy_writer *writer = state;
  return append(writer, buffer, count * writer->row_bytes, error);
}

static bool finish_npy(void *state, io_error *error) {
  const bool done = finish(state, error);
  free(state);
  return done;
}

static void abandon_npy(void *state) {
  free(state);
}

const io_backend io_npy = {
    .version = IO_BACKEND_VERSION,
    .spaces = 1u << 1 | 1u << 2 | 1u << 3,
    .types = types,
    .pages = holds_pages,
    .open = open_npy,
    .read = read_npy,
    .close = close_npy,
    .create = create_npy,
    .write = write_npy,
    .finish = finish_npy,
    .abandon = abandon_npy,
};

/* ------------------------------------------------------------------------------------------------ whole arrays */

static bool require_npy(const char *path, io_error *error) {
  char extension[32];
  io_extension(path, extension, sizeof extension);
  return strcmp(path, "-") == 0 || io_lists(".npy .npz", extension) ||
         io_fail(error, "%s: is not a .npy or .npz file, which arrays for layers must be; convert it", path);
}

/* Reads all elements to memory. A stream in C order grows in place; other orders are gathered. */
static bool read_whole(npy_file *file, io_array *array, io_error *error) {
  const npy_header *h = &file->header;
  if (!file->seekable && !npy_load(file, error)) return false;
  array->data = malloc(h->count ? (size_t)h->count * falt_type_size(h->type) : 1);
  if (!array->data)
    return io_fail(error, "%s: does not fit into memory (%lld bytes); use a smaller array", file->name,
                   (long long)h->bytes);
  const int64_t rows = h->rank == 0 ? 1 : h->size[0];
  return h->count == 0 || npy_read_rows(file, 0, rows, array->data, error);
}

bool io_array_read(const char *path, io_array *array, io_error *error) {
  npy_file file;
  *array = (io_array){0};
  if (!require_npy(path, error) || !npy_open_path(&file, path, error)) return false;
  array->type = file.header.type;
  array->rank = file.header.rank;
  array->count = file.header.count;
  memcpy(array->size, file.header.size, sizeof array->size);
  const bool done = read_whole(&file, array, error);
  npy_close(&file);
  if (!done) io_array_free(array);
  return done;
}

struct io_array_writer {
  io_output output;
  npy_writer npy;
};

io_array_writer *io_array_create(const char *path, io_error *error) {
  if (!require_npy(path, error)) return NULL;
  io_array_writer *writer = malloc(sizeof *writer);
  if (!writer) io_fail_memory(error, path);
  if (writer && io_output_open(&writer->output, path, NULL, !io_is_archive(path), error)) return writer;
  free(writer);
  return NULL;
}

bool io_array_write(io_array_writer *writer, const io_array *array, io_error *error) {
  npy_header header = {.type = array->type, .rank = array->rank};
  memcpy(header.size, array->size, sizeof header.size);
  return begin(&writer->npy, &writer->output, &header, error) &&
         append(&writer->npy, array->data, header.bytes, error) && finish(&writer->npy, error);
}

bool io_array_finish(io_array_writer **writer, io_error *error) {
  const bool done = io_output_commit(&(*writer)->output, error);
  free(*writer);
  *writer = NULL;
  return done;
}

void io_array_abandon(io_array_writer **writer) {
  if (*writer) io_output_discard(&(*writer)->output);
  free(*writer);
  *writer = NULL;
}

void io_array_free(io_array *array) {
  free(array->data);
  *array = (io_array){0};
}
