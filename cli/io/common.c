/* Helpers of the command and of every module: error lines, extensions, the shape of a row. Compiled into each. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "io/format.h"

bool io_fail(io_error *error, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(error->text, sizeof error->text, format, list);
  va_end(list);
  for (char *c = error->text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = '?'; /* a file's name or header must not break the line */
  return false;
}

bool io_fail_memory(io_error *error, const char *path) {
  return io_fail(error, "%s: out of memory; close other programs or work on a smaller part", path);
}

static uint64_t load32(const void *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

static uint64_t load64(const void *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* An integer is a double's if its significant bits span at most 53. */
static bool fits(uint64_t magnitude) {
  return magnitude >> 53 == 0 || (magnitude >> __builtin_ctzll(magnitude)) >> 53 == 0;
}

int64_t io_widen(io_wide kind, const void *from, int64_t count, double *to, char text[24]) {
  const char *bytes = from;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t value = kind == IO_U32 ? load32(bytes + 4 * i) : load64(bytes + 8 * i);
    const bool negative = kind == IO_S64 && value >> 63;
    const uint64_t magnitude = negative ? -value : value;
    if (!fits(magnitude)) {
      snprintf(text, 24, "%s%llu", negative ? "-" : "", (unsigned long long)magnitude);
      return i;
    }
    to[i] = negative ? -(double)magnitude : (double)magnitude;
  }
  return count;
}

const char *io_split(const char *path, char file[PATH_MAX]) {
  const char *end = strcasestr(path, ".npz:");
  const size_t length = end ? (size_t)(end - path) + 4 : strlen(path);
  const bool fits = length < PATH_MAX;
  memcpy(file, path, fits ? length : 0);
  file[fits ? length : 0] = '\0';
  return end ? end + 5 : NULL;
}

bool io_is_archive(const char *path) {
  char extension[8];
  io_extension(path, extension, sizeof extension);
  return strcmp(extension, ".npz") == 0;
}

void io_extension(const char *whole, char *text, size_t size) {
  char path[PATH_MAX];
  io_split(whole, path);
  const char *slash = strrchr(path, '/');
  const char *base = slash ? slash + 1 : path;
  const char *dot = strrchr(base, '.');
  text[0] = '\0';
  if (!dot || dot == base) return;
  if (strcasecmp(dot, ".gz") == 0 && dot - base > 4 && strncasecmp(dot - 4, ".nii", 4) == 0) dot -= 4;
  const size_t length = strlen(dot);
  if (length >= size) return;
  for (size_t i = 0; i <= length; i++) text[i] = dot[i] >= 'A' && dot[i] <= 'Z' ? (char)(dot[i] + 32) : dot[i];
}

bool io_lists(const char *list, const char *extension) {
  const size_t length = strlen(extension);
  for (const char *at = list; length && (at = strstr(at, extension)) != NULL; at += length)
    if (at[length] == ' ' || at[length] == '\0') return true;
  return false;
}

int64_t io_row_elements(const io_info *info) {
  return info->channels * (info->space > 1 ? info->size[2] : 1) * (info->space > 2 ? info->size[1] : 1);
}

int64_t io_row_bytes(const io_info *info) {
  return io_row_elements(info) * (int64_t)falt_type_size(info->type);
}

int64_t io_rows(const io_info *info) {
  return info->size[3 - info->space];
}

int64_t io_all_rows(const io_info *info) {
  return info->pages * io_rows(info);
}
