/* Random legal problems of modest size: a line written word by word, parsed, its tensors moved about in memory,
 * printed. Small sizes on purpose: windows larger than the input, axes of one element and pads beyond the far side come
 * often. */
#include "core/random.h"

#include <string.h>

#include "problem/line.h"

enum { TRIES = 1000 };
static const double most_work = 2e6;      /* multiply-adds */
static const int64_t most_elements = 1e5; /* span of one tensor */

/* No call draws twice in its arguments: compilers differ in their order. */
typedef struct draft {
  uint64_t state;
  falt_text text;
  int space;
  int64_t in[3];
} draft;

static int64_t pick(draft *d, int64_t low, int64_t high) {
  return falt_random_int(&d->state, low, high);
}

/* True once in n. */
static bool once_in(draft *d, int n) {
  return pick(d, 1, n) == 1;
}

static const char *choose(draft *d, const char *const *names, int count) {
  return names[pick(d, 0, count - 1)];
}

static void add_flag(draft *d, const char *name, int one_in) {
  if (once_in(d, one_in)) falt_text_add(&d->text, " %s=1", name);
}

/* A size that is often small, sometimes 1 and now and then as large as `high`. */
static int64_t size(draft *d, int64_t high) {
  switch (pick(d, 0, 4)) {
    case 0:
      return 1;
    case 1:
      return pick(d, 1, high);
    default:
      return pick(d, 2, high < 9 ? falt_max(high, 2) : 9);
  }
}

static void add_space(draft *d) {
  static const char *const taps_names[] = {"t", "r", "s"};
  const int64_t most[] = {400, 48, 16};
  d->space = (int)pick(d, 1, 3);
  for (int i = 3 - d->space; i < 3; i++) {
    d->in[i] = once_in(d, 3) ? pick(d, 1, most[d->space - 1]) : size(d, most[d->space - 1]);
    falt_text_add(&d->text, " %s=%lld", falt_axis_names[i], (long long)d->in[i]);
  }
  for (int i = 3 - d->space; i < 3; i++)
    falt_text_add(&d->text, " %s=%lld", taps_names[i], (long long)size(d, d->space == 3 ? 5 : 13));
}

/* 2 for all axes, or one number for each. */
static void add_numbers(draft *d, int64_t low, int64_t high) {
  int count = once_in(d, 2) ? 1 : d->space;
  for (int i = 0; i < count; i++) falt_text_add(&d->text, "%s%lld", i ? "x" : "", (long long)pick(d, low, high));
}

static void add_list(draft *d, const char *name, int64_t low, int64_t high) {
  falt_text_add(&d->text, " %s=", name);
  add_numbers(d, low, high);
}

static void add_pads(draft *d, bool wide) {
  for (int i = 0; i < d->space; i++) {
    int64_t most = wide && once_in(d, 4) ? 2 * d->in[3 - d->space + i] + 3 : 3;
    int64_t before = pick(d, wide && once_in(d, 6) ? -1 : 0, most), after = once_in(d, 2) ? before : pick(d, 0, most);
    falt_text_add(&d->text, "%s%lld:%lld", i ? "x" : " pad=", (long long)before, (long long)after);
  }
}

static void add_sides(draft *d) {
  falt_text_add(&d->text, "%s", choose(d, falt_boundary_names, FALT_BOUNDARY_COUNT));
  if (once_in(d, 4)) falt_text_add(&d->text, ":%s", choose(d, falt_boundary_names, FALT_BOUNDARY_COUNT));
}

static void add_boundary(draft *d) {
  if (once_in(d, 5)) falt_text_add(&d->text, " value=%lld", (long long)pick(d, -3, 3));
  if (once_in(d, 4)) return;
  falt_text_add(&d->text, " boundary=");
  int named = once_in(d, 4) ? d->space : 0;
  for (int i = 3 - named; i < 3; i++) {
    falt_text_add(&d->text, "%s%c=", i > 3 - named ? "," : "", "zyx"[i]);
    add_sides(d);
  }
  if (!named) add_sides(d);
}

static void add_type(draft *d, const char *name, falt_type low, falt_type high) {
  falt_text_add(&d->text, " %s=%s", name, falt_type_name((falt_type)pick(d, low, high)));
}

static void add_epilogue(draft *d) {
  static const char *const acts[] = {"relu", "relu6", "leaky",   "leaky:0.25", "silu",
                                     "gelu", "tanh",  "sigmoid", "clip:-1:2",  "clip:0:0.5"};
  if (once_in(d, 4)) falt_text_add(&d->text, " alpha=%s", once_in(d, 2) ? "0.5" : "-1.25");
  if (once_in(d, 4)) falt_text_add(&d->text, " beta=%lld", (long long)pick(d, -4, 4));
  add_flag(d, "scale", 5);
  add_flag(d, "bias", 3);
  add_flag(d, "residual", 5);
  if (once_in(d, 3)) falt_text_add(&d->text, " act=%s", choose(d, acts, sizeof acts / sizeof *acts));
}

static void add_steps(draft *d) {
  if (once_in(d, 3)) add_list(d, "stride", 1, 3);
  if (once_in(d, 3)) add_list(d, "dilation", 1, 3);
}

static void add_filter(draft *d) {
  if (once_in(d, 3)) falt_text_add(&d->text, " n=%lld", (long long)pick(d, 1, 3));
  int64_t channels = once_in(d, 2) ? 1 : pick(d, 1, 4);
  if (channels > 1) falt_text_add(&d->text, " %s=%lld", once_in(d, 2) ? "c" : "pixel", (long long)channels);
  add_steps(d);
  switch (pick(d, 0, 7)) {
    case 0:
      falt_text_add(&d->text, " mode=valid");
      break;
    case 1:
      falt_text_add(&d->text, " mode=full");
      break;
    case 2:
      add_list(d, "anchor", 0, 3);
      break;
    case 3:
      add_list(d, "origin", -1, 1);
      break;
    case 4:
      add_pads(d, true);
      break;
    case 5:
      add_list(d, "out", 1, 12);
      break;
    default:
      break;
  }
  add_boundary(d);
  add_type(d, "type", FALT_U8, FALT_F64);
  if (once_in(d, 3)) add_type(d, "weight-type", FALT_U8, FALT_F64);
  if (once_in(d, 2)) add_type(d, "out-type", FALT_U8, FALT_F64);
  if (once_in(d, 4)) add_epilogue(d);
}

/* Channels that the groups divide; depthwise now and then. */
static void add_channels(draft *d) {
  int64_t groups = once_in(d, 2) ? 1 : pick(d, 1, 4), in = pick(d, 1, 6), out = pick(d, 1, 6);
  if (once_in(d, 6)) {
    groups = pick(d, 1, 9);
    in = out = 1;
  }
  falt_text_add(&d->text, " n=%lld c=%lld k=%lld groups=%lld", (long long)pick(d, 1, 3), (long long)(groups * in),
                (long long)(groups * out), (long long)groups);
}

static void add_layout(draft *d, bool weights) {
  falt_text_add(&d->text, " layout=%s", falt_layout_names[pick(d, FALT_NCHW, FALT_NHWC)][d->space - 1]);
  if (weights && once_in(d, 3))
    falt_text_add(&d->text, " weight-layout=%s", falt_layout_names[pick(d, FALT_OIHW, FALT_HWIO)][d->space - 1]);
}

static void add_layer(draft *d, bool forward) {
  add_channels(d);
  add_steps(d);
  if (!once_in(d, 4)) add_pads(d, true);
  if (once_in(d, 8)) add_list(d, "out", 1, 9);
  if (once_in(d, 3)) add_boundary(d);
  add_layout(d, true);
  add_type(d, "type", forward ? FALT_U8 : FALT_F16, FALT_F64);
  if (forward && once_in(d, 4)) add_type(d, "weight-type", FALT_U8, FALT_F64);
  if (once_in(d, 4)) add_type(d, "out-type", forward ? FALT_U8 : FALT_F16, FALT_F64);
  if (forward && once_in(d, 2)) add_epilogue(d);
  if (forward && once_in(d, 5)) {
    falt_text_add(&d->text, " pool=max:");
    add_numbers(d, 1, 3);
  }
}

static void add_pool(draft *d, bool forward) {
  int64_t batch = pick(d, 1, 3), channels = pick(d, 1, 6);
  falt_text_add(&d->text, " n=%lld c=%lld", (long long)batch, (long long)channels);
  add_steps(d);
  if (once_in(d, 2)) add_pads(d, false);
  add_layout(d, false);
  add_type(d, "type", forward ? FALT_U8 : FALT_F16, FALT_F64);
  add_flag(d, "count-pad", 3);
}

static void write_draft(draft *d) {
  int verb = (int)(once_in(d, 2) ? pick(d, FALT_CORRELATE, FALT_CONVOLVE)
                                 : pick(d, FALT_FIRST_OPERATION, FALT_VERB_COUNT - 1));
  bool forward = verb == FALT_FIRST_OPERATION + FALT_FORWARD || verb == FALT_FIRST_OPERATION + FALT_MAXPOOL ||
                 verb == FALT_FIRST_OPERATION + FALT_AVGPOOL;
  falt_text_add(&d->text, "%s", falt_verb_names[verb]);
  add_space(d);
  switch (falt_verb_family(verb)) {
    case FALT_OF_FILTERS:
      add_filter(d);
      break;
    case FALT_OF_LAYERS:
      add_layer(d, forward);
      break;
    default:
      add_pool(d, forward);
      break;
  }
  if (verb == FALT_FIRST_OPERATION + FALT_BACKWARD_FILTER) add_flag(d, "bias", 3);
}

/* Pitch, gaps, a region of something larger, reversed axes, repeated elements in what is only read. */
static void move_tensor(draft *d, falt_tensor *tensor, bool read_only) {
  int64_t gap = pick(d, 1, 3), before = pick(d, 0, 5);
  if (once_in(d, 2)) {
    for (int dim = 0; dim < FALT_DIMS; dim++) tensor->stride[dim] *= gap;
  }
  int64_t pitch = tensor->size[FALT_H] > 1 && once_in(d, 2) ? pick(d, 1, 7) : 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    bool outside = tensor->stride[dim] >= tensor->stride[FALT_H] && tensor->stride[FALT_H] > 0;
    if (outside && dim != FALT_H) tensor->stride[dim] += pitch * tensor->size[FALT_H];
  }
  tensor->stride[FALT_H] += tensor->stride[FALT_H] > 0 ? pitch : 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->size[dim] > 1 && once_in(d, 8)) tensor->stride[dim] = -tensor->stride[dim];
    if (read_only && once_in(d, 20)) tensor->stride[dim] = 0;
  }
  tensor->offset = before + falt_tensor_lowest_offset(tensor);
}

static void move_tensors(draft *d, falt_problem *problem) {
  for (int which = 0; which < FALT_TENSOR_COUNT; which++) {
    falt_tensor *tensor = falt_problem_tensor(problem, which);
    if (once_in(d, 3)) move_tensor(d, tensor, tensor != falt_problem_result(problem));
  }
}

static bool is_modest(falt_problem *problem) {
  double work = falt_problem_flops(problem) / (falt_is_pooling(problem->operation) ? 1 : 2);
  bool modest = work <= most_work;
  for (int which = 0; which < FALT_TENSOR_COUNT; which++)
    modest &= falt_tensor_span(falt_problem_tensor(problem, which)) <= most_elements;
  return modest;
}

/* One attempt; false if what came out is not legal or not modest. */
static bool attempt(uint64_t *state, falt_problem *problem) {
  char line[1024];
  draft d = {.state = *state, .text = falt_text_over(line, sizeof line)};
  write_draft(&d);
  bool legal = falt_problem_parse(problem, NULL, line) == FALT_OK;
  if (legal && once_in(&d, 4)) {
    falt_problem moved = *problem;
    move_tensors(&d, &moved);
    if (falt_problem_check(&moved) == FALT_OK) *problem = moved;
  }
  *state = d.state;
  return legal && is_modest(problem);
}

size_t falt_problem_random(uint64_t seed, char *line, size_t size_of_line) {
  falt_problem problem;
  uint64_t state = seed;
  for (int i = 0; i < TRIES; i++) {
    if (attempt(&state, &problem)) return falt_problem_print(&problem, NULL, line, size_of_line);
  }
  falt_problem_default(&problem); /* one element: as good as unreachable, and legal */
  return falt_problem_print(&problem, NULL, line, size_of_line);
}
