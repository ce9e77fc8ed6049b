/* Writes images row by row. libvips pulls regions from an image, but rows are pushed here. A ring of rows connects
 * both: the saver runs in its own thread on an image whose pixels the ring delivers, and vips_sequential makes it read
 * from top to bottom, each row once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/modules/vips.h"

enum { RING_BYTES = 8 << 20 };

typedef struct vips_writer {
  const io_output *output;
  const vips_saver *saver;
  int compression; /* TIFF tag of the input, or 0 */
  VipsImage *source;
  int64_t row_bytes;
  char *ring;
  int64_t capacity; /* rows in the ring */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* Guarded by lock. Rows [taken, pushed) are in the ring, row y at y % capacity. */
  int64_t pushed, taken;
  bool cancelled; /* no more rows will arrive */
  bool ended;     /* the saver returned */
  bool failed;
  io_error error; /* why it failed */
} vips_writer;

/* ------------------------------------------------------------------------------------------------ saver's side */

/* Waits until row y is in the ring; earlier rows are dropped. False if it will never arrive. */
static bool await_row(vips_writer *w, int64_t y) {
  pthread_mutex_lock(&w->lock);
  const bool kept = y >= w->taken;
  if (kept) w->taken = y;
  pthread_cond_broadcast(&w->changed);
  while (kept && w->pushed <= y && !w->cancelled) pthread_cond_wait(&w->changed, &w->lock);
  const bool there = kept && w->pushed > y;
  pthread_mutex_unlock(&w->lock);
  return there;
}

static void release_row(vips_writer *w, int64_t y) {
  pthread_mutex_lock(&w->lock);
  w->taken = y + 1;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static int generate(VipsRegion *out, void *sequence, void *a, void *b, gboolean *stop) {
  vips_writer *w = a;
  const VipsRect *r = &out->valid;
  (void)sequence, (void)b, (void)stop;
  for (int y = r->top; y < VIPS_RECT_BOTTOM(r); y++) {
    if (!await_row(w, y)) {
      vips_error("faltung", "%s", "rows ended early");
      return -1;
    }
    memcpy(VIPS_REGION_ADDR(out, r->left, y), w->ring + y % w->capacity * w->row_bytes, (size_t)w->row_bytes);
    release_row(w, y);
  }
  return 0;
}

static void *save(void *context) {
  vips_writer *w = context;
  VipsImage *ordered = NULL;
  io_error error = {""};
  const bool done = vips_sequential(w->source, &ordered, NULL) == 0 &&
                    w->saver->save(ordered, w->output->temporary, w->compression) == 0;
  if (!done) vips_fail(w->output->path, "cannot be written", "check the space on the disk and the format", &error);
  g_clear_object(&ordered);
  pthread_mutex_lock(&w->lock);
  w->ended = true;
  w->failed = !done;
  w->error = error;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  vips_thread_shutdown();
  return NULL;
}

/* ----------------------------------------------------------------------------------------------- creating image */

/* The interpretation of colours: as in the input if the channels are the same, else guessed from their number; 16-bit
 * kinds for 16-bit samples, so that savers keep them. */
static VipsInterpretation interpret(const io_info *info, const VipsImage *like, const vips_saver *saver) {
  if (!like && strstr(saver->extensions, ".hdr")) return VIPS_INTERPRETATION_scRGB;
  const bool same = like && like->Bands == info->channels;
  VipsInterpretation kind = same                  ? like->Type
                            : info->channels <= 2 ? VIPS_INTERPRETATION_B_W
                            : info->channels <= 4 ? VIPS_INTERPRETATION_sRGB
                                                  : VIPS_INTERPRETATION_MULTIBAND;
  const bool wide = info->type == FALT_U16;
  if (kind == VIPS_INTERPRETATION_sRGB || kind == VIPS_INTERPRETATION_RGB16)
    kind = wide ? VIPS_INTERPRETATION_RGB16 : VIPS_INTERPRETATION_sRGB;
  if (kind == VIPS_INTERPRETATION_B_W || kind == VIPS_INTERPRETATION_GREY16)
    kind = wide ? VIPS_INTERPRETATION_GREY16 : VIPS_INTERPRETATION_B_W;
  return kind;
}

static bool check_channels(const vips_saver *saver, const io_output *output, const io_info *info, const VipsImage *like,
                           io_error *error) {
  char list[32] = "";
  int n = 0;
  const bool cmyk = like && like->Type == VIPS_INTERPRETATION_CMYK && strstr(saver->extensions, ".jpg");
  if (saver->channels & 1 || (cmyk && info->channels == 4)) return true;
  if (info->channels < 31 && saver->channels >> info->channels & 1) return true;
  for (int c = 1; c <= 4; c++)
    if (saver->channels >> c & 1) n += g_snprintf(list + n, sizeof list - (gulong)n, "%s%d", n ? " or " : "", c);
  return io_fail(error, "%s: %s files hold %s channels, not %lld; write .tif, or .png if one of them is alpha",
                 output->path, output->extension, list, (long long)info->channels);
}

static bool make_source(vips_writer *w, const io_info *info, const vips_reader *like) {
  VipsImage *image = w->source = vips_image_new();
  if (like) vips_copy_metadata(like, image, info);
  if (like) vips_correct_description(like, image, info);
  if (info->pages > 1) vips_image_set_int(image, VIPS_META_PAGE_HEIGHT, (int)info->size[1]);
  if (info->pages > 1) vips_image_set_int(image, VIPS_META_N_PAGES, (int)info->pages);
  const double x = (like ? like->file->Xres : 1) / (double)info->step[2];
  const double y = (like ? like->file->Yres : 1) / (double)info->step[1];
  vips_image_init_fields(image, (int)info->size[2], (int)io_all_rows(info), (int)info->channels,
                         vips_format_of(info->type), VIPS_CODING_NONE,
                         interpret(info, like ? like->image : NULL, w->saver), x, y);
  return vips_image_pipelinev(image, VIPS_DEMAND_STYLE_THINSTRIP, NULL) == 0 &&
         vips_image_generate(image, NULL, generate, NULL, w, NULL) == 0;
}

static void free_writer(vips_writer *w) {
  g_clear_object(&w->source);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->changed);
  free(w->ring);
  free(w);
}

static bool begin(vips_writer *w, const io_info *info, const vips_reader *like, io_error *error) {
  const char *path = w->output->path;
  w->row_bytes = io_row_bytes(info);
  const int64_t fits = RING_BYTES / w->row_bytes;
  w->capacity = fits < 2 ? 2 : fits < io_all_rows(info) ? fits : io_all_rows(info);
  w->ring = malloc((size_t)(w->capacity * w->row_bytes));
  if (!w->ring) return io_fail_memory(error, path);
  if (!make_source(w, info, like)) return vips_fail(path, "cannot be written", "check the size", error);
  if (like) w->compression = vips_tiff_compression(like->path);
  if (pthread_create(&w->thread, NULL, save, w) != 0)
    return io_fail(error, "%s: cannot be written: no thread could be started; close other programs", path);
  return true;
}

void *vips_create_image(const io_output *output, const io_info *info, const void *like, io_error *error) {
  const vips_reader *reader = like;
  const vips_saver *saver = vips_saver_find(output->extension);
  if (!vips_start(output->path, error)) return NULL;
  if (!vips_foreign_find_save(output->temporary)) vips_load_modules();
  vips_error_clear();
  if (io_all_rows(info) > VIPS_MAX_COORD || info->size[2] > VIPS_MAX_COORD) {
    io_fail(error, "%s: libvips holds at most %d pixels along an axis; write .npy", output->path, VIPS_MAX_COORD);
    return NULL;
  }
  if (!check_channels(saver, output, info, reader ? reader->image : NULL, error)) return NULL;
  vips_writer *w = calloc(1, sizeof *w);
  if (!w) {
    io_fail_memory(error, output->path);
    return NULL;
  }
  w->output = output;
  w->saver = saver;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  if (begin(w, info, reader, error)) return w;
  free_writer(w);
  return NULL;
}

/* --------------------------------------------------------------------------------------------- pusher's side */

/* Waits for room; rows that may be copied in now without wrapping round, or 0 if the saver has ended. */
static int64_t await_room(vips_writer *w) {
  pthread_mutex_lock(&w->lock);
  while (!w->ended && w->pushed - w->taken >= w->capacity) pthread_cond_wait(&w->changed, &w->lock);
  const int64_t room = w->capacity - (w->pushed - w->taken), at = w->pushed % w->capacity;
  const int64_t rows = w->ended ? 0 : room < w->capacity - at ? room : w->capacity - at;
  pthread_mutex_unlock(&w->lock);
  return rows;
}

bool vips_write_rows(void *state, int64_t count, const void *buffer, io_error *error) {
  vips_writer *w = state;
  const char *from = buffer;
  while (count > 0) {
    int64_t rows = await_room(w);
    if (rows == 0) {
      *error = w->error;
      return w->failed ? false : true; /* a saver that needs no more rows is done */
    }
    if (rows > count) rows = count;
    memcpy(w->ring + w->pushed % w->capacity * w->row_bytes, from, (size_t)(rows * w->row_bytes));
    from += rows * w->row_bytes;
    count -= rows;
    pthread_mutex_lock(&w->lock);
    w->pushed += rows;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
  }
  return true;
}

static bool join(vips_writer *w, bool cancel, io_error *error) {
  pthread_mutex_lock(&w->lock);
  w->cancelled = cancel;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  const bool done = !w->failed;
  if (!done && error) *error = w->error;
  free_writer(w);
  return done;
}

bool vips_finish_image(void *state, io_error *error) {
  return join(state, false, error);
}

void vips_abandon_image(void *state) {
  join(state, true, NULL);
}
