/* Image descriptions that state sizes and types: OME-XML, ImageJ's lines, the JSON of "shaped" TIFF files. They are
 * updated for the output, or removed if they cannot be. Other descriptions are text for people and are kept. */
#include <stdlib.h>
#include <string.h>

#include "io/modules/vips.h"

static const char field[] = "image-description";

/* ------------------------------------------------------------------------------------------------------ OME-XML */

static const struct {
  falt_type type;
  const char *name;
} ome_types[] = {{FALT_U8, "uint8"},  {FALT_S8, "int8"},   {FALT_U16, "uint16"}, {FALT_S16, "int16"},
                 {FALT_S32, "int32"}, {FALT_F32, "float"}, {FALT_F64, "double"}};
enum { OME_TYPES = sizeof ome_types / sizeof ome_types[0] };

static const char *ome_type(falt_type type) {
  for (int i = 0; i < OME_TYPES; i++)
    if (ome_types[i].type == type) return ome_types[i].name;
  return "";
}

/* The value of an attribute within a tag, after its opening quote; NULL if the tag has none. */
static const char *find_value(const char *tag, const char *end, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = tag; at + length + 2 < end; at++) {
    const bool begins = at[0] == ' ' || at[0] == '\n' || at[0] == '\t' || at[0] == '\r';
    if (begins && memcmp(at + 1, name, length) == 0 && at[length + 1] == '=' &&
        (at[length + 2] == '"' || at[length + 2] == '\''))
      return at + length + 3;
  }
  return NULL;
}

/* Replaces the value of an attribute in the tag at offset `at`, if the tag has it. */
static void set_value(GString *text, gsize at, const char *name, const char *value) {
  const char *tag = text->str + at, *end = strchr(tag, '>');
  const char *old = end ? find_value(tag, end, name) : NULL;
  const char *quote = old ? strchr(old, old[-1]) : NULL;
  if (!quote || quote > end) return;
  const gssize place = old - text->str;
  g_string_erase(text, place, quote - old);
  g_string_insert(text, place, value);
}

static void set_integer(GString *text, gsize at, const char *name, int64_t value) {
  char digits[24];
  g_snprintf(digits, sizeof digits, "%lld", (long long)value);
  set_value(text, at, name, digits);
}

/* A physical size grows with the stride. */
static void scale_value(GString *text, gsize at, const char *name, int64_t factor) {
  const char *tag = text->str + at, *end = strchr(tag, '>');
  const char *old = end ? find_value(tag, end, name) : NULL;
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  if (!old || factor == 1) return;
  g_ascii_formatd(digits, sizeof digits, "%.12g", g_ascii_strtod(old, NULL) * (double)factor);
  set_value(text, at, name, digits);
}

static void correct_ome(GString *text, const io_info *info) {
  for (gsize at = 0; at < text->len; at++) {
    const char *tag = strstr(text->str + at, "<Pixels");
    if (!tag) return;
    at = (gsize)(tag - text->str);
    set_integer(text, at, "SizeX", info->size[2]);
    set_integer(text, at, "SizeY", info->size[1]);
    set_value(text, at, "Type", ome_type(info->type));
    set_integer(text, at, "SignificantBits", 8 * (int64_t)falt_type_size(info->type));
    scale_value(text, at, "PhysicalSizeX", info->step[2]);
    scale_value(text, at, "PhysicalSizeY", info->step[1]);
  }
}

/* ------------------------------------------------------------------------------------------------- descriptions */

static bool same_pages(const vips_reader *from, const io_info *info) {
  return from->pages == info->pages && from->image->Bands == info->channels;
}

static bool same_shape(const vips_reader *from, const io_info *info) {
  return same_pages(from, info) && from->image->Xsize == info->size[2] &&
         from->image->Ysize == info->pages * info->size[1];
}

void vips_correct_description(const vips_reader *from, VipsImage *to, const io_info *info) {
  const char *old;
  if (!vips_image_get_typeof(from->file, field) || vips_image_get_string(from->file, field, &old) != 0) return;
  const bool ome = strstr(old, "<OME") != NULL, imagej = strncmp(old, "ImageJ=", 7) == 0;
  const bool shaped = old[0] == '{' && strstr(old, "\"shape\"");
  const bool stale = (shaped && !same_shape(from, info)) || ((ome || imagej) && !same_pages(from, info));
  if (stale || from->in_file != from->pages) {
    if (ome || imagej || shaped) vips_image_remove(to, field);
    return;
  }
  if (!ome) return;
  GString *text = g_string_new(old);
  correct_ome(text, info);
  vips_image_set_string(to, field, text->str);
  g_string_free(text, TRUE);
}
