/* The intermediate form between a problem line and a problem: given words, with everything not given absent. Private to
 * src/problem. */
#ifndef FALT_PROBLEM_LINE_H
#define FALT_PROBLEM_LINE_H

#include "problem/problem.h"

/*   parse:  text -> falt_line (words.c, parse.c) -> problem (build.c)
 *   print:  problem -> falt_line (describe.c) -> text (words.c, print.c)
 *
 * One table of words serves both directions, and only build.c knows the default values: describe.c leaves out the words
 * that build.c would supply. */

#define FALT_LEAKY_DEFAULT 0.01

/* Largest index, extent or span: sums of a few of them stay within int64_t, also in bytes of the widest type. */
#define FALT_LIMIT ((INT64_C(1) << 60) - 1)
/* Largest axis stride, dilation and padding. */
#define FALT_AXIS_LIMIT (INT64_C(1) << 40)

/* ---- layouts: families of dense orders, the same for every number of axes */
typedef enum falt_layout { FALT_NCHW, FALT_NHWC, FALT_OIHW, FALT_OHWI, FALT_HWIO, FALT_LAYOUT_COUNT } falt_layout;
extern const char *const falt_layout_names[FALT_LAYOUT_COUNT][3]; /* by space - 1 */

/* Dense strides and offset 0; false if they overflow. */
bool falt_layout_dense(falt_tensor *tensor, falt_layout layout);
/* Whether the strides are a layout's, along dimensions that have more than one element. */
bool falt_tensor_is(const falt_tensor *tensor, falt_layout layout);

/* ---- defaults */
falt_type falt_default_weight_type(bool is_filter, falt_type input);
falt_type falt_default_out_type(bool is_layer, falt_type input);
falt_type falt_default_accumulator(const falt_problem *problem);

/* ---- one axis */
extern const char *const falt_axis_names[3]; /* "d" "h" "w" */
/* Checks stride, dilation, pad, boundary and the filter's extent against the limits. */
falt_status falt_axis_check(const falt_axis *axis, int index, int64_t taps);
/* floor((in + pads - E) / stride) + 1, or 0 if the window does not fit. The axis is checked. */
int64_t falt_axis_output(const falt_axis *axis, int64_t in, int64_t taps);
/* Places a filter: sets pad[0] and *out from the mode, and pad[1] from them. anchor is the tap at the output's
 * position, or FALT_ANCHOR_CENTER. False if mode valid leaves no output. The axis is valid. */
bool falt_axis_place(falt_axis *axis, int64_t in, int64_t taps, falt_mode mode, int64_t anchor, bool flip,
                     int64_t *out);
/* The same where each result is the largest of `pool` outputs. */
int64_t falt_axis_pooled(const falt_axis *axis, int64_t in, int64_t taps, int64_t pool);
/* The message for no output. */
falt_status falt_axis_too_short(const falt_axis *axis, int index, int64_t in, int64_t taps, int64_t pool);
/* One dense spatial filter, shared by all groups; flip walks it backwards. */
falt_status falt_filter_taps(falt_tensor *filter, int64_t groups, bool flip);
/* Walks a filter's spatial axes backwards, as a true convolution does. */
void falt_filter_flip(falt_tensor *filter);

/* ---- the line */
enum {
  FALT_CORRELATE,
  FALT_CONVOLVE,
  FALT_FIRST_OPERATION,
  FALT_VERB_COUNT = FALT_FIRST_OPERATION + FALT_OPERATION_COUNT
};

/* Numbers by axis: one for all axes, one for each from the slowest on, or by name. count 0: absent. */
typedef struct falt_list {
  int count;
  int64_t value[3]; /* by name: depth, height, width */
  unsigned axes;    /* bit i: axis i was named; 0: none was, the count says which are there */
} falt_list;

typedef struct falt_pads {
  int count;
  int64_t value[3][2];
  unsigned axes;
} falt_pads;

typedef struct falt_strides {
  bool given;
  int64_t value[FALT_DIMS];
} falt_strides;

/* Sizes are absent at 0, enumerations at -1, real numbers at NaN. */
typedef struct falt_line {
  int verb;
  int64_t n, c, pixel, k, groups, rank, factors;
  int64_t in[3], taps[3];
  falt_list stride, dilation, anchor, origin, out, pool;
  falt_pads pad;
  falt_boundary boundary[3][2];
  unsigned boundary_axes; /* bit i: axis i was named */
  double value;
  int mode, filter_when, type, weight_type, out_type, residual_type, accumulator;
  int layout, layout_space, weight_layout, weight_layout_space;
  bool scale, bias, residual, count_pad;
  double alpha, beta;
  falt_activation activation;
  double act_a, act_b;
  falt_strides strides[FALT_OPERANDS];
  bool offset_given[FALT_OPERANDS];
  int64_t offset[FALT_OPERANDS];
  falt_budget budget;
} falt_line;

typedef struct falt_word falt_word;
struct falt_word {
  const char *name;
  unsigned families; /* which verbs have the word */
  size_t field;      /* in falt_line */
  falt_status (*read)(const falt_word *word, falt_line *line, const char *text, size_t length);
  void (*write)(const falt_word *word, const falt_line *line, falt_text *text); /* nothing if absent */
};

enum { FALT_OF_FILTERS = 1, FALT_OF_LAYERS = 2, FALT_OF_POOLS = 4, FALT_OF_BUDGETS = 8 };
enum { FALT_WORD_COUNT = 53 };
extern const falt_word falt_words[FALT_WORD_COUNT];
const char *falt_verb_name(int verb);

void falt_line_default(falt_line *line);
unsigned falt_verb_family(int verb);
/* The problem that the line describes, checked and canonical. */
falt_status falt_line_build(const falt_line *line, falt_problem *problem);
/* A line that builds the (checked, canonical) problem. */
void falt_line_describe(const falt_problem *problem, falt_line *line);

/* Number of axes that the line names: 0 without a w. */
int falt_line_space(const falt_line *line);

/* text[0..length) for a message: cut, without control characters. */
typedef struct falt_quote {
  char text[44];
} falt_quote;
falt_quote falt_quoted(const char *text, size_t length);

#endif
