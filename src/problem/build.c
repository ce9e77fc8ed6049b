/* From a line to its problem: every default is decided here. */
#include <math.h>
#include <string.h>

#include "problem/line.h"

unsigned falt_verb_family(int verb) {
  if (verb < FALT_FIRST_OPERATION) return FALT_OF_FILTERS;
  return falt_is_pooling((falt_operation)(verb - FALT_FIRST_OPERATION)) ? FALT_OF_POOLS : FALT_OF_LAYERS;
}

int falt_line_space(const falt_line *line) {
  return line->in[0] ? 3 : line->in[1] ? 2 : line->in[2] ? 1 : 0;
}

static falt_status missing(const char *word, const char *why) {
  return falt_fail(FALT_INVALID_TEXT, "problem: %s is missing; %s", word, why);
}

static int64_t or_one(int64_t size) {
  return size ? size : 1;
}

static int or_default(int value, int other) {
  return value < 0 ? other : value;
}

static double or_real(double value, double other) {
  return isnan(value) ? other : value;
}

/* Whether a list has a number for axis i. An axis that is not named among others keeps the default. */
static bool has(const falt_list *list, int i) {
  return list->count && (!list->axes || list->axes >> i & 1);
}

/* The number for axis i of a list that may hold one number for all. */
static int64_t at(const falt_list *list, int i, int64_t absent) {
  if (!has(list, i)) return absent;
  if (list->axes) return list->value[i];
  return list->value[list->count == 1 ? 0 : i - (3 - list->count)];
}

static const int64_t *pads_at(const falt_pads *pads, int i) {
  static const int64_t none[2] = {0, 0};
  if (!pads->count || (pads->axes && !(pads->axes >> i & 1))) return none;
  if (pads->axes) return pads->value[i];
  return pads->value[pads->count == 1 ? 0 : i - (3 - pads->count)];
}

static falt_status check_counts(const falt_line *line, int space) {
  const struct {
    const char *name;
    int count;
    unsigned axes;
  } lists[] = {
      {"stride", line->stride.count, line->stride.axes}, {"dilation", line->dilation.count, line->dilation.axes},
      {"anchor", line->anchor.count, line->anchor.axes}, {"origin", line->origin.count, line->origin.axes},
      {"out", line->out.count, line->out.axes},          {"pad", line->pad.count, line->pad.axes},
      {"pool", line->pool.count, line->pool.axes},       {"boundary", 0, line->boundary_axes}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    for (int axis = 0; axis < 3 - space; axis++) {
      if (lists[i].axes >> axis & 1)
        return falt_fail(FALT_INVALID_TEXT, "problem: %s names axis %s, which the input lacks", lists[i].name,
                         falt_axis_names[axis]);
    }
    if (!lists[i].axes && lists[i].count > 1 && lists[i].count != space)
      return falt_fail(FALT_INVALID_TEXT, "problem: %s has %d numbers for %d axes; give one, or one for each axis",
                       lists[i].name, lists[i].count, space);
  }
  return FALT_OK;
}

/* Sizes of space and filter: the axes named by d, h, w, and a tap count for each. */
static falt_status build_space(const falt_line *line, falt_problem *problem) {
  static const char *const taps_names[] = {"t", "r", "s"};
  int space = falt_line_space(line);
  if (!line->in[2]) return missing("w", "every problem has a width");
  if (space == 3 && !line->in[1]) return missing("h", "a problem with d has h and w too");
  for (int i = 0; i < 3; i++) {
    if (i < 3 - space && line->taps[i])
      return falt_fail(FALT_INVALID_TEXT, "problem: %s needs %s: the input lacks that axis", taps_names[i],
                       falt_axis_names[i]);
    if (i >= 3 - space && !line->taps[i]) return missing(taps_names[i], "the filter needs a size for each axis");
    problem->input.size[FALT_D + i] = or_one(line->in[i]);
    problem->filter.size[FALT_D + i] = or_one(line->taps[i]);
  }
  problem->space = space;
  return check_counts(line, space);
}

static falt_status build_axes(const falt_line *line, falt_problem *problem) {
  bool pooling = falt_is_pooling(problem->operation);
  for (int i = 3 - problem->space; i < 3; i++) {
    falt_axis *axis = &problem->axis[i];
    int64_t taps = problem->filter.size[FALT_D + i];
    axis->stride = at(&line->stride, i, pooling ? taps : 1);
    axis->dilation = at(&line->dilation, i, 1);
    memcpy(axis->pad, pads_at(&line->pad, i), sizeof axis->pad);
    memcpy(axis->boundary, line->boundary[i], sizeof axis->boundary);
    problem->pool[i] = at(&line->pool, i, 1);
    FALT_TRY(falt_axis_check(axis, i, taps));
  }
  problem->boundary_value = or_real(line->value, 0);
  return FALT_OK;
}

static void build_types(const falt_line *line, falt_problem *problem) {
  bool is_layer = falt_verb_family(line->verb) == FALT_OF_LAYERS;
  falt_type type = (falt_type)or_default(line->type, FALT_F32);
  bool pooling = falt_is_pooling(problem->operation);
  problem->input.type = type;
  falt_type weights = pooling ? type : falt_default_weight_type(problem->is_filter, type);
  problem->filter.type = (falt_type)or_default(line->weight_type, (int)weights);
  problem->output.type = (falt_type)or_default(line->out_type, (int)falt_default_out_type(is_layer, type));
  problem->accumulator = (falt_type)or_default(line->accumulator, (int)falt_default_accumulator(problem));
}

static falt_status build_epilogue(const falt_line *line, falt_problem *problem) {
  problem->alpha = or_real(line->alpha, 1);
  problem->beta = or_real(line->beta, 0);
  problem->has_scale = line->scale;
  problem->has_bias = line->bias;
  problem->has_residual = line->residual;
  problem->activation = line->activation;
  problem->act_a = line->act_a;
  problem->act_b = line->act_b;
  problem->count_pad = line->count_pad;
  if (line->rank > INT32_MAX || line->factors > INT32_MAX)
    return falt_fail(FALT_INVALID_SIZE, "problem: %s is too large", line->rank > INT32_MAX ? "rank" : "factors");
  problem->rank = (int)line->rank;
  problem->factors = (int)line->factors;
  problem->filter_when = (falt_filter_when)line->filter_when;
  return FALT_OK;
}

/* ---- filters */

/* The tap on the output's position: anchor as said, or scipy's origin relative to the middle. */
static falt_status build_anchor(const falt_line *line, int i, int64_t taps, int64_t *anchor) {
  *anchor = at(&line->anchor, i, FALT_ANCHOR_CENTER);
  if (has(&line->anchor, i) && (*anchor < 0 || *anchor >= taps))
    return falt_fail(FALT_INVALID_SHAPE, "problem: anchor %lld on axis %s is outside the filter (0 to %lld)",
                     (long long)*anchor, falt_axis_names[i], (long long)taps - 1);
  if (!line->origin.count) return FALT_OK;
  int64_t origin = at(&line->origin, i, 0), low = -(taps / 2), high = (taps - 1) / 2;
  if (origin < low || origin > high)
    return falt_fail(FALT_INVALID_SHAPE, "problem: origin %lld on axis %s is outside the filter (%lld to %lld)",
                     (long long)origin, falt_axis_names[i], (long long)low, (long long)high);
  *anchor = taps / 2 + origin;
  return FALT_OK;
}

static falt_status place_axis(const falt_line *line, falt_problem *problem, int i) {
  falt_axis *axis = &problem->axis[i];
  int64_t in = problem->input.size[FALT_D + i], taps = problem->filter.size[FALT_D + i], anchor, out;
  if (line->pad.count) {
    out = falt_axis_output(axis, in, taps);
  } else {
    FALT_TRY(build_anchor(line, i, taps, &anchor));
    falt_mode mode = (falt_mode)or_default(line->mode, FALT_SAME);
    if (!falt_axis_place(axis, in, taps, mode, anchor, line->verb == FALT_CONVOLVE, &out)) out = 0;
  }
  out = at(&line->out, i, out);
  if (out < 1) return falt_axis_too_short(axis, i, in, taps, 1);
  problem->output.size[FALT_D + i] = out;
  return FALT_OK;
}

static falt_status check_placement_words(const falt_line *line) {
  const struct {
    const char *one, *other;
    bool both;
  } pairs[] = {{"anchor", "origin", line->anchor.count && line->origin.count},
               {"pad", "anchor", line->pad.count && line->anchor.count},
               {"pad", "origin", line->pad.count && line->origin.count},
               {"pad", "mode", line->pad.count && line->mode >= 0},
               {"out", "mode", line->out.count && line->mode >= 0},
               {"anchor", "mode=valid or full", line->anchor.count && line->mode > FALT_SAME},
               {"origin", "mode=valid or full", line->origin.count && line->mode > FALT_SAME},
               {"c", "pixel", line->c > 1 && line->pixel > 1}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    if (pairs[i].both)
      return falt_fail(FALT_INVALID_TEXT, "problem: %s and %s exclude each other; give one", pairs[i].one,
                       pairs[i].other);
  }
  return FALT_OK;
}

/* One dense spatial filter, shared by all groups. */
falt_status falt_filter_taps(falt_tensor *filter, int64_t groups, bool flip) {
  filter->size[FALT_G] = 1;
  if (!falt_layout_dense(filter, FALT_OIHW)) return falt_fail(FALT_INVALID_SIZE, "problem: filter is too large");
  if (flip) falt_filter_flip(filter);
  filter->size[FALT_G] = groups;
  if (groups > 1) filter->stride[FALT_G] = 0;
  return FALT_OK;
}

static falt_status build_filter(const falt_line *line, falt_problem *problem, falt_layout *layout) {
  FALT_TRY(check_placement_words(line));
  for (int i = 3 - problem->space; i < 3; i++) FALT_TRY(place_axis(line, problem, i));
  int64_t groups = falt_max(or_one(line->c), or_one(line->pixel));
  problem->input.size[FALT_G] = problem->output.size[FALT_G] = groups;
  *layout = line->pixel > 1 ? FALT_NHWC : FALT_NCHW;
  return falt_filter_taps(&problem->filter, groups, line->verb == FALT_CONVOLVE);
}

/* ---- layers and pools */

static falt_status layout_word(const char *word, int layout, int layout_space, int space) {
  if (layout < 0 || layout_space == space) return FALT_OK;
  return falt_fail(FALT_INVALID_TEXT, "problem: %s=%s has %d axes, the problem has %d; say %s", word,
                   falt_layout_names[layout][layout_space - 1], layout_space, space,
                   falt_layout_names[layout][space - 1]);
}

/* Output sizes by pad and pooling, or as given. */
static falt_status build_out(const falt_line *line, falt_problem *problem) {
  for (int i = 3 - problem->space; i < 3; i++) {
    int64_t in = problem->input.size[FALT_D + i], taps = problem->filter.size[FALT_D + i];
    int64_t pool = problem->pool[i], out = at(&line->out, i, falt_axis_pooled(&problem->axis[i], in, taps, pool));
    if (out < 1) return falt_axis_too_short(&problem->axis[i], i, in, taps, pool);
    problem->output.size[FALT_D + i] = out;
  }
  return FALT_OK;
}

static falt_status build_layer(const falt_line *line, falt_problem *problem, falt_layout *layout) {
  int64_t groups = or_one(line->groups);
  if (!line->c || !line->k) return missing(line->c ? "k" : "c", "a layer needs its channels, c in and k out");
  if (line->c % groups || line->k % groups)
    return falt_fail(FALT_INVALID_SHAPE, "problem: %s=%lld is not divisible by groups=%lld",
                     line->c % groups ? "c" : "k", (long long)(line->c % groups ? line->c : line->k),
                     (long long)groups);
  FALT_TRY(layout_word("weight-layout", line->weight_layout, line->weight_layout_space, problem->space));
  problem->input.size[FALT_G] = problem->filter.size[FALT_G] = problem->output.size[FALT_G] = groups;
  problem->input.size[FALT_C] = problem->filter.size[FALT_C] = line->c / groups;
  problem->output.size[FALT_C] = problem->filter.size[FALT_K] = line->k / groups;
  *layout = (falt_layout)or_default(line->layout, FALT_NCHW);
  int weights = or_default(line->weight_layout, *layout == FALT_NHWC ? FALT_OHWI : FALT_OIHW);
  if (!falt_layout_dense(&problem->filter, (falt_layout)weights))
    return falt_fail(FALT_INVALID_SIZE, "problem: filter has more than 2^63 - 1 bytes");
  return build_out(line, problem);
}

static falt_status build_pool(const falt_line *line, falt_problem *problem, falt_layout *layout) {
  problem->input.size[FALT_G] = problem->output.size[FALT_G] = or_one(line->c);
  *layout = (falt_layout)or_default(line->layout, FALT_NCHW);
  return build_out(line, problem);
}

/* ---- tensors */

static falt_status build_tensors(const falt_line *line, falt_problem *problem, falt_layout layout) {
  falt_tensor *output = &problem->output;
  problem->input.size[FALT_N] = output->size[FALT_N] = or_one(line->n);
  if (!falt_layout_dense(&problem->input, layout) || !falt_layout_dense(output, layout))
    return falt_fail(FALT_INVALID_SIZE, "problem: input or output has more than 2^63 - 1 bytes");
  if (line->residual) {
    problem->residual = *output;
    problem->residual.type = (falt_type)or_default(line->residual_type, (int)output->type);
  }
  for (falt_operand which = 0; which < FALT_OPERANDS; which++) {
    falt_tensor *tensor = falt_problem_tensor(problem, which);
    if (!tensor) continue;
    if (line->strides[which].given) {
      memcpy(tensor->stride, line->strides[which].value, sizeof tensor->stride);
      tensor->offset = falt_tensor_lowest_offset(tensor);
    }
    if (line->offset_given[which]) tensor->offset = line->offset[which];
  }
  return FALT_OK;
}

static falt_status check_residual_words(const falt_line *line) {
  bool said = line->residual_type >= 0 || line->strides[FALT_RESIDUAL].given || line->offset_given[FALT_RESIDUAL];
  if (line->residual || !said) return FALT_OK;
  return falt_fail(FALT_INVALID_TEXT, "problem: the line describes a residual and has none; add residual=1");
}

falt_status falt_line_build(const falt_line *line, falt_problem *problem) {
  unsigned family = falt_verb_family(line->verb);
  falt_layout layout = FALT_NCHW;
  falt_problem_default(problem);
  problem->is_filter = family == FALT_OF_FILTERS;
  problem->operation = problem->is_filter ? FALT_FORWARD : (falt_operation)(line->verb - FALT_FIRST_OPERATION);
  FALT_TRY(check_residual_words(line));
  FALT_TRY(build_space(line, problem));
  FALT_TRY(layout_word("layout", line->layout, line->layout_space, problem->space));
  FALT_TRY(build_axes(line, problem));
  build_types(line, problem);
  FALT_TRY(build_epilogue(line, problem));
  FALT_TRY(family == FALT_OF_FILTERS  ? build_filter(line, problem, &layout)
           : family == FALT_OF_LAYERS ? build_layer(line, problem, &layout)
                                      : build_pool(line, problem, &layout));
  FALT_TRY(build_tensors(line, problem, layout));
  FALT_TRY(falt_problem_check(problem));
  falt_problem_canonical(problem);
  return FALT_OK;
}
