/* Prepares and executes plans of cuda-igemm. */
#include "core/memory.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/igemm_sm80/cuda_igemm.h"

enum { VECTOR = FALT_IGEMM_VECTOR };

/* ---- execute */

static void start_pack(const falt_plan *base, const void *from, void *to, void *stream) {
  const falt_igemm_plan *plan = (const falt_igemm_plan *)base;
  falt_cuda_igemm_pack_args args = plan->pack_args;
  args.w = from;
  args.b = to;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {plan->pack, plan->pack_blocks, {256, 1}, 0, stream};
  const int blocks_yz[2] = {plan->groups, plan->polyphases};
  falt_gpu_start_grid(plan->cuda.base.device->gpu, &launch, blocks_yz, 1, parameters);
}

static void start_sum(const falt_igemm_plan *plan, void **parameters, void *stream) {
  const int64_t results = (int64_t)plan->args.polyphase.pixels * plan->args.channels;
  const falt_gpu_launch launch = {plan->cuda.sum, falt_ceil_div(results, 256), {256, 1}, 0, stream};
  const int blocks_yz[2] = {plan->groups, 1};
  falt_gpu_start_early(plan->cuda.base.device->gpu, &launch, blocks_yz, parameters);
}

void falt_igemm_execute(const falt_plan *base, const falt_operands *o) {
  const falt_igemm_plan *plan = (const falt_igemm_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_igemm_roles r = falt_igemm_roles_of(p);
  falt_cuda_igemm_args args = plan->args;
  args.source.data = falt_cuda_element(falt_factor_data(p->operation, o, 0), r.source);
  args.y = falt_cuda_element(falt_result_data(p->operation, o), r.result);
  args.b = plan->cuda.filter ? plan->cuda.filter : o->workspace;
  args.b_known = plan->cuda.filter != NULL;
  args.source.aligned = (uintptr_t)args.source.data % (uintptr_t)plan->piece.unit == 0;
  args.y_aligned = plan->y_aligned && (uintptr_t)args.y % VECTOR == 0;
  if (p->has_residual) args.residual = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  if (plan->tile.split_k > 1) args.partial = (char *)o->workspace + plan->partial_at;
  if (!plan->cuda.filter) start_pack(base, falt_cuda_element(o->filter, &p->filter), o->workspace, o->stream);
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {plan->cuda.function,
                                  plan->blocks,
                                  {32 * plan->tile.warps[0] * plan->tile.warps[1], 1},
                                  plan->tile.shared_bytes,
                                  o->stream};
  const int blocks_yz[2] = {plan->tile.split_k, plan->polyphases};
  falt_gpu_start_early(base->device->gpu, &launch, blocks_yz, parameters);
  if (plan->tile.split_k > 1) start_sum(plan, parameters, o->stream);
}

/* ---- ready */

static bool fills(const falt_problem *p) {
  return p->operation == FALT_FORWARD && p->boundary_value != 0;
}

static bool fill_table(const falt_igemm_plan *plan, const falt_igemm_roles *r, const falt_cuda_igemm_polyphase *device,
                       char *table) {
  falt_igemm_depth depth = falt_igemm_depth_of(plan, r);
  for (int i = 0; i < plan->polyphases; i++) {
    depth.entries = (int64_t)device[i].steps * falt_igemm_step_pieces(plan);
    falt_cuda_igemm_place *places = (falt_cuda_igemm_place *)(void *)table + device[i].table;
    falt_cuda_igemm_entry *entries = (falt_cuda_igemm_entry *)(void *)table + device[i].table;
    if (!(plan->fold    ? falt_igemm_places(&depth, plan->polyphase[i], places)
          : plan->spans ? falt_igemm_spans(&depth, plan->polyphase[i], device[i].lead, entries)
                        : falt_igemm_entries(&depth, plan->polyphase[i], entries)))
      return false;
  }
  return true;
}

/* The constant, polyphase parts and table, in one piece of the GPU's memory. */
static falt_status upload_tables(falt_igemm_plan *plan, const falt_igemm_roles *r) {
  const double constant = plan->cuda.base.problem.boundary_value;
  int64_t entries, bytes;
  falt_igemm_place_polyphases(plan, r, NULL, &entries, &bytes);
  const size_t polyphases_at = VECTOR, polyphase_bytes = (size_t)plan->polyphases * sizeof(falt_cuda_igemm_polyphase);
  const size_t table_at = (size_t)falt_round_up((int64_t)(polyphases_at + polyphase_bytes), VECTOR);
  const size_t all = table_at + (size_t)(entries + falt_igemm_step_pieces(plan)) *
                                    /* a step more is read than used */ (plan->fold ? sizeof(falt_cuda_igemm_place)
                                                                                    : sizeof(falt_cuda_igemm_entry));
  char *host = falt_alloc_zero(all);
  if (!host) return falt_fail(FALT_NO_MEMORY, "cuda-igemm: memory ran out");
  falt_cuda_igemm_polyphase *device = (falt_cuda_igemm_polyphase *)(void *)(host + polyphases_at);
  falt_igemm_place_polyphases(plan, r, device, &entries, &bytes);
  for (int64_t i = 0; i < VECTOR / falt_igemm_size_of(r->source); i++) falt_store(host, r->source->type, i, constant);
  const falt_status status = fill_table(plan, r, device, host + table_at)
                                 ? falt_cuda_upload(plan->cuda.base.device->gpu, &plan->cuda.memory, host, all)
                                 : falt_fail(FALT_NO_SOLVER, "cuda-igemm: a window is larger than 2 GB");
  plan->args.polyphase = plan->pack_args.polyphase = device[0];
  falt_free(host);
  if (status != FALT_OK) return status;
  char *memory = plan->cuda.memory;
  plan->args.source.fill = memory;
  plan->args.source.table = memory + table_at;
  if (plan->polyphases > 1)
    plan->args.polyphases = plan->pack_args.polyphases =
        (const falt_cuda_igemm_polyphase *)(void *)(memory + polyphases_at);
  return FALT_OK;
}

static void add_defines(const falt_igemm_plan *plan, const falt_igemm_roles *r, falt_cuda_kernel *kernel) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_igemm_tile *t = &plan->tile;
  falt_cuda_define(kernel, "KIND=%s", falt_cuda_products(r->source->type, p->filter.type));
  falt_cuda_define(kernel, "SPLIT=%d", plan->split);
  falt_cuda_define(kernel, "WGMMA=%d", t->wgmma);
  falt_cuda_define(kernel, "TYPE_X=%d", (int)r->source->type);
  falt_cuda_define(kernel, "BM=%d", t->bm);
  falt_cuda_define(kernel, "BN=%d", t->bn);
  falt_cuda_define(kernel, "WARPS_M=%d", t->warps[0]);
  falt_cuda_define(kernel, "WARPS_N=%d", t->warps[1]);
  falt_cuda_define(kernel, "ROW=%d", t->row);
  falt_cuda_define(kernel, "STAGES=%d", t->stages);
  falt_cuda_define(kernel, "UNIT=%d", plan->piece.unit);
  falt_cuda_define(kernel, "GATHER=%d", plan->piece.gather);
  falt_cuda_define(kernel, "FOLD=%d", plan->fold);
  falt_cuda_define(kernel, "FILL=%d", fills(p));
  falt_cuda_define(kernel, "ONES=0");
  falt_cuda_define(kernel, "SPANS=%d", plan->spans);
  falt_cuda_define(kernel, "GROUP_BYTES=%d",
                   plan->merged > 1 ? (int)(r->source->size[FALT_C] * falt_igemm_size_of(r->source)) : 0);
  falt_cuda_define(kernel, "GROUP_ROWS=%d", (int)(plan->merged > 1 ? r->result->size[FALT_C] : 0));
  falt_cuda_define(kernel, "POLYPHASES=%d", plan->polyphases > 1);
  falt_cuda_define(kernel, "SPLIT_K=%d", t->split_k > 1);
  falt_cuda_define(kernel, "PROMOTE=%d", t->promote);
  falt_cuda_define(kernel, "PLANAR=%d", plan->planar);
  falt_cuda_define(kernel, "RAGGED=%d", !plan->planar && !plan->y_aligned && plan->args.channels >= FALT_IGEMM_RAGGED);
  falt_cuda_define(kernel, "BLOCKS=%d", t->blocks);
  falt_igemm_result_defines(p, r->result->type, kernel);
}

static falt_status ready_sum(falt_igemm_plan *plan, const falt_igemm_roles *r) {
  falt_cuda_kernel kernel = {.source = "cuda_igemm_sum.cu", .entry = "falt_igemm_sum"};
  falt_cuda_define(&kernel, "SUM=%s", falt_cuda_types[falt_type_accumulator(r->source->type)].element);
  falt_igemm_result_defines(&plan->cuda.base.problem, r->result->type, &kernel);
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &plan->cuda.sum);
}

falt_status falt_igemm_ready(falt_plan *base) {
  falt_igemm_plan *plan = (falt_igemm_plan *)base;
  const falt_igemm_roles r = falt_igemm_roles_of(&base->problem);
  falt_cuda_kernel kernel = {.source = "cuda_igemm.cu", .entry = "falt_igemm", .shared_bytes = plan->tile.shared_bytes};
  falt_cuda_kernel pack = {.source = "cuda_igemm_pack.cu", .entry = "falt_igemm_pack"};
  add_defines(plan, &r, &kernel);
  falt_cuda_define(&pack, "ELEMENT=%s", falt_cuda_bits(falt_type_size(r.source->type)));
  FALT_TRY(falt_gpu_kernel(base->device->gpu, &kernel, &plan->cuda.function));
  FALT_TRY(falt_gpu_kernel(base->device->gpu, &pack, &plan->pack));
  if (plan->tile.split_k > 1) FALT_TRY(ready_sum(plan, &r));
  FALT_TRY(upload_tables(plan, &r));
  FALT_TRY(falt_cuda_plan_pack_filter(&plan->cuda, plan->filter_bytes, start_pack));
  falt_free(plan->polyphase);
  plan->polyphase = NULL;
  return FALT_OK;
}
