/* Shared by the FFT solvers on GPUs: arguments, kernels, twiddles, and the spectra of known filters. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/fft/cuda_fft.h"

enum { SUM_THREADS = 256, MOST_SUM_BLOCKS = 4096 };

static const falt_cuda_fft_kernel common[FALT_FFT_OWN] = {{"cuda_fft.cu", "falt_fft_about", 0},
                                                          {"cuda_fft.cu", "falt_fft_spectrum", 0},
                                                          {"cuda_fft.cu", "falt_fft_sums", SUM_THREADS}};

static const falt_cuda_fft_kernel *kernel_at(const falt_cuda_fft_plan *plan, int which) {
  return which < FALT_FFT_OWN ? &common[which] : &plan->own[which - FALT_FFT_OWN];
}

/* ---- execute */

void falt_cuda_fft_start(const falt_cuda_fft_plan *plan, int which, const falt_cuda_fft_args *args, int64_t blocks,
                         void *stream) {
  void *parameters[] = {(void *)args};
  const int own = kernel_at(plan, which)->threads, threads = own ? own : plan->tile.threads;
  const falt_gpu_launch launch = {
      plan->function[which], blocks, {threads, 1}, own ? 0 : (int)plan->tile.shared_bytes, stream};
  falt_gpu_start(plan->cuda.base.device->gpu, &launch, parameters);
}

/* Those of wgrad are dy, whose spectra follow in several launches. */
static void start_filters(const falt_cuda_fft_plan *plan, const falt_cuda_fft_args *args, void *stream) {
  const falt_cuda_fft_tile *t = &plan->tile;
  const int64_t filters = args->all_pairs / args->pairs;
  falt_cuda_fft_start(plan, FALT_FFT_ABOUT, args, filters, stream);
  if (plan->cuda.base.problem.operation != FALT_BACKWARD_FILTER)
    falt_cuda_fft_start(plan, FALT_FFT_SPECTRUM, args, filters * t->all_parts, stream);
}

/* The first tap that stands at the lowest position: those of dgrad are backwards. */
static const void *first_tap(const falt_cuda_fft_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->cuda.base.problem;
  if (p->operation == FALT_BACKWARD_FILTER) return falt_cuda_element(o->output, &p->output);
  const char *taps = falt_cuda_plan_filter(&plan->cuda, o);
  int64_t last = 0;
  for (int i = 0; i < 3 && p->operation == FALT_BACKWARD_DATA; i++)
    last += (p->filter.size[FALT_D + i] - 1) * p->filter.stride[FALT_D + i];
  return taps + last * (int64_t)falt_type_size(p->filter.type);
}

static falt_cuda_fft_args args_of(const falt_cuda_fft_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_fft_args args = plan->args;
  char *memory = plan->known ? plan->known : o->workspace;
  args.x = p->operation == FALT_BACKWARD_DATA ? falt_cuda_element(o->output, &p->output)
                                              : falt_cuda_element(o->input, &p->input);
  args.y = falt_cuda_element(falt_result_data(p->operation, o), falt_problem_result(p));
  args.w = first_tap(plan, o);
  args.about = memory + plan->about_at;
  args.spectra = memory + plan->spectra_at;
  args.twiddles = plan->twiddles;
  args.sums = (unsigned char *)o->workspace + plan->sums_at;
  args.kept = (char *)o->workspace + plan->kept_at;
  args.products = (char *)o->workspace + plan->products_at;
  args.bad = (unsigned char *)o->workspace + plan->bad_at;
  if (p->has_residual) args.residual.data = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  return args;
}

falt_cuda_fft_args falt_cuda_fft_begin(const falt_cuda_fft_plan *plan, const falt_operands *o) {
  falt_cuda_fft_args args = args_of(plan, o);
  if (!plan->known) start_filters(plan, &args, o->stream);
  return args;
}

void falt_cuda_fft_end(const falt_cuda_fft_plan *plan, const falt_cuda_fft_args *args, void *stream) {
  falt_cuda_fft_start(plan, FALT_FFT_SUMS, args, falt_min(args->all_pairs, MOST_SUM_BLOCKS), stream);
}

void falt_cuda_fft_print(const falt_cuda_fft_plan *plan, falt_text *text) {
  const falt_cuda_fft_tile *t = &plan->tile;
  falt_text_add(text, "(%s%s tile=%dx%dx%d threads=%d shared=%lld", plan->cuda.base.solver->name,
                plan->wide ? " f64" : "", 1 << t->log[0], 1 << t->log[1], 1 << t->log[2], t->threads,
                (long long)t->shared_bytes);
  if (t->all_parts > 1)
    falt_text_add(text, " parts=%lldx%lldx%lld", (long long)t->parts[0], (long long)t->parts[1],
                  (long long)t->parts[2]);
}

void falt_cuda_fft_destroy(falt_plan *base) {
  falt_cuda_fft_plan *plan = (falt_cuda_fft_plan *)base;
  falt_gpu_release(base->device->gpu, plan->twiddles);
  falt_gpu_release(base->device->gpu, plan->known);
  falt_cuda_plan_destroy(base);
}

/* ---- applicable */

/* Sums of whole numbers are exact if transforms in f64 stay within a quarter of them. */
static bool is_whole(const falt_problem *p) {
  return falt_problem_sums_integers(p) && p->boundary_value == rint(p->boundary_value);
}

static bool exact_enough(const falt_problem *p) {
  const double levels = 25;
  return !is_whole(p) || falt_problem_sum_bound(p) * 2 * levels * 0x1p-53 < 0.25;
}

/* Positions and offsets within a tile are counted in 32 bits, whole axes in 64. */
static bool small_steps(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 30;
  for (int i = 0; i < 3; i++)
    if (p->axis[i].stride >= most || p->axis[i].dilation >= most || p->filter.size[FALT_D + i] >= most ||
        (p->operation == FALT_BACKWARD_FILTER && p->output.size[FALT_D + i] >= most))
      return false;
  return true;
}

/* A gradient whose strides are 1 is the filter backwards, over zeros beyond the ends. */
static bool is_plain_gradient(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    if (a->stride != 1 || a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT) return false;
  }
  return p->filter.size[FALT_K] == 1;
}

const char *falt_cuda_fft_inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool gradient = p->operation == FALT_BACKWARD_DATA;
  return p->operation != FALT_FORWARD && !gradient ? "it computes forward filters and dgrad only"
         : p->filter.size[FALT_C] != 1             ? "it sums over one channel only"
         : gradient && !is_plain_gradient(p)       ? "the gradient is not that of unit strides, one output and zeros"
         : !small_steps(p)                         ? "a stride, a dilation or a filter is longer than 2^30"
         : !exact_enough(p)                        ? "sums of these integers may be too large to be exact"
                                                   : NULL;
}

const char *falt_cuda_fft_wgrad_inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_BACKWARD_FILTER                          ? "it computes wgrad only"
         : p->filter.size[FALT_C] != 1                                 ? "it sums over one channel only"
         : p->has_bias                                                 ? "it has no bias gradient"
         : p->filter.size[FALT_G] > 1 && p->filter.stride[FALT_G] == 0 ? "all channels share the filter"
         : is_whole(p)                                                 ? "it sums floats only"
         : !small_steps(p) ? "a stride, a dilation or a filter is longer than 2^30"
                           : NULL;
}

/* ---- arguments */

/* The operands as a filter's. In wgrad dy are the taps and dw the outputs, so strides and dilations change places. */
typedef struct roles {
  const falt_tensor *x, *w, *y;
  bool forward, wgrad;
} roles;

static roles roles_of(const falt_problem *p) {
  switch (p->operation) {
    case FALT_BACKWARD_DATA:
      return (roles){&p->output, &p->filter, &p->input, false, false};
    case FALT_BACKWARD_FILTER:
      return (roles){&p->input, &p->output, &p->filter, false, true};
    default:
      return (roles){&p->input, &p->filter, &p->output, true, false};
  }
}

static void set_axis(falt_cuda_fft_args *a, const falt_problem *p, int i) {
  const roles r = roles_of(p);
  const falt_axis *axis = &p->axis[i];
  const bool backwards = p->operation == FALT_BACKWARD_DATA;
  a->in[i] = r.x->size[FALT_D + i];
  a->out[i] = r.y->size[FALT_D + i];
  a->taps[i] = r.w->size[FALT_D + i];
  a->stride[i] = r.wgrad ? axis->dilation : axis->stride;
  a->dilation[i] = a->taps[i] == 1 ? 1 : r.wgrad ? axis->stride : axis->dilation;
  if (r.wgrad && a->out[i] == 1) a->stride[i] = 1;
  a->pad[i] = backwards ? (a->taps[i] - 1) * a->dilation[i] - axis->pad[0] : axis->pad[0];
  for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)axis->boundary[side];
  a->x_axis[i] = falt_cuda_stride(r.x, FALT_D + i);
  a->y_axis[i] = falt_cuda_stride(r.y, FALT_D + i);
  a->w_axis[i] = backwards ? -falt_cuda_stride(r.w, FALT_D + i) : falt_cuda_stride(r.w, FALT_D + i);
}

static void set_args(falt_cuda_fft_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const roles r = roles_of(p);
  falt_cuda_fft_args *a = &plan->args;
  *a =
      (falt_cuda_fft_args){.x_batch = {falt_cuda_stride(r.x, FALT_N), falt_cuda_stride(r.x, FALT_G)},
                           .y_batch = {r.wgrad ? 0 : falt_cuda_stride(r.y, FALT_N), falt_cuda_stride(r.y, FALT_G),
                                       falt_cuda_stride(r.y, r.wgrad ? FALT_K : FALT_C)},
                           .w_batch = {falt_cuda_stride(r.w, FALT_G), falt_cuda_stride(r.w, r.wgrad ? FALT_C : FALT_K)},
                           .w_image = r.wgrad ? falt_cuda_stride(r.w, FALT_N) : 0,
                           .groups = (int)p->filter.size[FALT_G],
                           .filters = (int)p->filter.size[FALT_K],
                           .one_filter = !r.wgrad && falt_cuda_one_filter(p),
                           .fill = p->operation == FALT_BACKWARD_DATA ? 0 : p->boundary_value,
                           .epilogue = falt_cuda_epilogue_of(p),
                           .residual = falt_cuda_tensor_of(&p->residual)};
  for (int i = 0; i < 3; i++) set_axis(a, p, i);
  a->images = p->input.size[FALT_N] * (a->one_filter ? p->filter.size[FALT_G] : 1);
}

static void set_tile_args(falt_cuda_fft_plan *plan) {
  falt_cuda_fft_args *a = &plan->args;
  const falt_cuda_fft_tile *t = &plan->tile;
  for (int i = 0; i < 3; i++) {
    a->part_taps[i] = t->part_taps[i];
    a->parts[i] = (int)t->parts[i];
    a->block[i] = t->block[i];
    a->tiles[i] = t->tiles[i];
    a->shift[i] = i == t->axis ? t->shift : 0;
  }
  a->segments = (unsigned)t->segments;
  a->steps = (unsigned)t->steps;
  a->inputs = (unsigned)t->inputs;
  a->boxes = t->boxes;
  a->image_boxes = (unsigned)(t->boxes / a->images);
  a->pairs = (unsigned)t->pairs;
  a->strand_pairs = (unsigned)falt_ceil_div(t->boxes, 2);
  a->all_pairs = (unsigned)(t->pairs * (a->one_filter ? 1 : (int64_t)a->groups * a->filters));
}

/* ---- ready */

static bool strided(const falt_cuda_fft_args *a) {
  return a->stride[0] > 1 || a->stride[1] > 1 || a->stride[2] > 1;
}

static falt_cuda_kernel kernel_of(const falt_cuda_fft_plan *plan) {
  const roles r = roles_of(&plan->cuda.base.problem);
  const falt_cuda_fft_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {.source = "cuda_fft.cu", .shared_bytes = (int)t->shared_bytes};
  const falt_cuda_named_define defines[] = {{"LOG_Z", t->log[0]},
                                            {"LOG_Y", t->log[1]},
                                            {"LOG_X", t->log[2]},
                                            {"TYPE_X", r.x->type},
                                            {"TYPE_Y", r.y->type},
                                            {"TYPE_W", r.w->type},
                                            {"PARTS", t->all_parts > 1 && t->axis < 0},
                                            {"STRIDED", strided(&plan->args)},
                                            {"WHOLE", plan->whole},
                                            {"EPILOGUE", plan->epilogue},
                                            {"BLOCKS", t->blocks},
                                            {"AXIS", t->axis},
                                            {"GROUP", t->group},
                                            {"WGRAD", r.wgrad}};
  falt_cuda_defines(&kernel, defines, sizeof defines / sizeof *defines);
  falt_cuda_define(&kernel, "SUM=%s", plan->wide ? "double" : "float");
  return kernel;
}

static falt_status ready_kernel(falt_cuda_fft_plan *plan, int which) {
  const falt_cuda_fft_kernel *k = kernel_at(plan, which);
  falt_cuda_kernel kernel = kernel_of(plan);
  kernel.source = k->source;
  kernel.entry = k->entry;
  kernel.shared_bytes = k->threads ? 0 : (int)plan->tile.shared_bytes;
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &plan->function[which]);
}

static falt_status ready_twiddles(falt_cuda_fft_plan *plan) {
  const size_t count = 2 * falt_cuda_fft_twiddles(plan->tile.log, NULL);
  const size_t bytes = count * (plan->wide ? sizeof(double) : sizeof(float));
  double *table = falt_alloc((count + 1) * sizeof *table);
  if (!table) return falt_fail(FALT_NO_MEMORY, "planning: memory for the twiddles of a transform ran out");
  falt_cuda_fft_twiddles(plan->tile.log, table);
  for (size_t i = 0; i < count && !plan->wide; i++) ((float *)(void *)table)[i] = (float)table[i];
  const falt_status status = falt_cuda_upload(plan->cuda.base.device->gpu, &plan->twiddles, table, bytes);
  falt_free(table);
  return status;
}

/* What is known of a known filter, and its spectra: made by the GPU. */
static falt_status keep_spectra(falt_cuda_fft_plan *plan) {
  const falt_device *device = plan->cuda.base.device;
  const size_t bytes = plan->spectra_at + (size_t)plan->tile.spectra_bytes;
  FALT_TRY(falt_gpu_allocate(device->gpu, &plan->known, bytes));
  if (device->described) return FALT_OK;
  falt_cuda_fft_args args = args_of(plan, &(falt_operands){.filter = NULL});
  start_filters(plan, &args, NULL);
  FALT_TRY(falt_gpu_trouble());
  return falt_gpu_synchronize(device->gpu);
}

falt_status falt_cuda_fft_ready(falt_plan *base) {
  falt_cuda_fft_plan *plan = (falt_cuda_fft_plan *)base;
  const bool known = plan->cuda.values != NULL;
  for (int i = 0; i < FALT_FFT_KERNELS && (i < FALT_FFT_OWN || kernel_at(plan, i)->entry); i++)
    FALT_TRY(ready_kernel(plan, i));
  FALT_TRY(ready_twiddles(plan));
  FALT_TRY(falt_cuda_plan_keep_filter(&plan->cuda));
  return known ? keep_spectra(plan) : FALT_OK;
}

/* ---- plan */

static bool choose_tile(falt_cuda_fft_plan *plan, const falt_ask *ask, falt_cuda_fft_method *method) {
  const roles r = roles_of(ask->problem);
  const falt_cuda_fft_args *a = &plan->args;
  const falt_machine machine = falt_cuda_machine(ask->device);
  falt_cuda_fft_problem problem = {.filters = a->one_filter ? 1 : (int64_t)a->groups * a->filters,
                                   .images = a->images,
                                   .real_bytes = plan->wide ? 8 : 4,
                                   .x_bytes = (int)falt_type_size(r.x->type),
                                   .y_bytes = (int)falt_type_size(r.y->type),
                                   .x_step = falt_max(1, llabs(a->x_axis[2])),
                                   .y_step = falt_max(1, llabs(a->y_axis[2])),
                                   .known = plan->cuda.values != NULL,
                                   .wgrad = r.wgrad,
                                   .far = plan->epilogue > 1,
                                   .most_bytes = ask->budget->max_workspace,
                                   .cache_bytes_per_s = ask->device->limits.cache_bytes_per_s};
  for (int i = 0; i < 3; i++) {
    problem.in[i] = a->in[i];
    problem.pad[i] = a->pad[i];
    problem.zeros[i] = a->fill == 0 && a->boundary[i][0] == FALT_CONSTANT && a->boundary[i][1] == FALT_CONSTANT;
    problem.out[i] = a->out[i];
    problem.taps[i] = a->taps[i];
    problem.stride[i] = a->stride[i];
    problem.dilation[i] = a->dilation[i];
  }
  return falt_cuda_fft_choose(method, &problem, &machine, &plan->tile);
}

static void lay_out_kept(falt_cuda_fft_plan *plan, falt_memory_layout *layout) {
  const falt_cuda_fft_tile *t = &plan->tile;
  const size_t spectrum = (size_t)t->threads * 16 * 2 * (plan->wide ? sizeof(double) : sizeof(float));
  plan->kept_at = falt_place_part(layout, (size_t)(t->strands * t->inputs) * spectrum);
  plan->products_at = falt_place_part(layout, (size_t)(t->strands * t->steps) * spectrum);
  plan->bad_at = falt_place_part(layout, (size_t)(t->strands * t->inputs));
}

/* The workspace; or, of known filters, the memory that the plan keeps, which has no notes on tiles. */
static void lay_out(falt_cuda_fft_plan *plan, bool known) {
  falt_memory_layout *layout = &plan->cuda.base.layout, kept = {0};
  falt_memory_layout *filters = known ? &kept : layout;
  const size_t count = plan->args.all_pairs / plan->args.pairs;
  plan->sums_at = falt_place_part(layout, plan->args.all_pairs);
  plan->about_at = falt_place_part(filters, count * sizeof(falt_cuda_fft_filter));
  plan->spectra_at = falt_place_part(filters, (size_t)plan->tile.spectra_bytes);
  if (plan->tile.axis >= 0) lay_out_kept(plan, layout);
  plan->cuda.base.workspace = layout->total;
}

const char *falt_cuda_fft_plan_choose(falt_cuda_fft_plan *plan, falt_ask *ask, falt_cuda_fft_method *method,
                                      const falt_cuda_fft_kernel *own) {
  plan->own = own;
  plan->whole = is_whole(ask->problem);
  plan->wide = plan->whole || !falt_problem_fits_f32(ask->problem);
  plan->epilogue = falt_cuda_epilogue_parts(ask->problem);
  set_args(plan);
  if (!choose_tile(plan, ask, method)) return plan->tile.rejected ? plan->tile.rejected : "no tile fits";
  set_tile_args(plan);
  lay_out(plan, plan->cuda.values != NULL);
  plan->cuda.base.cost.seconds = plan->tile.seconds;
  return NULL;
}
