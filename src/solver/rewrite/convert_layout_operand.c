/* The conversion of one operand: convert_layout.cu transposes NCHW to NHWC, pad_channels.cu copies adjacent channels to
 * a pitch that is a multiple of 16 bytes. */
#include "solver/rewrite/convert_layout.h"

enum { MOST_SIDE = 32 };

/* ---- channel pitch */

/* Its channels, those of all groups if they are consecutive, and their stride. */
typedef struct channels {
  bool joined;
  int64_t count, stride;
} channels;

static channels channels_of(const falt_tensor *t, bool is_filter) {
  const int64_t g = t->size[FALT_G], c = t->size[FALT_C];
  const bool joined = !is_filter && g > 1 && (c == 1 || t->stride[FALT_G] == c * t->stride[FALT_C]);
  if (!joined) return (channels){false, c, t->stride[FALT_C]};
  return (channels){true, g * c, c > 1 ? t->stride[FALT_C] : t->stride[FALT_G]};
}

/* The same tensor with contiguous channels, padded to whole vectors; false if it is too large. */
static bool shape_turned(falt_conversion *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  int64_t next = falt_round_up(c->count, VECTOR / (int64_t)falt_type_size(t->type));
  made->args.pitch = (unsigned)next;
  made->tensor = *t;
  made->tensor.offset = 0;
  made->tensor.stride[FALT_C] = 1;
  made->tensor.stride[FALT_G] = t->size[FALT_C];
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (order[i] == FALT_G && c->joined) continue;
    made->tensor.stride[order[i]] = next;
    if (!falt_mul(next, t->size[order[i]], &next)) return false;
  }
  if (!falt_mul(next, (int64_t)falt_type_size(t->type), &next)) return false;
  made->bytes = (size_t)next;
  return true;
}

/* Its pixels that follow on each other, and the axes of the lines that these are; false if it has none or too many. */
static bool find_lines(falt_conversion *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  falt_cuda_turn *a = &made->args;
  int64_t pixels = 1, lines[3] = {1, 1, 1};
  int axes = 0; /* from the last on */
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    const int64_t size = t->size[order[i]], stride = t->stride[order[i]];
    if (size == 1 || (order[i] == FALT_G && c->joined)) continue;
    if (axes == 0 && stride == pixels) {
      pixels *= size;
    } else if (axes > 0 && stride == a->line[3 - axes] * lines[3 - axes]) {
      lines[3 - axes] *= size;
    } else {
      if (pixels == 1 || axes == 3) return false;
      a->line[3 - ++axes] = stride;
      lines[3 - axes] = size;
    }
  }
  for (int i = 0; i < 3; i++) {
    if (lines[i] >= INT32_MAX) return false;
    a->lines[i] = (unsigned)lines[i];
  }
  a->pixels = (unsigned)pixels;
  return pixels < INT32_MAX - THREADS * VECTOR;
}

/* Squares of a block: four along the channels and as many down the pixels as there are threads; more where lines are
 * short. */
static bool cut_blocks(falt_cuda_turn *a, int64_t size) {
  const int64_t edge = VECTOR / size, across = falt_ceil_div(a->pitch, edge), down = falt_ceil_div(a->pixels, edge);
  int64_t side = 1, blocks;
  while (side < across && side < MOST_SIDE && (side < 4 || side * 2 * down <= THREADS)) side *= 2;
  const int64_t columns = falt_ceil_div(across, side), line_blocks = columns * falt_ceil_div(down, THREADS / side);
  const int64_t lines = (int64_t)a->lines[1] * a->lines[2];
  if (!falt_mul(lines, a->lines[0], &blocks) || !falt_mul(blocks, line_blocks, &blocks) || blocks > INT32_MAX / TURNS)
    return false;
  a->side = (int)side;
  a->columns = (unsigned)columns;
  a->line_blocks = (unsigned)line_blocks;
  a->blocks = (unsigned)blocks;
  return true;
}

/* ---- adjacent channels */

/* Its pixels, if all follow on each other at one distance. */
static bool find_rows(falt_conversion *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  int64_t pixels = 1, pixel = c->count;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (t->size[order[i]] == 1 || (order[i] == FALT_G && c->joined)) continue;
    if (pixels == 1) pixel = t->stride[order[i]];
    if (t->stride[order[i]] != pixel * pixels) return false;
    pixels *= t->size[order[i]];
  }
  made->args.pixels = (unsigned)pixels;
  made->args.pixel = (unsigned)pixel;
  return pixel >= c->count && pixels < INT32_MAX - THREADS;
}

/* Rows of a block: several words for each thread, and no word in two blocks. */
static bool cut_rows(falt_cuda_turn *a, int64_t size) {
  enum { LEAST = 16 * THREADS, MANY_BLOCKS = 1024, MOST_LOADS = 4, MOST_PITCH = 1 << 22 };
  const int64_t bytes = (int64_t)a->pitch * size;
  const int64_t loads = falt_min(falt_max(bytes * a->pixels / LEAST / MANY_BLOCKS, 1), MOST_LOADS);
  a->rows = (unsigned)falt_round_up(falt_max(LEAST * loads / bytes, 1), 4);
  a->blocks = (unsigned)falt_ceil_div(a->pixels, a->rows);
  return falt_max(a->pixel, a->pitch) < MOST_PITCH;
}

static bool has_vectors(const falt_tensor *t, const channels *c) {
  int64_t all = t->offset;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != FALT_C && !(i == FALT_G && c->joined) && t->size[i] > 1) all |= t->stride[i];
  return all * (int64_t)falt_type_size(t->type) % VECTOR == 0;
}

/* How an operand is spread, if it can be. */
static bool can_spread(falt_conversion *made, const falt_tensor *t, const channels *c) {
  return c->stride == 1 && !has_vectors(t, c) && find_rows(made, t, c) && shape_turned(made, t, c) &&
         cut_rows(&made->args, (int64_t)falt_type_size(t->type));
}

falt_conversion falt_conversion_of(const falt_tensor *t, bool is_filter) {
  const channels c = channels_of(t, is_filter);
  falt_conversion made = {.tensor = *t, .args = {.channel = c.stride, .channels = (unsigned)c.count}};
  made.wanted = c.count > 1 && c.count < INT32_MAX / 2 &&
                (can_spread(&made, t, &c) || (c.stride != 1 && find_lines(&made, t, &c) && shape_turned(&made, t, &c) &&
                                              cut_blocks(&made.args, (int64_t)falt_type_size(t->type))));
  return made;
}

falt_conversion falt_conversion_of_spread_result(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  falt_conversion made = p->operation == FALT_BACKWARD_FILTER || p->has_residual ? (falt_conversion){.tensor = *y}
                                                                                 : falt_conversion_of(y, false);
  falt_cuda_turn *a = &made.args;
  made.wanted = made.wanted && a->pixel == a->channels;
  a->pixel = a->pitch;
  a->pitch = a->channels;
  return made;
}

falt_conversion falt_conversion_of_result(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  const channels c = channels_of(y, false);
  const int64_t size = (int64_t)falt_type_size(y->type);
  const int64_t pixels = y->size[FALT_D] * y->size[FALT_H] * y->size[FALT_W];
  falt_conversion made = {.tensor = *y};
  falt_tensor dense = *y;
  if (p->operation == FALT_BACKWARD_FILTER || p->has_residual || c.count == 1 || c.count >= INT32_MAX / 2 ||
      pixels >= INT32_MAX / 2 || y->size[FALT_N] >= INT32_MAX || falt_tensor_layout(&dense, "ncdhw") != FALT_OK)
    return made;
  for (int i = 0; i < FALT_DIMS; i++)
    if (y->size[i] > 1 && y->stride[i] != dense.stride[i]) return made;
  if (!shape_turned(&made, y, &c)) return made;
  made.args.channel = made.args.pitch;
  made.args.line[2] = pixels * made.args.pitch;
  made.args.lines[0] = made.args.lines[1] = 1;
  made.args.lines[2] = (unsigned)y->size[FALT_N];
  made.args.pixels = (unsigned)c.count;
  made.args.channels = made.args.pitch = (unsigned)pixels;
  made.wanted = cut_blocks(&made.args, size);
  return made;
}
