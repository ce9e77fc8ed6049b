/* The conversion of one operand: NCHW to NHWC, or adjacent channels to a pitch that is a multiple of 16 bytes. */
#include "solver/rewrite/convert_layout.h"

enum { VECTOR = 16 };

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
static bool shape_converted(falt_conversion *made, const falt_tensor *t, const channels *c) {
  static const int order[] = {FALT_W, FALT_H, FALT_D, FALT_G, FALT_N};
  int64_t next = falt_round_up(c->count, VECTOR / (int64_t)falt_type_size(t->type));
  made->copy.pitch = made->copy.row = next;
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
  falt_copy *a = &made->copy;
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
  for (int i = 0; i < 3; i++) a->lines[i] = lines[i];
  a->pixels = pixels;
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
  made->copy.pixels = pixels;
  made->copy.pixel = pixel;
  return pixel >= c->count;
}

static bool has_vectors(const falt_tensor *t, const channels *c) {
  int64_t all = t->offset;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != FALT_C && !(i == FALT_G && c->joined) && t->size[i] > 1) all |= t->stride[i];
  return all * (int64_t)falt_type_size(t->type) % VECTOR == 0;
}

static falt_conversion conversion_for(const falt_tensor *t, const channels *c) {
  return (falt_conversion){
      .tensor = *t,
      .copy = {
          .bytes = (int64_t)falt_type_size(t->type), .channel = c->stride, .channels = c->count, .lines = {1, 1, 1}}};
}

falt_conversion falt_conversion_of(const falt_backend *backend, const falt_tensor *t, bool is_filter) {
  const channels c = channels_of(t, is_filter);
  falt_conversion made = conversion_for(t, &c);
  made.wanted = c.count > 1 &&
                (c.stride == 1 ? !has_vectors(t, &c) && find_rows(&made, t, &c) : find_lines(&made, t, &c)) &&
                shape_converted(&made, t, &c) && backend->can_copy(&made.copy);
  return made;
}

falt_conversion falt_conversion_of_padded_result(const falt_backend *backend, const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  falt_conversion made = p->operation == FALT_BACKWARD_FILTER || p->has_residual
                             ? (falt_conversion){.tensor = *y}
                             : falt_conversion_of(backend, y, false);
  falt_copy *a = &made.copy;
  made.wanted = made.wanted && a->pixel == a->channels;
  a->pixel = a->pitch;
  a->pitch = a->channels;
  return made;
}

falt_conversion falt_conversion_of_result(const falt_backend *backend, const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  const channels c = channels_of(y, false);
  const int64_t pixels = y->size[FALT_D] * y->size[FALT_H] * y->size[FALT_W];
  falt_conversion made = conversion_for(y, &c);
  falt_tensor dense = *y;
  if (p->operation == FALT_BACKWARD_FILTER || p->has_residual || c.count == 1 || c.count >= INT32_MAX / 2 ||
      pixels >= INT32_MAX / 2 || y->size[FALT_N] >= INT32_MAX || falt_tensor_layout(&dense, "ncdhw") != FALT_OK)
    return made;
  for (int i = 0; i < FALT_DIMS; i++)
    if (y->size[i] > 1 && y->stride[i] != dense.stride[i]) return made;
  if (!shape_converted(&made, y, &c)) return made;
  made.copy.channel = made.copy.pitch;
  made.copy.line[2] = pixels * made.copy.pitch;
  made.copy.lines[2] = y->size[FALT_N];
  made.copy.pixels = c.count;
  made.copy.channels = made.copy.pitch = pixels;
  made.wanted = backend->can_copy(&made.copy);
  return made;
}
