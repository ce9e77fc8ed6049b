/* Random problem lines of box filters: every dimension, type, boundary and place that filters have. */
#ifndef FALT_TESTS_BOX_LINES_H
#define FALT_TESTS_BOX_LINES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/random.h"

enum { LINE = 400 };

static void add_words(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_words(char *line, const char *format, ...) {
  const size_t used = strlen(line);
  va_list list;
  va_start(list, format);
  vsnprintf(line + used, LINE - used, format, list);
  va_end(list);
}

/* Windows of one tap to several times the image, in places that filters have. */
__attribute__((unused)) static void draw_box_line(char line[LINE], uint64_t *seed) {
  static const char *const boundaries[] = {"constant", "edge", "symmetric", "reflect101", "wrap"};
  static const char *const places[] = {"",          " mode=valid", " mode=full",
                                       " anchor=0", " stride=2",   " stride=3 mode=full"};
  static const char *const types[] = {"u8", "s8", "u16", "s16", "s32", "f16", "bf16", "f32", "f32", "f64"};
  static const char *const outputs[] = {"", "", " out-type=s32", " out-type=f32"};
  const int space = (int)falt_random_int(seed, 1, 3);
  int64_t in[3], taps[3];
  for (int i = 0; i < 3; i++) {
    in[i] = falt_random_int(seed, 1, i == 2 ? 90 : 12);
    taps[i] = falt_random_int(seed, 1, falt_random_int(seed, 0, 3) == 0 ? 2 * in[i] + 1 : in[i]);
  }
  taps[2] += taps[2] == 1;
  const int64_t place = falt_random_int(seed, 0, 5);
  for (int i = 0; i < 3; i++) taps[i] = place == 1 ? falt_min(taps[i], in[i]) : taps[i];
  if (in[2] == 1) taps[2] = place == 1 ? (in[2] = 2) : taps[2];
  strcpy(line, "correlate");
  if (space > 2) add_words(line, " d=%d t=%d", (int)in[0], (int)taps[0]);
  if (space > 1) add_words(line, " h=%d r=%d", (int)in[1], (int)taps[1]);
  add_words(line, " w=%d s=%d type=%s%s", (int)in[2], (int)taps[2], types[falt_random_int(seed, 0, 9)], places[place]);
  add_words(line, "%s", outputs[falt_random_int(seed, 0, 3)]);
  if (falt_random_int(seed, 0, 2) == 0) add_words(line, " pixel=3");
  if (falt_random_int(seed, 0, 2) == 0) add_words(line, " n=2");
  if (falt_random_int(seed, 0, 4) == 0) add_words(line, " alpha=0.5 beta=3");
  if (falt_random_int(seed, 0, 1)) add_words(line, " weight-type=s32");
  add_words(line, " boundary=%s", boundaries[falt_random_int(seed, 0, 4)]);
  if (falt_random_int(seed, 0, 3) == 0) add_words(line, " value=%d", (int)falt_random_int(seed, -300, 300));
}

#endif
