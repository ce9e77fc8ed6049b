/* The problem of falt_correlate and falt_convolve: an array, taps and options. */
#include <string.h>

#include "problem/line.h"

static falt_status check_options(const falt_options *options) {
  FALT_TRY(FALT_CHECK_RESERVED(options, "falt_options_default"));
  if (options->space < 1 || options->space > 3)
    return falt_fail(FALT_INVALID_ARGUMENT, "options: space is %d; it is 1, 2 or 3", options->space);
  if ((unsigned)options->mode > FALT_FULL)
    return falt_fail(FALT_INVALID_ARGUMENT, "options: mode has no enumerator %d", (int)options->mode);
  return FALT_OK;
}

/* The taps as a filter that all groups share. */
static falt_status place_taps(falt_problem *problem, const falt_tensor *taps, bool flip) {
  const int unused[] = {FALT_K, FALT_G, FALT_C};
  for (int i = 0; i < 3; i++) {
    if (taps->size[unused[i]] != 1)
      return falt_fail(FALT_INVALID_SHAPE, "taps: size[%d] is %lld; one filter serves all channels and has none",
                       unused[i], (long long)taps->size[unused[i]]);
  }
  problem->filter = *taps;
  if (flip) falt_filter_flip(&problem->filter);
  problem->filter.size[FALT_G] = problem->input.size[FALT_G];
  problem->filter.stride[FALT_G] = 0;
  return FALT_OK;
}

static falt_status place_axis(falt_problem *problem, const falt_options *options, bool flip, int i) {
  falt_axis *axis = &problem->axis[i];
  int64_t in = problem->input.size[FALT_D + i], taps = problem->filter.size[FALT_D + i], out;
  int64_t anchor = options->anchor[i];
  *axis = options->axis[i];
  if (anchor != FALT_ANCHOR_PAD) axis->pad[0] = axis->pad[1] = 0;
  FALT_TRY(falt_axis_check(axis, i, taps));
  if (anchor == FALT_ANCHOR_PAD) return FALT_OK;
  if (anchor != FALT_ANCHOR_CENTER && (anchor < 0 || anchor >= taps))
    return falt_fail(FALT_INVALID_SHAPE, "options: anchor %lld on axis %s is outside the filter (0 to %lld)",
                     (long long)anchor, falt_axis_names[i], (long long)taps - 1);
  if (anchor != FALT_ANCHOR_CENTER && options->mode != FALT_SAME)
    return falt_fail(FALT_INVALID_ARGUMENT, "options: an anchor needs FALT_SAME; valid and full place the filter");
  if (falt_axis_place(axis, in, taps, options->mode, anchor, flip, &out)) return FALT_OK;
  return falt_axis_too_short(axis, i, in, taps, 1);
}

static falt_status check_sizes(const char *name, const falt_tensor *tensor) {
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int64_t size = tensor->size[dim], stride = tensor->stride[dim];
    if (size < 1 || size > FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "%s: size[%d] is %lld; sizes are at least 1", name, dim, (long long)size);
    if (stride > FALT_LIMIT || stride < -FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "%s: stride[%d] is out of range", name, dim);
  }
  if ((unsigned)tensor->type >= FALT_TYPE_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s: type has no enumerator %d", name, (int)tensor->type);
  return FALT_OK;
}

/* Flipping moves the offset to the far corner; that must not overflow before the check sees it. */
static falt_status check_taps(const falt_tensor *taps) {
  FALT_TRY(check_sizes("taps", taps));
  if (taps->offset > FALT_LIMIT || taps->offset < 0 || falt_tensor_span(taps) > FALT_LIMIT ||
      falt_tensor_lowest_offset(taps) > taps->offset)
    return falt_fail(FALT_INVALID_SIZE, "taps: strides and offset reach outside memory");
  return FALT_OK;
}

falt_status falt_problem_filter(falt_problem *problem, const falt_tensor *src, const falt_tensor *taps,
                                falt_type out_type, bool flip, const falt_options *options) {
  falt_options usual;
  falt_problem p;
  if (!problem || !src || !taps)
    return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", !problem ? "problem" : !src ? "src" : "taps");
  falt_options_default(&usual);
  if (!options) options = &usual;
  FALT_TRY(check_options(options));
  FALT_TRY(check_sizes("src", src));
  FALT_TRY(check_taps(taps));
  if ((unsigned)out_type >= FALT_TYPE_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "out_type: no enumerator %d", (int)out_type);
  falt_problem_default(&p);
  p.is_filter = true;
  p.space = options->space;
  p.input = *src;
  FALT_TRY(falt_tensor_filter_view(&p.input, p.space));
  FALT_TRY(place_taps(&p, taps, flip));
  for (int i = 3 - p.space; i < 3; i++) FALT_TRY(place_axis(&p, options, flip, i));
  p.output.type = out_type;
  FALT_TRY(falt_problem_output(&p));
  p.boundary_value = options->boundary_value;
  p.alpha = options->alpha;
  p.beta = options->beta;
  p.accumulator = falt_default_accumulator(&p);
  FALT_TRY(falt_problem_check(&p));
  falt_problem_canonical(&p);
  *problem = p;
  return FALT_OK;
}

/* to[at, at + n) = values[from + i*step]. */
static void load_row(void *to, falt_type type, int64_t at, const void *values, falt_type from_type, int64_t from,
                     int64_t step, int64_t n) {
  if (type == FALT_F64 && from_type == FALT_F32)
    for (int64_t i = 0; i < n; i++) ((double *)to)[at + i] = ((const float *)values)[from + i * step];
  else
    for (int64_t i = 0; i < n; i++) falt_store(to, type, at + i, falt_load(values, from_type, from + i * step));
}

void falt_problem_taps(const falt_problem *problem, const void *values, int64_t group, falt_type type, void *taps) {
  const falt_tensor *w = &problem->filter;
  const int64_t n = w->size[FALT_W];
  int64_t at = 0;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++, at += n)
      load_row(taps, type, at, values, w->type, falt_tensor_at(w, 0, group, 0, t, r, 0), w->stride[FALT_W], n);
}
