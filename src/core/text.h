/* Text: appends to a buffer that truncates, parses complete numbers, and finds the closest known name. */
#ifndef FALT_CORE_TEXT_H
#define FALT_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A writer over the caller's buffer. length is the untruncated length, so truncation is visible. */
typedef struct falt_text {
  char *data;
  size_t size, length;
} falt_text;

falt_text falt_text_over(char *data, size_t size); /* size 0 is allowed and only counts */
void falt_text_add(falt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same double: "0.1", "3", "nan". */
void falt_text_add_double(falt_text *text, double value);

/* Parses all of text[0..length) as a number; false if it contains anything else or does not fit. */
bool falt_read_int(const char *text, size_t length, int64_t *value);
bool falt_read_double(const char *text, size_t length, double *value);

/* Index of text[0..length) in names[0..count), or -1. NULL names are skipped. */
int falt_find_name(const char *text, size_t length, const char *const *names, int count);
/* The name nearest to text by edit distance, or NULL if none is near (more than half of it would change). */
const char *falt_nearest_name(const char *text, size_t length, const char *const *names, int count);

#endif
