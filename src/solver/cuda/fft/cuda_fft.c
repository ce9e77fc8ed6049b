/* Solver cuda-fft: filters of many taps, and depthwise layers as filters of each channel, by overlap-save (Stockham
 * 1966). A block transforms a pair of tiles in registers and shared memory, multiplies them by the filter's spectrum
 * and transforms them back: one read and one write of the data. A second kernel sums tiles with NaN or
 * infinity tap by tap. Kernels: cuda_fft.cu. Tile search: cuda_fft_tiles.c. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/fft/cuda_fft_args.h"
#include "solver/cuda/fft/cuda_fft_tiles.h"

enum { SUM_THREADS = 256, MOST_SUM_BLOCKS = 4096 };

typedef struct fft_plan {
  falt_cuda_plan cuda; /* function: of the tiles; sum: of those that are summed tap by tap */
  falt_cu_function about, spectrum;
  falt_cuda_fft_args args;
  falt_cuda_fft_tile tile;
  void *twiddles, *kept; /* on the GPU; kept: what is known of known filters, and their spectra */
  size_t sums_at, about_at, spectra_at;
  int epilogue; /* cuda_fft.cu's EPILOGUE */
  bool wide, whole;
} fft_plan;

/* ---- execute */

static void start(const fft_plan *plan, falt_cu_function function, const falt_cuda_fft_args *args, int64_t blocks,
                  void *stream) {
  void *parameters[] = {(void *)args};
  const bool sums = function == plan->cuda.sum;
  const int threads = sums ? SUM_THREADS : plan->tile.threads;
  const falt_gpu_launch launch = {function, blocks, {threads, 1}, sums ? 0 : (int)plan->tile.shared_bytes, stream};
  falt_gpu_start(plan->cuda.base.device->gpu, &launch, parameters);
}

/* The memory of what is known of the filters begins at `memory`. */
static void start_filters(const fft_plan *plan, falt_cuda_fft_args *args, void *stream) {
  const falt_cuda_fft_tile *t = &plan->tile;
  const int64_t filters = args->all_pairs / args->pairs;
  start(plan, plan->about, args, filters, stream);
  start(plan, plan->spectrum, args, filters * t->all_parts, stream);
}

/* The first tap that stands at the lowest position: a gradient's are backwards. */
static const void *first_tap(const fft_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->cuda.base.problem;
  const char *taps = falt_cuda_plan_filter(&plan->cuda, o);
  int64_t last = 0;
  for (int i = 0; i < 3 && p->operation == FALT_BACKWARD_DATA; i++)
    last += (p->filter.size[FALT_D + i] - 1) * p->filter.stride[FALT_D + i];
  return taps + last * (int64_t)falt_type_size(p->filter.type);
}

static falt_cuda_fft_args args_of(const fft_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_fft_args args = plan->args;
  char *memory = plan->kept ? plan->kept : o->workspace;
  args.x = falt_cuda_element(falt_factor_data(p->operation, o, 0), falt_problem_factor(p, 0));
  args.y = falt_cuda_element(falt_result_data(p->operation, o), falt_problem_result(p));
  args.w = first_tap(plan, o);
  args.about = memory + plan->about_at;
  args.spectra = memory + plan->spectra_at;
  args.twiddles = plan->twiddles;
  args.sums = (unsigned char *)o->workspace + plan->sums_at;
  if (p->has_residual) args.residual.data = falt_cuda_element(o->residual, &p->residual);
  if (p->has_bias) args.epilogue.bias = o->bias;
  if (p->has_scale) args.epilogue.scale = o->scale;
  return args;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const fft_plan *plan = (const fft_plan *)base;
  falt_cuda_fft_args args = args_of(plan, o);
  if (!plan->kept) start_filters(plan, &args, o->stream);
  start(plan, plan->cuda.function, &args, args.all_pairs, o->stream);
  start(plan, plan->cuda.sum, &args, falt_min(args.all_pairs, MOST_SUM_BLOCKS), o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const fft_plan *plan = (const fft_plan *)base;
  const falt_cuda_fft_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-fft tile=%dx%dx%d threads=%d shared=%lld", 1 << t->log[0], 1 << t->log[1], 1 << t->log[2],
                t->threads, (long long)t->shared_bytes);
  if (t->all_parts > 1)
    falt_text_add(text, " parts=%lldx%lldx%lld", (long long)t->parts[0], (long long)t->parts[1],
                  (long long)t->parts[2]);
  falt_text_add(text, "%s)", plan->wide ? " f64" : "");
}

static void destroy(falt_plan *base) {
  fft_plan *plan = (fft_plan *)base;
  falt_gpu_release(base->device->gpu, plan->twiddles);
  falt_gpu_release(base->device->gpu, plan->kept);
  falt_cuda_plan_destroy(base);
}

/* ---- applicable */

/* Sums of whole numbers are exact if transforms in f64 stay within a quarter of them. */
static bool is_whole(const falt_problem *p) {
  return falt_type_is_integer(p->input.type) && falt_type_is_integer(p->filter.type) &&
         p->boundary_value == rint(p->boundary_value);
}

static bool exact_enough(const falt_problem *p) {
  const double levels = 25;
  return !is_whole(p) || falt_problem_sum_bound(p) * 2 * levels * 0x1p-53 < 0.25;
}

/* Positions and offsets within a tile are counted in 32 bits, whole axes in 64. */
static bool small_steps(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 30;
  for (int i = 0; i < 3; i++)
    if (p->axis[i].stride >= most || p->axis[i].dilation >= most || p->filter.size[FALT_D + i] >= most) return false;
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

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool gradient = p->operation == FALT_BACKWARD_DATA;
  return p->operation != FALT_FORWARD && !gradient ? "it computes forward filters and dgrad only"
         : p->filter.size[FALT_C] != 1             ? "it sums over one channel only"
         : gradient && !is_plain_gradient(p)       ? "the gradient is not that of unit strides, one output and zeros"
         : !small_steps(p)                         ? "a stride, a dilation or a filter is longer than 2^30"
         : !exact_enough(p)                        ? "sums of these integers may be too large to be exact"
                                                   : NULL;
}

/* ---- arguments */

static int64_t stride_of(const falt_tensor *t, int dim) {
  return t->size[dim] == 1 ? 0 : t->stride[dim];
}

static bool one_filter(const falt_problem *p) {
  return p->filter.size[FALT_K] == 1 && (p->filter.size[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
}

static void set_axis(falt_cuda_fft_args *a, const falt_problem *p, int i) {
  const falt_tensor *x = falt_problem_factor(p, 0), *y = falt_problem_result(p), *w = &p->filter;
  const falt_axis *axis = &p->axis[i];
  const bool gradient = p->operation == FALT_BACKWARD_DATA;
  a->in[i] = x->size[FALT_D + i];
  a->out[i] = y->size[FALT_D + i];
  a->taps[i] = w->size[FALT_D + i];
  a->stride[i] = axis->stride;
  a->dilation[i] = a->taps[i] > 1 ? axis->dilation : 1;
  a->pad[i] = gradient ? (a->taps[i] - 1) * a->dilation[i] - axis->pad[0] : axis->pad[0];
  for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)axis->boundary[side];
  a->x_axis[i] = stride_of(x, FALT_D + i);
  a->y_axis[i] = stride_of(y, FALT_D + i);
  a->w_axis[i] = gradient ? -stride_of(w, FALT_D + i) : stride_of(w, FALT_D + i);
}

static void set_args(fft_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = falt_problem_factor(p, 0), *y = falt_problem_result(p), *w = &p->filter;
  falt_cuda_fft_args *a = &plan->args;
  *a = (falt_cuda_fft_args){.x_batch = {stride_of(x, FALT_N), stride_of(x, FALT_G)},
                            .y_batch = {stride_of(y, FALT_N), stride_of(y, FALT_G), stride_of(y, FALT_C)},
                            .w_batch = {stride_of(w, FALT_G), stride_of(w, FALT_K)},
                            .groups = (int)w->size[FALT_G],
                            .filters = (int)w->size[FALT_K],
                            .one_filter = one_filter(p),
                            .fill = p->operation == FALT_BACKWARD_DATA ? 0 : p->boundary_value,
                            .epilogue = falt_cuda_epilogue_of(p),
                            .residual = falt_cuda_tensor_of(&p->residual)};
  for (int i = 0; i < 3; i++) set_axis(a, p, i);
  a->images = p->input.size[FALT_N] * (a->one_filter ? w->size[FALT_G] : 1);
}

static void set_tile_args(fft_plan *plan) {
  falt_cuda_fft_args *a = &plan->args;
  const falt_cuda_fft_tile *t = &plan->tile;
  for (int i = 0; i < 3; i++) {
    a->part_taps[i] = t->part_taps[i];
    a->parts[i] = (int)t->parts[i];
    a->block[i] = t->block[i];
    a->tiles[i] = t->tiles[i];
  }
  a->boxes = t->boxes;
  a->pairs = (unsigned)t->pairs;
  a->all_pairs = (unsigned)(t->pairs * (a->one_filter ? 1 : (int64_t)a->groups * a->filters));
}

/* ---- ready */

static bool strided(const falt_cuda_fft_args *a) {
  return a->stride[0] > 1 || a->stride[1] > 1 || a->stride[2] > 1;
}

static falt_cuda_kernel kernel_of(const fft_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_cuda_fft_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {.source = "cuda_fft.cu", .shared_bytes = (int)t->shared_bytes};
  const falt_cuda_named_define defines[] = {{"LOG_Z", t->log[0]},
                                            {"LOG_Y", t->log[1]},
                                            {"LOG_X", t->log[2]},
                                            {"TYPE_X", falt_problem_factor(p, 0)->type},
                                            {"TYPE_Y", falt_problem_result(p)->type},
                                            {"TYPE_W", p->filter.type},
                                            {"PARTS", t->all_parts > 1},
                                            {"STRIDED", strided(&plan->args)},
                                            {"WHOLE", plan->whole},
                                            {"EPILOGUE", plan->epilogue},
                                            {"BLOCKS", t->blocks}};
  falt_cuda_defines(&kernel, defines, sizeof defines / sizeof *defines);
  falt_cuda_define(&kernel, "SUM=%s", plan->wide ? "double" : "float");
  return kernel;
}

static falt_status ready_kernels(fft_plan *plan) {
  falt_cuda_kernel kernel = kernel_of(plan);
  const struct {
    const char *entry;
    falt_cu_function *function;
  } entries[] = {{"falt_fft", &plan->cuda.function},
                 {"falt_fft_about", &plan->about},
                 {"falt_fft_spectrum", &plan->spectrum},
                 {"falt_fft_sums", &plan->cuda.sum}};
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    kernel.entry = entries[i].entry;
    if (entries[i].function == &plan->cuda.sum) kernel.shared_bytes = 0;
    FALT_TRY(falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, entries[i].function));
  }
  return FALT_OK;
}

static falt_status ready_twiddles(fft_plan *plan) {
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
static falt_status keep_spectra(fft_plan *plan) {
  const falt_device *device = plan->cuda.base.device;
  const size_t bytes = plan->spectra_at + (size_t)plan->tile.spectra_bytes;
  FALT_TRY(falt_gpu_allocate(device->gpu, &plan->kept, bytes));
  if (device->described) return FALT_OK;
  falt_cuda_fft_args args = args_of(plan, &(falt_operands){.filter = NULL});
  start_filters(plan, &args, NULL);
  FALT_TRY(falt_gpu_trouble());
  return falt_gpu_synchronize(device->gpu);
}

static falt_status ready(falt_plan *base) {
  fft_plan *plan = (fft_plan *)base;
  const bool known = plan->cuda.values != NULL;
  FALT_TRY(ready_kernels(plan));
  FALT_TRY(ready_twiddles(plan));
  FALT_TRY(falt_cuda_plan_keep_filter(&plan->cuda));
  return known ? keep_spectra(plan) : FALT_OK;
}

/* ---- plan */

static bool choose_tile(fft_plan *plan, const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const falt_cuda_fft_args *a = &plan->args;
  const falt_machine machine = falt_cuda_machine(ask->device);
  const falt_tensor *x = falt_problem_factor(p, 0), *y = falt_problem_result(p);
  falt_cuda_fft_problem problem = {.filters = a->one_filter ? 1 : (int64_t)a->groups * a->filters,
                                   .images = a->images,
                                   .real_bytes = plan->wide ? 8 : 4,
                                   .x_bytes = (int)falt_type_size(x->type),
                                   .y_bytes = (int)falt_type_size(y->type),
                                   .x_step = falt_max(1, llabs(a->x_axis[2])),
                                   .y_step = falt_max(1, llabs(a->y_axis[2])),
                                   .known = ask->filter_values != NULL,
                                   .far = plan->epilogue > 1,
                                   .most_bytes = ask->budget->max_workspace,
                                   .cache_bytes_per_s = ask->device->limits.cache_bytes_per_s};
  for (int i = 0; i < 3; i++) {
    problem.out[i] = a->out[i];
    problem.taps[i] = a->taps[i];
    problem.stride[i] = a->stride[i];
    problem.dilation[i] = a->dilation[i];
  }
  return falt_cuda_fft_choose(&problem, &machine, &plan->tile);
}

/* The workspace; or, of known filters, the memory that the plan keeps, which has no notes on tiles. */
static void lay_out(fft_plan *plan, bool known) {
  falt_memory_layout *layout = &plan->cuda.base.layout, kept = {0};
  falt_memory_layout *filters = known ? &kept : layout;
  const size_t count = plan->args.all_pairs / plan->args.pairs;
  plan->sums_at = falt_place_part(layout, plan->args.all_pairs);
  plan->about_at = falt_place_part(filters, count * sizeof(falt_cuda_fft_filter));
  plan->spectra_at = falt_place_part(filters, (size_t)plan->tile.spectra_bytes);
  plan->cuda.base.workspace = layout->total;
}

static int epilogue_of(const falt_problem *p) {
  if (falt_epilogue_is_identity(p)) return 0;
  return p->has_scale || p->has_bias || p->has_residual || p->activation != FALT_IDENTITY ? 2 : 1;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  fft_plan *plan = (fft_plan *)base;
  plan->whole = is_whole(ask->problem);
  plan->wide = plan->whole || !falt_problem_fits_f32(ask->problem);
  plan->epilogue = epilogue_of(ask->problem);
  set_args(plan);
  if (!choose_tile(plan, ask)) return plan->tile.rejected ? plan->tile.rejected : "no tile fits";
  set_tile_args(plan);
  lay_out(plan, ask->filter_values != NULL);
  base->cost.seconds = plan->tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {sizeof(fft_plan), {execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_fft;
const falt_solver falt_solver_cuda_fft = {
    .name = "cuda-fft", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .mixes = true};
