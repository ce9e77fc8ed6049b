/* From a problem to the shortest line that builds it: what build.c would supply is left absent. */
#include <string.h>

#include "problem/line.h"

/* One number where all axes agree, else one for each; absent where all are `absent`. */
static falt_list list_of(const int64_t value[3], const int64_t absent[3], int space) {
  falt_list list = {.count = 0};
  int first = 3 - space;
  bool same = true;
  if (memcmp(value + first, absent + first, (size_t)space * sizeof *value) == 0) return list;
  for (int i = first; i < 3; i++) same &= value[i] == value[first];
  list.count = same ? 1 : space;
  memcpy(list.value, value + first, (size_t)list.count * sizeof *value);
  return list;
}

static falt_pads pads_of(const falt_problem *problem) {
  falt_pads pads = {.count = problem->space};
  for (int i = 0; i < problem->space; i++)
    memcpy(pads.value[i], problem->axis[3 - problem->space + i].pad, sizeof pads.value[i]);
  return pads;
}

static void describe_space(const falt_problem *problem, falt_line *line) {
  bool pooling = falt_is_pooling(problem->operation);
  const int64_t *taps = problem->filter.size + FALT_D, one[3] = {1, 1, 1};
  int64_t stride[3], dilation[3];
  for (int i = 0; i < 3; i++) {
    const falt_axis *axis = &problem->axis[i];
    stride[i] = axis->stride;
    dilation[i] = axis->dilation;
    memcpy(line->boundary[i], axis->boundary, sizeof axis->boundary);
    if (i < 3 - problem->space) continue;
    line->in[i] = problem->input.size[FALT_D + i];
    line->taps[i] = taps[i];
  }
  line->n = problem->input.size[FALT_N] > 1 ? problem->input.size[FALT_N] : 0;
  line->stride = list_of(stride, pooling ? taps : one, problem->space);
  line->dilation = list_of(dilation, one, problem->space);
  if (problem->boundary_value != 0) line->value = problem->boundary_value;
}

/* ---- placing a filter */

static bool is_mode(const falt_problem *problem, falt_mode mode, bool flip) {
  for (int i = 3 - problem->space; i < 3; i++) {
    falt_axis axis = problem->axis[i];
    int64_t in = problem->input.size[FALT_D + i], taps = problem->filter.size[FALT_D + i], out;
    if (!falt_axis_place(&axis, in, taps, mode, FALT_ANCHOR_CENTER, flip, &out)) return false;
    if (axis.pad[0] != problem->axis[i].pad[0] || out != problem->output.size[FALT_D + i]) return false;
  }
  return true;
}

/* Anchors, and sizes where they are not those of mode same; false if some pad is no anchor. */
static bool as_anchors(const falt_problem *problem, bool flip, falt_line *line) {
  int64_t anchor[3] = {0}, middle[3] = {0}, same[3] = {0};
  for (int i = 3 - problem->space; i < 3; i++) {
    const falt_axis *axis = &problem->axis[i];
    int64_t taps = problem->filter.size[FALT_D + i], lead = axis->pad[0] / axis->dilation;
    if (axis->pad[0] % axis->dilation || lead < 0 || lead >= taps) return false;
    anchor[i] = flip ? taps - 1 - lead : lead;
    middle[i] = taps / 2;
    same[i] = falt_ceil_div(problem->input.size[FALT_D + i], axis->stride);
  }
  line->anchor = list_of(anchor, middle, problem->space);
  line->out = list_of(problem->output.size + FALT_D, same, problem->space);
  return true;
}

static void describe_placement(const falt_problem *problem, bool flip, falt_line *line) {
  for (falt_mode mode = FALT_SAME; mode <= FALT_FULL; mode++) {
    if (!is_mode(problem, mode, flip)) continue;
    line->mode = mode == FALT_SAME ? -1 : (int)mode;
    return;
  }
  if (!as_anchors(problem, flip, line)) line->pad = pads_of(problem); /* pad[1] makes the size too */
}

/* ---- the three families */

/* The filter is written as a convolution if every spatial axis runs backwards. */
static bool is_flipped(const falt_tensor *filter) {
  bool flipped = false;
  for (int dim = FALT_D; dim < FALT_DIMS; dim++) {
    if (filter->size[dim] == 1) continue;
    if (filter->stride[dim] >= 0) return false;
    flipped = true;
  }
  return flipped;
}

/* The tensor lies as `expected` does, or its strides and offset are said. */
static void describe_tensor(const falt_tensor *tensor, const falt_tensor *expected, int which, falt_line *line) {
  bool same = true;
  int64_t offset = expected->offset;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    same &= tensor->size[dim] == 1 || tensor->stride[dim] == expected->stride[dim];
  if (!same) {
    line->strides[which].given = true;
    memcpy(line->strides[which].value, tensor->stride, sizeof tensor->stride);
    offset = falt_tensor_lowest_offset(tensor);
  }
  line->offset_given[which] = tensor->offset != offset;
  line->offset[which] = tensor->offset;
}

/* The layout of most of input, output and residual; nchw where they tie. */
static falt_layout describe_data(const falt_problem *problem, falt_line *line) {
  const falt_operand data[] = {FALT_INPUT, FALT_OUTPUT, FALT_RESIDUAL};
  falt_problem p = *problem;
  int votes[2] = {0, 0}, count = problem->has_residual ? 3 : 2;
  for (int i = 0; i < count; i++) {
    const falt_tensor *tensor = falt_problem_tensor(&p, data[i]);
    votes[0] += falt_tensor_is(tensor, FALT_NCHW);
    votes[1] += falt_tensor_is(tensor, FALT_NHWC);
  }
  falt_layout layout = votes[1] > votes[0] ? FALT_NHWC : FALT_NCHW;
  for (int i = 0; i < count; i++) {
    const falt_tensor *tensor = falt_problem_tensor(&p, data[i]);
    falt_tensor expected = *tensor;
    falt_layout_dense(&expected, layout);
    describe_tensor(tensor, &expected, data[i], line);
  }
  return layout;
}

static void describe_filter(const falt_problem *problem, falt_line *line) {
  bool flip = is_flipped(&problem->filter);
  int64_t groups = problem->input.size[FALT_G];
  falt_tensor expected = problem->filter;
  line->verb = flip ? FALT_CONVOLVE : FALT_CORRELATE;
  *(describe_data(problem, line) == FALT_NHWC ? &line->pixel : &line->c) = groups > 1 ? groups : 0;
  describe_placement(problem, flip, line);
  falt_filter_taps(&expected, groups, flip);
  describe_tensor(&problem->filter, &expected, FALT_FILTER, line);
}

static void describe_channels(const falt_problem *problem, falt_line *line) {
  int64_t groups = problem->input.size[FALT_G];
  falt_layout layout = describe_data(problem, line);
  line->layout = layout == FALT_NCHW ? -1 : (int)layout;
  line->layout_space = problem->space;
  line->c = groups * problem->input.size[FALT_C];
  for (int i = 3 - problem->space; i < 3; i++) {
    if (problem->axis[i].pad[0] || problem->axis[i].pad[1]) line->pad = pads_of(problem);
  }
  int64_t out[3];
  for (int i = 0; i < 3; i++)
    out[i] = falt_axis_pooled(&problem->axis[i], problem->input.size[FALT_D + i], problem->filter.size[FALT_D + i],
                              problem->pool[i]);
  line->out = list_of(problem->output.size + FALT_D, out, problem->space);
}

static void describe_layer(const falt_problem *problem, falt_line *line) {
  static const int64_t none[3] = {1, 1, 1};
  falt_tensor expected = problem->filter;
  line->pool = list_of(problem->pool, none, problem->space);
  int64_t groups = problem->filter.size[FALT_G];
  describe_channels(problem, line);
  line->k = groups * problem->filter.size[FALT_K];
  line->groups = groups > 1 ? groups : 0;
  falt_layout usual = line->layout == FALT_NHWC ? FALT_OHWI : FALT_OIHW, layout = usual;
  if (!falt_tensor_is(&expected, usual)) {
    for (falt_layout other = FALT_OIHW; other <= FALT_HWIO; other++) {
      if (falt_tensor_is(&expected, other)) layout = other;
    }
  }
  line->weight_layout = layout == usual ? -1 : (int)layout;
  line->weight_layout_space = problem->space;
  falt_layout_dense(&expected, layout);
  describe_tensor(&problem->filter, &expected, FALT_FILTER, line);
}

/* ---- what all share */

static int unless(falt_type type, falt_type usual) {
  return type == usual ? -1 : (int)type;
}

static void describe_types(const falt_problem *p, falt_line *line) {
  bool is_layer = !p->is_filter && !falt_is_pooling(p->operation);
  line->type = unless(p->input.type, FALT_F32);
  if (!falt_is_pooling(p->operation))
    line->weight_type = unless(p->filter.type, falt_default_weight_type(p->is_filter, p->input.type));
  line->out_type = unless(p->output.type, falt_default_out_type(is_layer, p->input.type));
  line->accumulator = unless(p->accumulator, falt_default_accumulator(p));
  if (p->has_residual) line->residual_type = unless(p->residual.type, p->output.type);
}

static void describe_epilogue(const falt_problem *p, falt_line *line) {
  if (p->alpha != 1) line->alpha = p->alpha;
  if (p->beta != 0) line->beta = p->beta;
  line->scale = p->has_scale;
  line->bias = p->has_bias;
  line->residual = p->has_residual;
  line->activation = p->activation;
  line->act_a = p->act_a;
  line->act_b = p->act_b;
  line->count_pad = p->count_pad;
  line->rank = p->rank;
  line->factors = p->factors;
  line->filter_when = (int)p->filter_when;
}

void falt_line_describe(const falt_problem *problem, falt_line *line) {
  falt_line_default(line);
  line->verb = FALT_FIRST_OPERATION + (int)problem->operation;
  describe_space(problem, line);
  describe_types(problem, line);
  describe_epilogue(problem, line);
  if (problem->is_filter) {
    describe_filter(problem, line);
  } else if (falt_is_pooling(problem->operation)) {
    describe_channels(problem, line);
    if (line->c == 1) line->c = 0;
  } else {
    describe_layer(problem, line);
  }
}
