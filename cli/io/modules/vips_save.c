/* The types that each image format can hold, its save options, and its metadata. */
#include <stdio.h>
#include <string.h>

#include "io/modules/vips.h"

enum {
  U8 = 1u << FALT_U8,
  U16 = 1u << FALT_U16,
  F32 = 1u << FALT_F32,
  F64 = 1u << FALT_F64,
  PLAIN = U8 | U16 | F32 | F64 | 1u << FALT_S8 | 1u << FALT_S16 | 1u << FALT_S32,
  ANY_CHANNELS = 1,
  GREY = 1u << 1,
  GREY_ALPHA = 1u << 2,
  RGB = 1u << 3,
  RGBA = 1u << 4,
  COLOURS = GREY | GREY_ALPHA | RGB | RGBA,
  QUALITY = 90
};

static int save_plain(VipsImage *image, const char *path, int compression) {
  (void)compression;
  return vips_image_write_to_file(image, path, NULL);
}

/* Stripped of a comment with the date, which PFM does not allow and which would make equal images differ. */
static int save_pnm(VipsImage *image, const char *path, int compression) {
  (void)compression;
  return vips_image_write_to_file(image, path, "strip", TRUE, NULL);
}

static int save_lossy(VipsImage *image, const char *path, int compression) {
  (void)compression;
  return vips_image_write_to_file(image, path, "Q", QUALITY, NULL);
}

static int save_lossless(VipsImage *image, const char *path, int compression) {
  (void)compression;
  return vips_image_write_to_file(image, path, "lossless", TRUE, NULL);
}

/* The output's Compression for the input's tag. Bilevel codes cannot hold a filtered image; JPEG holds 8 bits. */
static VipsForeignTiffCompression tiff_compression(const VipsImage *image, int tag) {
  switch (tag) {
    case 0:
    case 1:
      return VIPS_FOREIGN_TIFF_COMPRESSION_NONE;
    case 5:
      return VIPS_FOREIGN_TIFF_COMPRESSION_LZW;
    case 7:
      return image->BandFmt == VIPS_FORMAT_UCHAR && (image->Bands == 1 || image->Bands == 3)
                 ? VIPS_FOREIGN_TIFF_COMPRESSION_JPEG
                 : VIPS_FOREIGN_TIFF_COMPRESSION_DEFLATE;
    case 32773:
      return VIPS_FOREIGN_TIFF_COMPRESSION_PACKBITS;
    case 50000:
      return VIPS_FOREIGN_TIFF_COMPRESSION_ZSTD;
    default:
      return VIPS_FOREIGN_TIFF_COMPRESSION_DEFLATE;
  }
}

static int save_tiff(VipsImage *image, const char *path, int compression) {
  const bool is_float = image->BandFmt == VIPS_FORMAT_FLOAT || image->BandFmt == VIPS_FORMAT_DOUBLE;
  const double bytes = (double)VIPS_IMAGE_SIZEOF_LINE(image) * image->Ysize;
  return vips_tiffsave(image, path, "compression", tiff_compression(image, compression), "predictor",
                       is_float ? VIPS_FOREIGN_TIFF_PREDICTOR_FLOAT : VIPS_FOREIGN_TIFF_PREDICTOR_HORIZONTAL, "Q",
                       QUALITY, "bigtiff", bytes > 4.0e9, NULL);
}

static const vips_saver savers[] = {
    {".png", U8 | U16, COLOURS, false, save_plain},
    {".jpg .jpeg .jpe .jfif", U8, GREY | RGB, false, save_lossy},
    {".tif .tiff", PLAIN, ANY_CHANNELS, true, save_tiff},
    {".webp", U8, COLOURS, true, save_lossy},
    {".gif", U8, COLOURS, true, save_plain},
    {".jp2 .j2k .j2c .jpc .jpt", U8 | U16, ANY_CHANNELS, false, save_lossy},
    {".jxl", U8 | U16, COLOURS, false, save_lossless},
    {".avif .heic .heif", U8, COLOURS, false, save_lossy},
    {".ppm .pnm", U8 | U16, GREY | RGB, false, save_pnm},
    {".pgm", U8 | U16, GREY, false, save_pnm},
    {".hdr", F32, RGB, false, save_plain},
    {".fits .fit .fts", U8 | U16 | F32 | F64, ANY_CHANNELS, false, save_plain},
    {".bmp", U8, GREY | RGB | RGBA, false, save_plain},
    {".v .vips", PLAIN, ANY_CHANNELS, true, save_plain},
};
enum { SAVERS = sizeof savers / sizeof savers[0] };

const vips_saver *vips_saver_find(const char *extension) {
  for (int i = 0; i < SAVERS; i++)
    if (io_lists(savers[i].extensions, extension)) return &savers[i];
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------- metadata */

/* Fields that describe the pixels or pages of the input, its palette or its thumbnail, and would be wrong for the
 * output or make the saver reduce its depth. */
static const char *const not_copied[] = {
    "width",
    "height",
    "bands",
    "format",
    "coding",
    "interpretation",
    "xoffset",
    "yoffset",
    "xres",
    "yres",
    "filename",
    "vips-loader",
    "vips-sequential",
    "n-pages",
    "page-height",
    "n-subifds",
    "palette",
    "palette-bit-depth",
    "bits-per-sample",
    "palette-colours",
    "gif-palette",
    "background",
    "jpeg-thumbnail-data",
    "heif-bitdepth",
    "history",
};
enum { NOT_COPIED = sizeof not_copied / sizeof not_copied[0] };

/* The time of each page of an animation, and how often it is shown. */
static const char *const of_animations[] = {"delay", "gif-delay", "loop", "gif-loop"};
enum { OF_ANIMATIONS = sizeof of_animations / sizeof of_animations[0] };

typedef struct copying {
  VipsImage *to;
  bool animation; /* as many pages as in the input */
} copying;

static void *copy_field(VipsImage *from, const char *name, GValue *value, void *context) {
  const copying *c = context;
  (void)from;
  for (int i = 0; i < NOT_COPIED; i++)
    if (strcmp(name, not_copied[i]) == 0) return NULL;
  for (int i = 0; i < OF_ANIMATIONS && !c->animation; i++)
    if (strcmp(name, of_animations[i]) == 0) return NULL;
  vips_image_set(c->to, name, value);
  return NULL;
}

void vips_copy_metadata(const vips_reader *from, VipsImage *to, const io_info *info) {
  copying c = {to, from->pages > 1 && from->pages == info->pages};
  vips_image_map(from->file, copy_field, &c);
}

/* -------------------------------------------------------------------------------------------- TIFF's compression */

/* libvips does not say how a TIFF file was compressed. The first directory does: a header of 8 bytes (16 in BigTIFF,
 * version 43), then the directory's entries of 12 (20) bytes with tag, type, count and value; tag 259 holds a short. */
typedef struct tiff {
  FILE *file;
  bool big_endian, big;
} tiff;

static uint64_t get(const tiff *t, const unsigned char *bytes, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; i++) value = value << 8 | bytes[t->big_endian ? i : n - 1 - i];
  return value;
}

static int find_compression(tiff *t, uint64_t offset) {
  unsigned char bytes[20];
  const size_t count_bytes = t->big ? 8 : 2, entry_bytes = t->big ? 20 : 12;
  if (offset > INT64_MAX || fseeko(t->file, (off_t)offset, SEEK_SET) != 0) return 0;
  if (fread(bytes, 1, count_bytes, t->file) != count_bytes) return 0;
  const uint64_t count = get(t, bytes, (int)count_bytes);
  for (uint64_t i = 0; i < count && i < 1000 && fread(bytes, 1, entry_bytes, t->file) == entry_bytes; i++)
    if (get(t, bytes, 2) == 259) return (int)get(t, bytes + (t->big ? 12 : 8), 2);
  return 0;
}

int vips_tiff_compression(const char *path) {
  unsigned char bytes[16] = {0};
  tiff t = {.file = fopen(path, "rbe")};
  if (!t.file) return 0;
  int compression = 0;
  const size_t got = fread(bytes, 1, sizeof bytes, t.file);
  const bool little = memcmp(bytes, "II", 2) == 0;
  t.big_endian = memcmp(bytes, "MM", 2) == 0;
  if (got == sizeof bytes && (little || t.big_endian)) {
    const uint64_t version = get(&t, bytes + 2, 2);
    t.big = version == 43;
    if (version == 42 || t.big)
      compression = find_compression(&t, t.big ? get(&t, bytes + 8, 8) : get(&t, bytes + 4, 4));
  }
  fclose(t.file);
  return compression;
}
