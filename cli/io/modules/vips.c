/* Opens and reads images by libvips. Access is sequential unless rows are needed in any order, so an image of any size
 * streams through a few rows of memory. Samples are the stored ones: palettes are expanded, packed codings are
 * unpacked, colours and bit depth are kept. Pages of equal size form one image, one below the other. */
#include <dlfcn.h>
#include <gmodule.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/modules/vips.h"

enum { READ_BYTES = 4 << 20 };

/* ---------------------------------------------------------------------------------------------------- starting */

static bool started;

/* libvips and GLib would print their warnings; errors reach the user through its error buffer anyway. */
static void drop_message(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data) {
  (void)domain, (void)level, (void)message, (void)data;
}

/* vips_init loads the modules that it finds under VIPSHOME or beside itself: ImageMagick, Poppler, OpenSlide ..., some
 * 20 ms for formats that most files do not have. Pointed at nothing it starts in 2 ms; vips_load_modules does the rest
 * when a file needs it. */
static void start(void) {
  const bool own = g_getenv("VIPSHOME") == NULL;
  if (own) g_setenv("VIPSHOME", "/nonexistent", TRUE);
  started = vips_init("faltung") == 0;
  if (own) g_unsetenv("VIPSHOME");
  if (!started) return;
  g_log_set_handler("VIPS", G_LOG_LEVEL_MASK, drop_message, NULL);
  g_log_set_default_handler(drop_message, NULL);
  vips_cache_set_max(0);   /* nothing is computed twice here */
  vips_concurrency_set(1); /* the cores belong to the filter */
}

bool vips_start(const char *path, io_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  return started || vips_fail(path, "libvips cannot start", "check its installation", error);
}

static void load_all_modules(void) {
  Dl_info library;
  if (!dladdr((void *)(uintptr_t)vips_init, &library) || !library.dli_fname) return;
  char *where = g_path_get_dirname(library.dli_fname);
  char *directory = g_strdup_printf("%s/vips-modules-%d.%d", where, vips_version(0), vips_version(1));
  GDir *list = g_dir_open(directory, 0, NULL);
  for (const char *name; list && (name = g_dir_read_name(list)) != NULL;) {
    char *file = g_build_filename(directory, name, NULL);
    g_module_open(file, G_MODULE_BIND_LAZY); /* one that fails is a format less */
    g_free(file);
  }
  if (list) g_dir_close(list);
  g_free(directory);
  g_free(where);
}

void vips_load_modules(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_all_modules);
}

bool vips_fail(const char *path, const char *what, const char *todo, io_error *error) {
  char line[256];
  const bool full = strstr(vips_error_buffer(), "No space left") != NULL;
  if (full) vips_error_clear();
  if (full) return io_fail(error, "%s: %s: No space left on device; free some space or write elsewhere", path, what);
  g_strlcpy(line, vips_error_buffer(), sizeof line);
  vips_error_clear();
  g_strchomp(line);
  g_strdelimit(line, "\n", ' ');
  return io_fail(error, "%s: %s: %s; %s", path, what, line[0] ? line : "no reason given", todo);
}

/* ----------------------------------------------------------------------------------------------------- formats */

/* Unsigned 32-bit samples, which Faltung has no type for, are read as f64, which holds them exactly. */
static const struct {
  VipsBandFormat format;
  falt_type type;
} format_types[] = {
    {VIPS_FORMAT_UCHAR, FALT_U8},   {VIPS_FORMAT_CHAR, FALT_S8}, {VIPS_FORMAT_USHORT, FALT_U16},
    {VIPS_FORMAT_SHORT, FALT_S16},  {VIPS_FORMAT_INT, FALT_S32}, {VIPS_FORMAT_FLOAT, FALT_F32},
    {VIPS_FORMAT_DOUBLE, FALT_F64},
};
enum { FORMAT_TYPES = sizeof format_types / sizeof format_types[0] };

VipsBandFormat vips_format_of(falt_type type) {
  for (int i = 0; i < FORMAT_TYPES; i++)
    if (format_types[i].type == type) return format_types[i].format;
  return VIPS_FORMAT_NOTSET;
}

static int type_of(VipsBandFormat format) {
  for (int i = 0; i < FORMAT_TYPES; i++)
    if (format_types[i].format == format) return (int)format_types[i].type;
  return -1;
}

static unsigned types(const char *extension) {
  const vips_saver *saver = vips_saver_find(extension);
  return saver ? saver->types : 0;
}

static bool holds_pages(const char *extension) {
  const vips_saver *saver = vips_saver_find(extension);
  return saver && saver->pages;
}

/* ----------------------------------------------------------------------------------------------------- reading */

static int unpack(VipsImage *file, VipsImage **image) {
  if (file->Coding == VIPS_CODING_LABQ) return vips_LabQ2Lab(file, image, NULL);
  if (file->Coding == VIPS_CODING_RAD) return vips_rad2float(file, image, NULL);
  if (file->BandFmt == VIPS_FORMAT_UINT) return vips_cast(file, image, VIPS_FORMAT_DOUBLE, NULL);
  return vips_copy(file, image, NULL);
}

/* cfitsio, which libvips tries on every file, allocates the size that a compressed file declares: the last four bytes
 * of gzip, bytes 22 to 25 of zip. Deflate expands at most 1032 times. */
static bool check_compressed(const char *path, io_error *error) {
  enum { MOST_RATIO = 1032 };
  unsigned char head[26] = {0}, tail[4] = {0};
  FILE *file = fopen(path, "rbe");
  if (!file) return true; /* libvips will say why */
  const size_t got = fread(head, 1, sizeof head, file);
  const bool ended = fseeko(file, -4, SEEK_END) == 0 && fread(tail, 1, 4, file) == 4;
  const uint64_t length = ended ? (uint64_t)ftello(file) : got;
  fclose(file);
  const bool gzip = memcmp(head, "\x1f\x8b", 2) == 0, zip = memcmp(head, "PK", 2) == 0;
  const unsigned char *size = gzip ? tail : head + 22;
  uint64_t declared = 0;
  for (int i = 3; i >= 0; i--) declared = declared << 8 | size[i];
  return !(gzip || zip) || declared <= MOST_RATIO * length ||
         io_fail(error, "%s: declares %llu bytes compressed to %llu; it is damaged; copy or write it again", path,
                 (unsigned long long)declared, (unsigned long long)length);
}

/* libvips allocates the canvas of a GIF whole. LZW makes at most 4096 pixels of a code of 12 bits. */
static bool check_canvas(VipsImage *file, const char *path, io_error *error) {
  enum { MOST_RATIO = 2731, ALWAYS = 1 << 26 };
  const char *loader;
  struct stat status;
  if (vips_image_get_string(file, VIPS_META_LOADER, &loader) != 0 || strcmp(loader, "gifload") != 0) return true;
  const int64_t pixels = (int64_t)file->Xsize * vips_image_get_page_height(file);
  if (pixels <= ALWAYS || stat(path, &status) != 0 || pixels / MOST_RATIO <= status.st_size) return true;
  return io_fail(error, "%s: declares %d x %d pixels in %lld bytes; it is damaged; copy or write it again", path,
                 vips_image_get_page_height(file), file->Xsize, (long long)status.st_size);
}

static bool is_stacked(VipsImage *file) {
  const int height = vips_image_get_page_height(file);
  return height > 0 && height < file->Ysize && file->Ysize % height == 0;
}

/* Opens the file with the requested pages. Only loaders of files with pages take their number. */
static bool open_file(vips_reader *reader, const io_request *request, io_error *error) {
  const char *path = reader->path;
  const VipsAccess access = request->random ? VIPS_ACCESS_RANDOM : VIPS_ACCESS_SEQUENTIAL;
  reader->file = vips_image_new_from_file(path, "access", access, "fail_on", VIPS_FAIL_ON_ERROR, NULL);
  if (!reader->file) return vips_fail(path, "cannot be read", "check that it is an image that libvips knows", error);
  if (!check_canvas(reader->file, path, error)) return false;
  const bool stacked = is_stacked(reader->file); /* libvips's own format holds pages so */
  reader->in_file =
      stacked ? reader->file->Ysize / vips_image_get_page_height(reader->file) : vips_image_get_n_pages(reader->file);
  if (stacked || reader->in_file == 1 || request->page == 1 || request->page > reader->in_file) return true;
  g_clear_object(&reader->file);
  reader->file =
      vips_image_new_from_file(path, "access", access, "fail_on", VIPS_FAIL_ON_ERROR, "page",
                               request->page ? (int)request->page - 1 : 0, "n", request->page ? 1 : -1, NULL);
  return reader->file || vips_fail(path, "its pages cannot be read together", "choose one with --page N", error);
}

/* Cuts one page out of a file that is read as a whole. */
static int cut_page(vips_reader *reader, const io_request *request) {
  const int height = vips_image_get_page_height(reader->file);
  VipsImage *whole = reader->image, *page = NULL;
  if (!is_stacked(reader->file)) return 0;
  reader->pages = reader->file->Ysize / height;
  if (!request->page || request->page > reader->in_file) return 0;
  if (vips_crop(whole, &page, 0, (int)(request->page - 1) * height, whole->Xsize, height, NULL) != 0) return -1;
  g_object_unref(whole);
  reader->image = page;
  reader->pages = 1;
  return 0;
}

static bool open_image(vips_reader *reader, const io_request *request, io_info *info, io_error *error) {
  const char *path = reader->path;
  if (!vips_start(path, error) || !check_compressed(path, error)) return false;
  if (!vips_foreign_find_load(path)) vips_load_modules();
  vips_error_clear();
  if (!open_file(reader, request, error)) return false;
  reader->pages = 1;
  if (unpack(reader->file, &reader->image) != 0 || cut_page(reader, request) != 0)
    return vips_fail(path, "cannot be read", "check that it is an image that libvips knows", error);
  const int type = type_of(reader->image->BandFmt);
  if (type < 0) return io_fail(error, "%s: has complex samples; take its real or imaginary part first", path);
  reader->region = vips_region_new(reader->image);
  info->type = (falt_type)type;
  info->space = 2;
  info->size[1] = reader->image->Ysize / reader->pages;
  info->size[2] = reader->image->Xsize;
  info->channels = reader->image->Bands;
  info->pages = reader->pages;
  info->in_file = reader->in_file;
  return reader->region || vips_fail(path, "cannot be read", "close other programs", error);
}

static void close_image(void *state) {
  vips_reader *reader = state;
  g_clear_object(&reader->region);
  g_clear_object(&reader->image);
  g_clear_object(&reader->file);
  free(reader->path);
  free(reader);
}

static void *open_reader(const char *path, const io_request *request, io_info *info, io_error *error) {
  vips_reader *reader = calloc(1, sizeof *reader);
  if (reader) reader->path = strdup(path);
  if (!reader || !reader->path) {
    free(reader);
    io_fail_memory(error, path);
    return NULL;
  }
  if (open_image(reader, request, info, error)) return reader;
  close_image(reader);
  return NULL;
}

/* In strips, since a region holds a copy of its pixels. */
static bool read_rows(void *state, int64_t first, int64_t count, void *buffer, io_error *error) {
  vips_reader *reader = state;
  const int64_t row_bytes = (int64_t)VIPS_IMAGE_SIZEOF_LINE(reader->image);
  const int64_t strip = row_bytes < READ_BYTES ? READ_BYTES / row_bytes : 1;
  char *to = buffer;
  for (int64_t i = 0; i < count; i += strip) {
    const int64_t rows = count - i < strip ? count - i : strip;
    const VipsRect area = {0, (int)(first + i), reader->image->Xsize, (int)rows};
    if (vips_region_prepare(reader->region, &area) != 0)
      return vips_fail(reader->path, "cannot be read", "it may be truncated or damaged", error);
    for (int y = 0; y < rows; y++, to += row_bytes)
      memcpy(to, VIPS_REGION_ADDR(reader->region, 0, area.top + y), (size_t)row_bytes);
  }
  return true;
}

extern const io_backend io_backend_export;
__attribute__((visibility("default"))) const io_backend io_backend_export = {
    .version = IO_BACKEND_VERSION,
    .spaces = 1u << 2,
    .types = types,
    .pages = holds_pages,
    .open = open_reader,
    .read = read_rows,
    .close = close_image,
    .create = vips_create_image,
    .write = vips_write_rows,
    .finish = vips_finish_image,
    .abandon = vips_abandon_image,
};
