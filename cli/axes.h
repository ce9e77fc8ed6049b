/* Values by axis as users type them: "2", "1x2", "y=1,x=2", and boundaries such as "y=wrap,x=edge:constant=5". */
#ifndef FALT_CLI_AXES_H
#define FALT_CLI_AXES_H

#include "io/io.h"

/* One integer an axis, as typed; which axes exist is known only when the file is open. */
typedef struct cli_axes {
  int count; /* 0: not given; 1: all axes; 2, 3: in the order z, y, x of that many axes; -1: by name */
  bool named[3];
  int64_t value[3]; /* by name: z, y, x */
} cli_axes;

bool cli_axes_parse(const char *text, cli_axes *axes, io_error *error);
/* value[0..3) in z, y, x order for data with `space` axes; axes that were not given keep their old value. option names
 * the option in errors. */
bool cli_axes_resolve(const cli_axes *axes, int space, const char *option, int64_t value[3], io_error *error);

/* The library that defines the words `reflect` and `mirror`. */
typedef enum cli_dialect {
  CLI_DIALECT_NONE,
  CLI_DIALECT_SCIPY,
  CLI_DIALECT_NUMPY,
  CLI_DIALECT_OPENCV,
  CLI_DIALECT_TORCH,
  CLI_DIALECT_COUNT
} cli_dialect;
extern const char *const cli_dialect_names[CLI_DIALECT_COUNT];

typedef struct cli_boundaries {
  falt_boundary side[3][2]; /* z, y, x; before, after */
  bool has_value;
  double value;
  bool is_default;
} cli_boundaries;

/* Reads a boundary option for data with `space` axes; axes that it does not name keep *boundaries. */
bool cli_boundaries_parse(const char *text, cli_dialect dialect, int space, cli_boundaries *boundaries,
                          io_error *error);
/* The default boundary of filters: symmetric; zero in mode full; the dialect's own default if one is given. */
void cli_boundaries_default(cli_dialect dialect, falt_mode mode, cli_boundaries *boundaries);
/* "symmetric", or "y=wrap,x=edge:constant=5": in words that cli_boundaries_parse reads. */
const char *cli_boundaries_print(const cli_boundaries *boundaries, int space, char *text, size_t size);

/* Reads a value like the problem line's `word`, with its names and hints, into *problem. option precedes the message in
 * *error. */
bool cli_word_read(const char *option, const char *word, const char *value, falt_problem *problem, io_error *error);

/* The i-th boundary that has a name of its own, from 0; NULL after the last. */
const char *cli_boundary_name(int i);

/* "z", "y", "x" of index 0, 1, 2. */
extern const char *const cli_axis_names[3];

#endif
