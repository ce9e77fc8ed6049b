/* Values by axis as users type them: "2", "1x2", "y=1,x=2", and boundaries such as "y=wrap,x=edge:constant=5". */
#include "axes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

const char *const cli_axis_names[3] = {"z", "y", "x"};
const char *const cli_dialect_names[CLI_DIALECT_COUNT] = {"none", "scipy", "numpy", "opencv", "torch"};

/* Index of the axis that a letter names; d, h and w are the problem line's words for z, y and x. */
static int axis_of(char letter) {
  const char *at = letter ? strchr("zyxdhw", letter) : NULL;
  return at ? (int)(at - "zyxdhw") % 3 : -1;
}

/* ---- numbers */

static bool read_number(const char **text, int64_t *value) {
  char *end;
  errno = 0;
  long long read = strtoll(*text, &end, 10);
  if (end == *text || errno == ERANGE) return false;
  *text = end;
  *value = read;
  return true;
}

static bool parse_named(const char *at, cli_axes *axes) {
  axes->count = -1;
  for (;;) {
    int axis = axis_of(*at);
    if (axis < 0 || at[1] != '=' || axes->named[axis]) return false;
    at += 2;
    if (!read_number(&at, &axes->value[axis])) return false;
    axes->named[axis] = true;
    if (*at == '\0') return true;
    if (*at++ != ',') return false;
  }
}

static bool parse_ordered(const char *at, cli_axes *axes) {
  for (;;) {
    if (axes->count == 3 || !read_number(&at, &axes->value[axes->count])) return false;
    axes->count++;
    if (*at == '\0') return true;
    if (*at != 'x') return false;
    at++;
  }
}

bool cli_axes_parse(const char *text, cli_axes *axes, io_error *error) {
  *axes = (cli_axes){0};
  if (axis_of(text[0]) >= 0 ? parse_named(text, axes) : parse_ordered(text, axes)) return true;
  return cli_wrong(
      error, "%.80s: not integers by axis; write one number for all axes, 1x2 in the order y, x, or y=1,x=2", text);
}

bool cli_axes_resolve(const cli_axes *axes, int space, const char *option, int64_t value[3], io_error *error) {
  for (int axis = 0; axis < 3 - space; axis++) {
    if (axes->named[axis]) {
      return cli_wrong(error, "%s: the data has %d ax%s and no %s; leave it out", option, space,
                       space == 1 ? "is" : "es", cli_axis_names[axis]);
    }
  }
  if (axes->count > 1 && axes->count != space) {
    return cli_wrong(error, "%s: %d numbers for data with %d ax%s; write one for each, or a single one for all", option,
                     axes->count, space, space == 1 ? "is" : "es");
  }
  for (int axis = 3 - space; axis < 3; axis++) {
    if (axes->named[axis]) value[axis] = axes->value[axis];
    if (axes->count == 1) value[axis] = axes->value[0];
    if (axes->count == space) value[axis] = axes->value[axis - (3 - space)];
  }
  return true;
}

/* ---- boundaries */

/* In the order of the enumeration. */
static const char *const boundary_names[FALT_BOUNDARY_COUNT] = {"constant", "edge", "symmetric", "reflect101", "wrap"};

const char *cli_boundary_name(int i) {
  return i >= 0 && i < FALT_BOUNDARY_COUNT ? boundary_names[i] : NULL;
}

bool cli_word_read(const char *option, const char *word, const char *value, falt_problem *problem, io_error *error) {
  static const char topic[] = "problem: ";
  char line[128];
  snprintf(line, sizeof line, "correlate w=1 s=1 %s=%.60s", word, value);
  if (falt_problem_parse(problem, NULL, line) == FALT_OK) return true;
  const char *why = falt_message();
  const size_t skip = strncmp(why, topic, sizeof topic - 1) == 0 ? sizeof topic - 1 : 0;
  return cli_wrong(error, "%s%s", option, why + skip);
}

/* The meaning of reflect and mirror in each library; FALT_BOUNDARY_COUNT: the word does not exist there. */
static const falt_boundary reflect_means[CLI_DIALECT_COUNT] = {FALT_BOUNDARY_COUNT, FALT_SYMMETRIC, FALT_REFLECT101,
                                                               FALT_SYMMETRIC, FALT_REFLECT101};
static const falt_boundary mirror_means[CLI_DIALECT_COUNT] = {FALT_BOUNDARY_COUNT, FALT_REFLECT101, FALT_BOUNDARY_COUNT,
                                                              FALT_BOUNDARY_COUNT, FALT_BOUNDARY_COUNT};

static bool read_ambiguous(const char *name, cli_dialect dialect, falt_boundary *boundary, io_error *error) {
  *boundary = strcmp(name, "reflect") == 0 ? reflect_means[dialect] : mirror_means[dialect];
  if (*boundary != FALT_BOUNDARY_COUNT) return true;
  if (dialect != CLI_DIALECT_NONE) {
    return cli_wrong(error,
                     "--boundary %s: not a word of %s; write symmetric (dcba|abcd|dcba) or reflect101 (dcb|abcd|cba)",
                     name, cli_dialect_names[dialect]);
  }
  return cli_wrong(
      error,
      "--boundary %s: ambiguous; write symmetric (dcba|abcd|dcba) or reflect101 (dcb|abcd|cba), or say whose "
      "word it is with --dialect scipy|numpy|opencv|torch",
      name);
}

static bool read_boundary(const char *name, cli_dialect dialect, falt_boundary *boundary, io_error *error) {
  if (strcmp(name, "reflect") == 0 || strcmp(name, "mirror") == 0) {
    return read_ambiguous(name, dialect, boundary, error);
  }
  falt_problem problem;
  if (!cli_word_read("--boundary: ", "boundary", name, &problem, error)) return false;
  *boundary = problem.axis[2].boundary[0];
  return true;
}

/* MODE, or constant=VALUE. Splits text in place. */
static bool read_side(char *text, cli_dialect dialect, falt_boundary *side, cli_boundaries *boundaries,
                      io_error *error) {
  char *value = strchr(text, '='), *end;
  if (value) *value++ = '\0';
  if (!read_boundary(text, dialect, side, error)) return false;
  if (!value) return true;
  if (*side != FALT_CONSTANT)
    return cli_wrong(error, "--boundary %.40s=%.40s: only constant takes a value; leave it out", text, value);
  const double number = strtod(value, &end);
  if (end == value || *end || !isfinite(number))
    return cli_wrong(error, "--boundary %.40s=%.40s: not a finite number; write constant=0.5", text, value);
  if (boundaries->has_value && boundaries->value != number)
    return cli_wrong(error, "--boundary: two values for constant, %g and %g; all axes share one", boundaries->value,
                     number);
  boundaries->has_value = true;
  boundaries->value = number;
  return true;
}

/* SIDE or BEFORE:AFTER. */
static bool read_sides(char *text, cli_dialect dialect, falt_boundary side[2], cli_boundaries *boundaries,
                       io_error *error) {
  char *after = strchr(text, ':');
  if (after) *after++ = '\0';
  if (!read_side(text, dialect, &side[0], boundaries, error)) return false;
  side[1] = side[0];
  return !after || read_side(after, dialect, &side[1], boundaries, error);
}

/* One word of the list: AXIS=SIDES, or SIDES for all axes. */
static bool read_word(char *word, cli_dialect dialect, int space, cli_boundaries *boundaries, io_error *error) {
  int axis = word[0] && word[1] == '=' ? axis_of(word[0]) : -1;
  if (axis >= 0 && axis < 3 - space) {
    return cli_wrong(error, "--boundary %.40s: the data has %d ax%s and no %s; leave it out", word, space,
                     space == 1 ? "is" : "es", cli_axis_names[axis]);
  }
  falt_boundary side[2];
  if (!read_sides(axis >= 0 ? word + 2 : word, dialect, side, boundaries, error)) return false;
  for (int i = 0; i < 3; i++) {
    if (axis < 0 || axis == i) memcpy(boundaries->side[i], side, sizeof side);
  }
  return true;
}

bool cli_boundaries_parse(const char *text, cli_dialect dialect, int space, cli_boundaries *boundaries,
                          io_error *error) {
  char copy[256];
  if (strlen(text) >= sizeof copy) return cli_wrong(error, "--boundary: longer than 255 characters; shorten it");
  strcpy(copy, text);
  bool only_one = !strchr(copy, ','), seen[3] = {false};
  for (char *word = copy, *next; word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    const int axis = word[0] && word[1] == '=' ? axis_of(word[0]) : -1;
    if (!only_one && axis < 0)
      return cli_wrong(error, "--boundary %.40s: no axis named; in a list write z=, y= or x= before each mode", word);
    if (axis >= 0 && seen[axis])
      return cli_wrong(error, "--boundary: axis %s is named twice; name it once", cli_axis_names[axis]);
    if (axis >= 0) seen[axis] = true;
    if (!read_word(word, dialect, space, boundaries, error)) return false;
    boundaries->is_default = false;
  }
  return true;
}

void cli_boundaries_default(cli_dialect dialect, falt_mode mode, cli_boundaries *boundaries) {
  static const falt_boundary habits[CLI_DIALECT_COUNT] = {FALT_SYMMETRIC, FALT_SYMMETRIC, FALT_CONSTANT,
                                                          FALT_REFLECT101, FALT_CONSTANT};
  falt_boundary habit = mode == FALT_FULL ? FALT_CONSTANT : habits[dialect];
  *boundaries = (cli_boundaries){.is_default = true};
  for (int axis = 0; axis < 3; axis++) boundaries->side[axis][0] = boundaries->side[axis][1] = habit;
}

static size_t print_side(const cli_boundaries *boundaries, falt_boundary side, char *text, size_t size) {
  if (side != FALT_CONSTANT) return (size_t)snprintf(text, size, "%s", boundary_names[side]);
  return (size_t)snprintf(text, size, "%s=%.9g", boundary_names[side], boundaries->value);
}

static size_t print_sides(const cli_boundaries *boundaries, int axis, char *text, size_t size) {
  const falt_boundary *side = boundaries->side[axis];
  size_t at = print_side(boundaries, side[0], text, size);
  if (side[0] == side[1] || at + 1 >= size) return at;
  text[at++] = ':';
  return at + print_side(boundaries, side[1], text + at, size - at);
}

const char *cli_boundaries_print(const cli_boundaries *boundaries, int space, char *text, size_t size) {
  bool all_equal = true;
  for (int axis = 3 - space; axis < 2; axis++) {
    all_equal &= memcmp(boundaries->side[axis], boundaries->side[2], sizeof boundaries->side[2]) == 0;
  }
  if (all_equal) {
    print_sides(boundaries, 2, text, size);
    return text;
  }
  size_t at = 0;
  for (int axis = 3 - space; axis < 3 && at < size; axis++) {
    at += (size_t)snprintf(text + at, size - at, "%s%s=", at ? "," : "", cli_axis_names[axis]);
    if (at < size) at += print_sides(boundaries, axis, text + at, size - at);
  }
  return text;
}
