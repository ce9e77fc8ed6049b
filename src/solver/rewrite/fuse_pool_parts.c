/* The two problems of a layer with max pooling. */
#include "solver/rewrite/fuse_pool.h"

const char *falt_pooled_refusal(const falt_problem *p) {
  const falt_tensor *y = &p->output;
  return !falt_problem_pools(p) ? "it has no max pooling"
         : y->size[FALT_G] > 1 && y->size[FALT_C] > 1 && y->stride[FALT_G] != y->size[FALT_C] * y->stride[FALT_C]
             ? "the output's channels are not equally spaced over the groups"
             : NULL;
}

static falt_tensor results_of(const falt_problem *p) {
  static const char *const layouts[2][3] = {{"ncw", "nchw", "ncdhw"}, {"nwc", "nhwc", "ndhwc"}};
  falt_tensor t = p->output;
  const int channel = t.size[FALT_C] > 1 ? FALT_C : FALT_G;
  const bool last = t.size[channel] > 1 && t.stride[channel] == 1;
  for (int i = 0; i < 3; i++) t.size[FALT_D + i] *= p->pool[i];
  falt_tensor_layout(&t, layouts[last][p->space - 1]);
  return t;
}

falt_problem falt_pooled_layer(const falt_problem *p) {
  falt_problem layer = *p;
  layer.output = results_of(p);
  for (int i = 0; i < 3; i++) layer.pool[i] = 1;
  return layer;
}

/* All channels as groups, as pooling has them. */
static void merge_channels(falt_tensor *t) {
  if (t->size[FALT_C] > 1) t->stride[FALT_G] = t->stride[FALT_C];
  t->size[FALT_G] *= t->size[FALT_C];
  t->size[FALT_C] = 1;
}

falt_problem falt_pooled_pooling(const falt_problem *problem, const falt_tensor *results) {
  falt_problem p;
  falt_problem_default(&p);
  p.operation = FALT_MAXPOOL;
  p.space = problem->space;
  p.input = *results;
  p.output = problem->output;
  p.accumulator = falt_type_real(results->type);
  p.filter.type = results->type;
  merge_channels(&p.input);
  merge_channels(&p.output);
  for (int i = 0; i < 3; i++) p.filter.size[FALT_D + i] = p.axis[i].stride = problem->pool[i];
  return p;
}
