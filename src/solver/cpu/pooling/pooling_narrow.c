/* Pooling of narrow rows, many at once: if a row is only a few vectors, the setup of a row costs more than its
 * reduction. */
#include <math.h>

#include "solver/cpu/pooling/pooling.h"

/* Output rows whose windows are inside the input by height reduce the same number of input rows at the same distances,
 * so they share each step. They are reduced one below the other into a line of the scratch, at a pitch that is a
 * multiple of the stride, split by the stride at once, and their taps are reduced at once. Outputs between the rows,
 * which taps beyond the end of a row produce, are not read. Planes that windows tile without a rest follow each other
 * as rows do and become one plane. */

/* Whether windows follow each other along the height without a rest. */
static bool tiles_height(const falt_problem *p) {
  const falt_axis *a = &p->axis[1];
  const int64_t in = p->input.size[FALT_H], out = p->output.size[FALT_H];
  return a->pad[0] == 0 && falt_extent(a, p->filter.size[FALT_H]) <= a->stride && out <= in / a->stride &&
         out * a->stride == in;
}

void falt_pooling_join_planes(falt_problem *p) {
  static const int outer[] = {FALT_G, FALT_N};
  falt_tensor *x = &p->input, *y = &p->output;
  for (int i = 0; i < 2; i++) {
    const int64_t count = x->size[outer[i]];
    if (!tiles_height(p) || x->size[FALT_D] > 1 || y->size[FALT_D] > 1 || p->filter.size[FALT_D] > 1) return;
    if (count > 1 && (x->stride[outer[i]] != x->size[FALT_H] * x->stride[FALT_H] ||
                      y->stride[outer[i]] != y->size[FALT_H] * y->stride[FALT_H]))
      return;
    x->size[FALT_H] *= count;
    y->size[FALT_H] *= count;
    x->size[outer[i]] = y->size[outer[i]] = 1;
    p->axis[1].pad[1] = 0;
  }
}

void falt_pooling_lay_narrow(falt_pooling_plan *plan) {
  const falt_problem *p = &plan->p;
  const falt_axis *a = &p->axis[2];
  const int64_t *taps = p->filter.size;
  const int64_t length = (p->output.size[FALT_W] - 1) * a->stride + falt_extent(a, taps[FALT_W]);
  const bool runs = a->stride > 1 && a->dilation == 1 && taps[FALT_W] >= plan->lane->width;
  const bool is_narrow = plan->channels == 1 && plan->piece == p->output.size[FALT_W] && !runs &&
                         p->input.type == plan->lane_type && falt_tensor_unit(&p->input, FALT_W) &&
                         taps[FALT_D] * taps[FALT_H] <= FALT_POOLING_LIST;
  plan->pitch = falt_round_up(length, a->stride);
  plan->rows = is_narrow ? falt_max(1, FALT_POOLING_LINE / plan->pitch) : 1;
}

/* All input rows of `rows` outputs, folded into the line. */
static void fold_rows(const falt_pooling_task *t, int64_t h, int64_t rows, const falt_pooling_part *part) {
  const falt_pooling_plan *plan = t->plan;
  const falt_tensor *x = &plan->p.input;
  const falt_pooling_box b = falt_pooling_box_of(plan, t->d, h);
  const size_t element = plan->lane->element;
  const void *list[FALT_POOLING_LIST];
  falt_pooling_folds call = {.rows = list,
                             .out = t->line + (size_t)part->begin * element,
                             .n = part->end - part->begin,
                             .copies = rows,
                             .step = plan->p.axis[1].stride * x->stride[FALT_H],
                             .out_step = plan->pitch};
  for (int64_t i = b.begin[0]; i < b.end[0]; i++)
    for (int64_t j = b.begin[1]; j < b.end[1]; j++)
      list[call.count++] = falt_pooling_in_place(t, x, t->operands->input, falt_pooling_position(plan, 0, t->d, i),
                                                 falt_pooling_position(plan, 1, h, j), part->first + part->begin);
  plan->lane->folds[falt_pooling_way(plan)](&call);
  for (int64_t r = 0; r < rows; r++) {
    char *row = t->line + (size_t)(r * plan->pitch) * element;
    const double nothing = plan->largest ? -INFINITY : 0;
    if (part->begin > 0) plan->lane->fill(row, nothing, part->begin);
    if (part->end < plan->pitch) plan->lane->fill(row + (size_t)part->end * element, nothing, plan->pitch - part->end);
  }
}

/* The taps of all outputs into `out`; outputs between the rows are among them. */
static void fold_taps(const falt_pooling_task *t, int64_t rows, char *out) {
  const falt_pooling_plan *plan = t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t taps = plan->p.filter.size[FALT_W], count = plan->p.output.size[FALT_W];
  const int64_t polyphase = rows * plan->pitch / a->stride;
  const falt_pooling_polyphases split = {t->line, t->split, rows * plan->pitch, 1, a->stride, polyphase};
  const char *base = a->stride > 1 ? t->split : t->line;
  if (a->stride > 1) plan->lane->split(&split);
  const void *list[FALT_POOLING_LIST];
  for (int64_t j = 0, kept = 0; j < taps; kept = 1) {
    const int64_t step = falt_min(FALT_POOLING_LIST - kept, taps - j);
    list[0] = out;
    for (int64_t k = 0; k < step; k++) {
      const int64_t at = (j + k) * a->dilation;
      list[kept + k] = base + (size_t)(at % a->stride * polyphase + at / a->stride) * plan->lane->element;
    }
    plan->lane->fold[falt_pooling_way(plan)](list, (int)(kept + step), (rows - 1) * plan->pitch / a->stride + count,
                                             out);
    j += step;
  }
}

/* Rows whose windows are inside have the same tap count; if all columns do, all outputs do. */
static void average(const falt_pooling_task *t, int64_t h, int64_t rows, int64_t pitch, char *out) {
  const falt_pooling_plan *plan = t->plan;
  const int64_t count = plan->p.output.size[FALT_W], taps = plan->p.filter.size[FALT_W];
  int64_t begin, end;
  falt_axis_interior(&plan->p.axis[2], plan->p.input.size[FALT_W], taps, count, &begin, &end);
  if (end - begin == count) {
    const double by = falt_pooling_count(plan, 0, t->d) * falt_pooling_count(plan, 1, h) * (double)taps;
    plan->lane->divide(out, by, (rows - 1) * pitch + count);
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    falt_pooling_average(t, t->d, h + r, 0, count, out + (size_t)(r * pitch) * plan->lane->element);
}

/* Copies outputs from the scratch to the output. */
static void store_rows(const falt_pooling_task *t, int64_t h, int64_t rows, int64_t pitch, const char *out) {
  const falt_pooling_plan *plan = t->plan;
  const falt_tensor *y = &plan->p.output;
  void *there = falt_pooling_in_place(t, y, t->operands->output, t->d, h, 0);
  const void *list[] = {out};
  if (there)
    plan->lane->folds[falt_pooling_way(plan)](&(falt_pooling_folds){.rows = list,
                                                                    .out = there,
                                                                    .count = 1,
                                                                    .n = y->size[FALT_W],
                                                                    .copies = rows,
                                                                    .step = pitch,
                                                                    .out_step = y->stride[FALT_H]});
  for (int64_t r = 0; !there && r < rows; r++)
    falt_pooling_store(t, y, t->operands->output, t->d, h + r, 0, y->size[FALT_W],
                       out + (size_t)(r * pitch) * plan->lane->element);
}

int64_t falt_pooling_narrow(const falt_pooling_task *t, int64_t h) {
  const falt_pooling_plan *plan = t->plan;
  const falt_problem *p = &plan->p;
  const falt_axis *a = &p->axis[2];
  int64_t begin, end;
  if (plan->rows == 1) return 0;
  falt_axis_interior(&p->axis[1], p->input.size[FALT_H], p->filter.size[FALT_H], p->output.size[FALT_H], &begin, &end);
  const int64_t rows = h < begin ? 0 : falt_min(plan->rows, falt_min(end, t->h_end) - h);
  if (rows < 2) return 0;
  const int64_t pitch = plan->pitch / a->stride, count = p->output.size[FALT_W];
  const falt_pooling_part part = falt_pooling_inside(plan, -a->pad[0], plan->pitch);
  void *there = falt_pooling_in_place(t, &p->output, t->operands->output, t->d, h, 0);
  const bool straight = there && pitch == count && p->output.stride[FALT_H] == count;
  char *out = straight ? there : t->out;
  fold_rows(t, h, rows, &part);
  fold_taps(t, rows, out);
  if (!plan->largest) average(t, h, rows, pitch, out);
  if (!straight) store_rows(t, h, rows, pitch, out);
  return rows;
}
