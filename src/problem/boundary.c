/* Values by axis name, and the words of boundaries: boundary=edge, constant=3, y=wrap,x=edge:constant, and value. */
#include <math.h>
#include <string.h>

#include "problem/words.h"

static const struct {
  const char *name;
  falt_boundary boundary;
} aliases[] = {{"nearest", FALT_EDGE},         {"replicate", FALT_EDGE},         {"clamp", FALT_EDGE},
               {"periodic", FALT_WRAP},        {"circular", FALT_WRAP},          {"tile", FALT_WRAP},
               {"mirror101", FALT_REFLECT101}, {"reflect", FALT_BOUNDARY_COUNT}, {"mirror", FALT_BOUNDARY_COUNT}};

static falt_status set_value(const falt_word *word, falt_line *line, const char *text, size_t length) {
  double value;
  FALT_TRY(falt_word_number(word, text, length, &value));
  if (!isnan(line->value) && line->value != value)
    return falt_fail(FALT_INVALID_TEXT, "problem: boundary values %g and %g conflict; one serves the whole problem",
                     line->value, value);
  line->value = value;
  return FALT_OK;
}

falt_status falt_read_value(const falt_word *word, falt_line *line, const char *text, size_t length) {
  return set_value(word, line, text, length);
}

static falt_status read_boundary_name(const falt_word *word, const char *text, size_t length, falt_boundary *boundary) {
  const char *names[FALT_BOUNDARY_COUNT + sizeof aliases / sizeof *aliases];
  int count = 0;
  for (; count < FALT_BOUNDARY_COUNT; count++) names[count] = falt_boundary_names[count];
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) names[count++] = aliases[i].name;
  int found = falt_find_name(text, length, names, count);
  if (found < 0) return falt_word_unknown(word, text, length, names, count);
  *boundary = found < FALT_BOUNDARY_COUNT ? (falt_boundary)found : aliases[found - FALT_BOUNDARY_COUNT].boundary;
  if (*boundary < FALT_BOUNDARY_COUNT) return FALT_OK;
  return falt_fail(FALT_INVALID_TEXT,
                   "problem: boundary '%s' is ambiguous; say symmetric for c b a [a b c d] d c b, or "
                   "reflect101 for d c b [a b c d] c b a",
                   names[found]);
}

/* MODE or MODE=VALUE. */
static falt_status read_side(const falt_word *word, falt_line *line, const char *text, size_t length,
                             falt_boundary *boundary) {
  const char *equals = memchr(text, '=', length);
  size_t name = equals ? (size_t)(equals - text) : length;
  FALT_TRY(read_boundary_name(word, text, name, boundary));
  if (!equals) return FALT_OK;
  if (*boundary != FALT_CONSTANT)
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "only constant takes a value");
  return set_value(word, line, equals + 1, length - name - 1);
}

/* MODE or BEFORE:AFTER. */
static falt_status read_sides(const falt_word *word, falt_line *line, const char *text, size_t length,
                              falt_boundary boundary[2]) {
  const char *colon = memchr(text, ':', length);
  size_t before = colon ? (size_t)(colon - text) : length;
  FALT_TRY(read_side(word, line, text, before, &boundary[0]));
  boundary[1] = boundary[0];
  return colon ? read_side(word, line, colon + 1, length - before - 1, &boundary[1]) : FALT_OK;
}

int falt_axis_named(const char *text, size_t length) {
  static const char letters[] = "zyxdhw";
  if (length < 2 || text[1] != '=' || !text[0]) return -1;
  const char *at = strchr(letters, text[0]);
  return at ? (int)(at - letters) % 3 : -1;
}

falt_status falt_read_axes(const falt_word *word, falt_line *line, const char *text, size_t length, unsigned *axes,
                           falt_axis_reader *read) {
  const char *rest = text, *piece;
  size_t left = length, size;
  while (falt_next_piece(&rest, &left, ',', &piece, &size)) {
    const int axis = falt_axis_named(piece, size);
    if (axis < 0)
      return falt_word_bad(FALT_INVALID_TEXT, word, piece, size, "AXIS=VALUE is expected, with the axis z, y or x");
    if (*axes >> axis & 1) return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "an axis is named twice");
    *axes |= 1u << axis;
    FALT_TRY(read(word, line, axis, piece + 2, size - 2));
  }
  return FALT_OK;
}

static falt_status read_axis(const falt_word *word, falt_line *line, int axis, const char *text, size_t length) {
  return read_sides(word, line, text, length, line->boundary[axis]);
}

falt_status falt_read_boundary(const falt_word *word, falt_line *line, const char *text, size_t length) {
  falt_boundary all[2];
  if (falt_axis_named(text, length) >= 0)
    return falt_read_axes(word, line, text, length, &line->boundary_axes, read_axis);
  FALT_TRY(read_sides(word, line, text, length, all));
  for (int i = 0; i < 3; i++) memcpy(line->boundary[i], all, sizeof all);
  return FALT_OK;
}

static void write_sides(const falt_boundary boundary[2], falt_text *text) {
  falt_text_add(text, "%s", falt_boundary_names[boundary[0]]);
  if (boundary[1] != boundary[0]) falt_text_add(text, ":%s", falt_boundary_names[boundary[1]]);
}

void falt_write_boundary(const falt_word *word, const falt_line *line, falt_text *text) {
  static const falt_boundary constant[2] = {FALT_CONSTANT, FALT_CONSTANT};
  int first = 3 - falt_line_space(line);
  bool same = true, comma = false;
  for (int i = first; i < 3; i++) same &= !memcmp(line->boundary[i], line->boundary[first], sizeof constant);
  if (same && !memcmp(line->boundary[first], constant, sizeof constant)) return;
  falt_word_begin(word, text);
  if (same) {
    write_sides(line->boundary[first], text);
    return;
  }
  for (int i = first; i < 3; i++) {
    if (!memcmp(line->boundary[i], constant, sizeof constant)) continue;
    falt_text_add(text, "%s%c=", comma ? "," : "", "zyx"[i]);
    write_sides(line->boundary[i], text);
    comma = true;
  }
}
