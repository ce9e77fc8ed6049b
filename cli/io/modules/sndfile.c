/* Audio by libsndfile: frames of interleaved channels. Samples are read at full scale of the type that holds them, and
 * written by the same table. Rate, subtype and text tags of the input are kept. */
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

#include "io/format.h"

/*   8-bit PCM, signed or not    s8   (unsigned bytes lose their offset of 128: silence is 0)
 *   16-bit PCM, G.711, ADPCM    s16
 *   24- and 32-bit PCM          s32  (24 bits in the upper three bytes)
 *   double                      f64
 *   float, Vorbis, Opus, MP3    f32  (full scale is 1)
 *
 * 24-bit output is rounded to the nearest integer, ties to even. */

enum {
  S8 = 1u << FALT_S8,
  S16 = 1u << FALT_S16,
  S32 = 1u << FALT_S32,
  F32 = 1u << FALT_F32,
  F64 = 1u << FALT_F64,
  PCM = S8 | S16 | S32,
  DEFAULT_RATE = 44100,
  SHORTS = 4096, /* at least MOST_CHANNELS */
  MOST_CHANNELS = 1024,
  WHOLE = 65536
};

typedef struct audio {
  SNDFILE *file;
  char *path;
  falt_type type;
  int subtype;
  int64_t channels;
  int64_t position; /* frames read */
  SF_INFO info;
} audio;

/* ------------------------------------------------------------------------------------------------------ tables */

/* Everything not listed is decoded to f32. For writing, the first of a type that the container knows is taken: 8-bit
 * AIFF is signed, 8-bit WAV is not; FLAC ends at 24 bits. */
static const struct {
  int subtype;
  falt_type type;
} subtypes[] = {
    {SF_FORMAT_PCM_S8, FALT_S8},     {SF_FORMAT_PCM_U8, FALT_S8},    {SF_FORMAT_DPCM_8, FALT_S8},
    {SF_FORMAT_PCM_16, FALT_S16},    {SF_FORMAT_ALAC_16, FALT_S16},  {SF_FORMAT_DPCM_16, FALT_S16},
    {SF_FORMAT_DWVW_16, FALT_S16},   {SF_FORMAT_ULAW, FALT_S16},     {SF_FORMAT_ALAW, FALT_S16},
    {SF_FORMAT_IMA_ADPCM, FALT_S16}, {SF_FORMAT_MS_ADPCM, FALT_S16}, {SF_FORMAT_NMS_ADPCM_32, FALT_S16},
    {SF_FORMAT_GSM610, FALT_S16},    {SF_FORMAT_PCM_32, FALT_S32},   {SF_FORMAT_PCM_24, FALT_S32},
    {SF_FORMAT_ALAC_32, FALT_S32},   {SF_FORMAT_ALAC_24, FALT_S32},  {SF_FORMAT_ALAC_20, FALT_S32},
    {SF_FORMAT_DWVW_24, FALT_S32},   {SF_FORMAT_FLOAT, FALT_F32},    {SF_FORMAT_VORBIS, FALT_F32},
    {SF_FORMAT_OPUS, FALT_F32},      {SF_FORMAT_DOUBLE, FALT_F64},
};
enum { SUBTYPES = sizeof subtypes / sizeof subtypes[0] };

static falt_type type_of(int format) {
  for (int i = 0; i < SUBTYPES; i++)
    if (subtypes[i].subtype == (format & SF_FORMAT_SUBMASK)) return subtypes[i].type;
  return FALT_F32;
}

/* The format that is written for each extension. MP3 is only read: its encoder ends the process on samples far beyond
 * full scale. */
static const struct {
  const char *extensions;
  int major;
  unsigned types;
} containers[] = {
    {".wav", SF_FORMAT_WAV, PCM | F32 | F64},
    {".flac", SF_FORMAT_FLAC, PCM},
    {".ogg .oga", SF_FORMAT_OGG, F32},
    {".opus", SF_FORMAT_OGG, F32},
    {".mp3", SF_FORMAT_MPEG, 0},
    {".aiff .aif .aifc", SF_FORMAT_AIFF, PCM | F32 | F64},
    {".au .snd", SF_FORMAT_AU, PCM | F32 | F64},
    {".caf", SF_FORMAT_CAF, PCM | F32 | F64},
    {".w64", SF_FORMAT_W64, PCM | F32 | F64},
    {".rf64", SF_FORMAT_RF64, PCM | F32 | F64},
};
enum { CONTAINERS = sizeof containers / sizeof containers[0] };

static int container_of(const char *extension) {
  for (int i = 0; i < CONTAINERS; i++)
    if (io_lists(containers[i].extensions, extension)) return i;
  return -1;
}

static unsigned types(const char *extension) {
  const int i = container_of(extension);
  return i < 0 ? 0 : containers[i].types;
}

/* ----------------------------------------------------------------------------------------------------- reading */

static uint64_t number(const unsigned char *bytes, int width, bool big_endian) {
  uint64_t value = 0;
  for (int i = 0; i < width; i++) value = value << 8 | bytes[big_endian ? i : width - 1 - i];
  return value;
}

/* Where a file says how long it is: `width` bytes at `at`, to which `more` is added, or for AU its header's length. */
static const struct {
  char magic[5];
  int at, width;
  bool big_endian;
  int more;
} lengths[] = {
    {"RIFF", 4, 4, false, 8},  {"FORM", 4, 4, true, 8},  {"RF64", 20, 8, false, 8},
    {"riff", 16, 8, false, 0}, {".snd", 8, 4, true, -1},
};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* libsndfile quietly shortens a file whose end is missing. 0 and the largest number are what programs write that could
 * not know the length. */
static bool check_length(const char *path, io_error *error) {
  unsigned char b[32] = {0};
  FILE *file = fopen(path, "rbe");
  if (!file) return true; /* libsndfile will say why */
  const bool got = fread(b, 1, sizeof b, file) == sizeof b && fseeko(file, 0, SEEK_END) == 0;
  const uint64_t length = got ? (uint64_t)ftello(file) : 0;
  fclose(file);
  for (int i = 0; i < LENGTHS && got; i++) {
    if (memcmp(b, lengths[i].magic, 4) != 0) continue;
    const uint64_t declared = number(b + lengths[i].at, lengths[i].width, lengths[i].big_endian);
    const uint64_t more = lengths[i].more < 0 ? number(b + 4, 4, true) : (uint64_t)lengths[i].more;
    const uint64_t unknown = lengths[i].width == 4 ? UINT32_MAX : UINT64_MAX - more;
    if (declared == 0 || declared >= unknown) return true;
    if (declared + more > length)
      return io_fail(error, "%s: is truncated: %llu of %llu bytes are there; copy or write it again", path,
                     (unsigned long long)length, (unsigned long long)(declared + more));
  }
  return true;
}

static void close_audio(void *state) {
  audio *a = state;
  if (a->file) sf_close(a->file);
  free(a->path);
  free(a);
}

static audio *new_audio(const char *path, io_error *error) {
  audio *a = calloc(1, sizeof *a);
  if (a) a->path = strdup(path);
  if (a && a->path) return a;
  free(a);
  io_fail_memory(error, path);
  return NULL;
}

static void *open_audio(const char *path, const io_request *request, io_info *info, io_error *error) {
  (void)request;
  audio *a = new_audio(path, error);
  if (!a) return NULL;
  bool done = check_length(path, error);
  if (done) a->file = sf_open(path, SFM_READ, &a->info);
  if (done && !a->file)
    done = io_fail(error, "%s: cannot be read: %s; check that it is an audio file that libsndfile knows", path,
                   sf_strerror(NULL));
  if (done && (a->info.channels < 1 || a->info.channels > MOST_CHANNELS))
    done = io_fail(error, "%s: has %d channels; at most %d can be read", path, a->info.channels, MOST_CHANNELS);
  if (done && (a->info.frames <= 0 || a->info.frames == SF_COUNT_MAX))
    done = io_fail(error, "%s: has no frames or does not say how many; convert it to .wav", path);
  if (!done) {
    close_audio(a);
    return NULL;
  }
  a->type = type_of(a->info.format);
  a->channels = a->info.channels;
  info->type = a->type;
  info->space = 1;
  info->size[2] = a->info.frames;
  info->channels = a->info.channels;
  info->rate = a->info.samplerate;
  return a;
}

/* Bytes travel as the upper halves of shorts. */
static int64_t read_bytes(audio *a, int8_t *to, int64_t frames) {
  short shorts[SHORTS];
  const int64_t most = SHORTS / a->channels;
  int64_t done = 0;
  while (done < frames && most > 0) {
    const int64_t want = frames - done < most ? frames - done : most;
    const int64_t n = sf_readf_short(a->file, shorts, want);
    for (int64_t i = 0; i < n * a->channels; i++) *to++ = (int8_t)(shorts[i] >> 8);
    done += n;
    if (n != want) break;
  }
  return done;
}

static int64_t read_frames(audio *a, void *to, int64_t frames) {
  switch (a->type) {
    case FALT_S8:
      return read_bytes(a, to, frames);
    case FALT_S16:
      return sf_readf_short(a->file, to, frames);
    case FALT_S32:
      return sf_readf_int(a->file, to, frames);
    case FALT_F64:
      return sf_readf_double(a->file, to, frames);
    default:
      return sf_readf_float(a->file, to, frames);
  }
}

static bool read_audio(void *state, int64_t first, int64_t count, void *buffer, io_error *error) {
  audio *a = state;
  if (first != a->position && sf_seek(a->file, first, SEEK_SET) != first)
    return io_fail(error, "%s: cannot be read: %s; convert it to .wav", a->path, sf_strerror(a->file));
  const int64_t n = read_frames(a, buffer, count);
  a->position = first + n;
  return n == count || io_fail(error, "%s: is truncated: %lld of %lld frames are there; copy or write it again",
                               a->path, (long long)a->position, (long long)a->info.frames);
}

/* ----------------------------------------------------------------------------------------------------- writing */

static int choose_subtype(int major, falt_type type, const SF_INFO *info) {
  for (int i = 0; i < SUBTYPES; i++) {
    SF_INFO candidate = *info;
    candidate.format = major | subtypes[i].subtype;
    if (subtypes[i].type == type && sf_format_check(&candidate)) return candidate.format;
  }
  return 0;
}

/* The input's own format where it fits the extension and the type; a .wav beyond 4 GB becomes RF64, which readers of
 * WAV know. */
static int choose_format(const char *extension, const io_info *info, const audio *like, const SF_INFO *described) {
  int major = containers[container_of(extension)].major;
  const double bytes = (double)io_row_bytes(info) * (double)io_rows(info);
  if (major == SF_FORMAT_WAV && bytes > 4.0e9) major = SF_FORMAT_RF64;
  if (strcmp(extension, ".opus") == 0) return major | SF_FORMAT_OPUS;
  if (like && like->type == info->type) {
    SF_INFO candidate = *described;
    candidate.format = major | (like->info.format & (SF_FORMAT_SUBMASK | SF_FORMAT_ENDMASK));
    if (sf_format_check(&candidate)) return candidate.format;
    candidate.format = major | (like->info.format & SF_FORMAT_SUBMASK);
    if (sf_format_check(&candidate)) return candidate.format;
  }
  return choose_subtype(major, info->type, described);
}

static void copy_tags(const audio *from, audio *to) {
  for (int tag = SF_STR_FIRST; tag <= SF_STR_LAST; tag++) {
    const char *text = sf_get_string(from->file, tag);
    if (text) sf_set_string(to->file, tag, text);
  }
}

static bool begin(audio *a, const io_output *output, const io_info *info, const audio *like, io_error *error) {
  const char *extension = output->extension;
  if (info->channels > MOST_CHANNELS)
    return io_fail(error, "%s: audio holds at most %d channels, not %lld; write .npy", output->path, MOST_CHANNELS,
                   (long long)info->channels);
  const int rate = info->rate >= 1 ? (int)info->rate : DEFAULT_RATE;
  if (rate % info->step[2] != 0)
    return io_fail(error,
                   "%s: %d Hz over a stride of %lld is no whole number of hertz; take another stride or write .npy",
                   output->path, rate, (long long)info->step[2]);
  a->info = (SF_INFO){.samplerate = (int)(rate / info->step[2]), .channels = (int)info->channels};
  a->info.format = choose_format(extension, info, like, &a->info);
  a->type = info->type;
  a->channels = info->channels;
  a->subtype = a->info.format & SF_FORMAT_SUBMASK;
  if (!a->info.format || !sf_format_check(&a->info))
    return io_fail(error, "%s: %s files hold no %lld channels of %s at %d Hz; write .wav", output->path, extension,
                   (long long)info->channels, falt_type_name(info->type), a->info.samplerate);
  a->file = sf_open(output->temporary, SFM_WRITE, &a->info);
  if (!a->file)
    return io_fail(error, "%s: cannot be created: %s; check the path and the format", output->path, sf_strerror(NULL));
  sf_command(a->file, SFC_SET_ADD_PEAK_CHUNK, NULL, SF_FALSE); /* it holds the time: equal audio would differ */
  if (like) copy_tags(like, a);
  return true;
}

static void *create_audio(const io_output *output, const io_info *info, const void *like, io_error *error) {
  audio *a = new_audio(output->path, error);
  if (!a || begin(a, output, info, like, error)) return a;
  close_audio(a);
  return NULL;
}

static int64_t write_bytes(audio *a, const int8_t *from, int64_t items) {
  short shorts[SHORTS];
  const int64_t most = SHORTS / a->channels * a->channels;
  int64_t done = 0;
  while (done < items) {
    const int64_t want = items - done < most ? items - done : most;
    for (int64_t i = 0; i < want; i++) shorts[i] = (short)(from[done + i] * 256);
    const int64_t n = sf_write_short(a->file, shorts, want);
    done += n;
    if (n != want) break;
  }
  return done;
}

/* The upper 24 bits, rounded to the nearest integer, ties to even, for libsndfile, which would cut the rest off. */
static int round24(int32_t value) {
  const int64_t rounded = ((int64_t)value + 127 + (value >> 8 & 1)) >> 8;
  return (int)((rounded > 0x7fffff ? 0x7fffff : rounded) * 256);
}

static int64_t write_ints(audio *a, const int32_t *from, int64_t items) {
  int ints[SHORTS];
  const int64_t most = SHORTS / a->channels * a->channels;
  int64_t done = 0;
  if (a->subtype != SF_FORMAT_PCM_24 && a->subtype != SF_FORMAT_ALAC_24) return sf_write_int(a->file, from, items);
  while (done < items) {
    const int64_t want = items - done < most ? items - done : most;
    for (int64_t i = 0; i < want; i++) ints[i] = round24(from[done + i]);
    const int64_t n = sf_write_int(a->file, ints, want);
    done += n;
    if (n != want) break;
  }
  return done;
}

static int64_t write_items(audio *a, const void *from, int64_t items) {
  switch (a->type) {
    case FALT_S8:
      return write_bytes(a, from, items);
    case FALT_S16:
      return sf_write_short(a->file, from, items);
    case FALT_S32:
      return write_ints(a, from, items);
    case FALT_F64:
      return sf_write_double(a->file, from, items);
    default:
      return sf_write_float(a->file, from, items);
  }
}

/* In pieces: libsndfile's encoders keep whole calls on their stack. */
static bool write_audio(void *state, int64_t count, const void *buffer, io_error *error) {
  audio *a = state;
  const int64_t total = count * a->channels, bytes = (int64_t)falt_type_size(a->type);
  const int64_t most = WHOLE / a->channels * a->channels;
  for (int64_t done = 0; done < total; done += most) {
    const int64_t items = total - done < most ? total - done : most;
    if (write_items(a, (const char *)buffer + done * bytes, items) != items)
      return io_fail(error, "%s: cannot be written: %s; check the space on the disk", a->path, sf_strerror(a->file));
  }
  return true;
}

static bool finish_audio(void *state, io_error *error) {
  audio *a = state;
  sf_write_sync(a->file);
  const bool written = sf_error(a->file) == SF_ERR_NO_ERROR;
  const bool closed = sf_close(a->file) == 0;
  a->file = NULL;
  const bool done =
      (written && closed) || io_fail(error, "%s: cannot be written completely; check the space on the disk", a->path);
  close_audio(a);
  return done;
}

extern const io_backend io_backend_export;
__attribute__((visibility("default"))) const io_backend io_backend_export = {
    .version = IO_BACKEND_VERSION,
    .spaces = 1u << 1,
    .types = types,
    .open = open_audio,
    .read = read_audio,
    .close = close_audio,
    .create = create_audio,
    .write = write_audio,
    .finish = finish_audio,
    .abandon = close_audio,
};
