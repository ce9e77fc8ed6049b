/* Checks of the operands of an execution. The strides' part is prepared with the plan (problem/overlap.h): an execution
 * compares the distances of addresses, and searches only if address ranges overlap. */
#include "planner/operands.h"

#include <string.h>

#include "core/memory.h"
#include "problem/overlap.h"

static const char *const names[FALT_ADDRESSES] = {"input", "filter",   "output",   "bias",
                                                  "scale", "residual", "workspace"};

/* ---- which are used */

void falt_operands_use(const falt_plan *plan, falt_use all[FALT_ADDRESSES]) {
  const falt_problem *p = &plan->problem;
  const unsigned written = falt_operands_written(p) | 1u << FALT_WORKSPACE;
  unsigned used = falt_operands_used(p) | (unsigned)(plan->workspace > 0) << FALT_WORKSPACE;
  if (plan->packed && falt_reads_filter(p->operation)) used &= ~(1u << FALT_FILTER);
  for (falt_operand i = 0; i < FALT_OPERANDS; i++) all[i].tensor = falt_operand_tensor(p, i);
  all[FALT_WORKSPACE].tensor =
      (falt_tensor){.type = FALT_U8, .size = {1, 1, (int64_t)plan->workspace, 1, 1, 1}, .stride = {0, 0, 1, 0, 0, 0}};
  for (int i = 0; i < FALT_ADDRESSES; i++) {
    all[i].used = used >> i & 1;
    all[i].written = used & written & 1u << i;
  }
}

size_t falt_use_bytes(const falt_use *use) {
  return use->used ? (size_t)falt_tensor_span(&use->tensor) * falt_type_size(use->tensor.type) : 0;
}

size_t falt_plan_bytes(const falt_plan *plan, const char *operand) {
  falt_use all[FALT_ADDRESSES];
  const int which = operand ? falt_find_name(operand, strlen(operand), names, FALT_OPERANDS) : -1;
  if (which < 0) return SIZE_MAX;
  if (!plan) return 0;
  falt_operands_use(plan, all);
  return falt_use_bytes(&all[which]);
}

/* ---- operands that must not overlap */

typedef struct pair {
  int64_t first, last; /* address distances at which the spans overlap */
  int one, other;
  bool may_coincide; /* element by element: a sum in place */
} pair;

enum { PAIRS = FALT_ADDRESSES * (FALT_ADDRESSES - 1) / 2 };

struct falt_plan_operands {
  int used[FALT_ADDRESSES], uses, pairs;
  pair pair[PAIRS];
  falt_overlap overlap[]; /* of each pair */
};

/* The same elements in the same order, from the same address on. */
static bool coincide(const falt_tensor *a, const falt_tensor *b) {
  bool same = a->type == b->type && a->offset == b->offset;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    same &= a->size[dim] == b->size[dim] && (a->size[dim] == 1 || a->stride[dim] == b->stride[dim]);
  return same;
}

static void add_pair(falt_plan_operands *kept, const falt_use all[FALT_ADDRESSES], int one, int other) {
  falt_overlap *overlap = &kept->overlap[kept->pairs];
  pair *p = &kept->pair[kept->pairs];
  if (!falt_overlap_prepare(overlap, &all[one].tensor, &all[other].tensor)) return; /* no memory holds them */
  *p = (pair){.one = one, .other = other};
  p->may_coincide = one == FALT_OUTPUT && other == FALT_RESIDUAL && all[one].written && !all[other].written &&
                    coincide(&all[one].tensor, &all[other].tensor);
  falt_overlap_spans(overlap, &p->first, &p->last);
  kept->pairs++;
}

falt_status falt_operands_keep(falt_plan *plan) {
  falt_use all[FALT_ADDRESSES];
  if (plan->operands) return FALT_OK;
  falt_operands_use(plan, all);
  falt_plan_operands *kept = falt_alloc_zero(sizeof *kept + PAIRS * sizeof kept->overlap[0]);
  if (!kept) return falt_fail(FALT_NO_MEMORY, "plan: memory ran out");
  for (int i = 0; i < FALT_ADDRESSES; i++) {
    if (!all[i].used) continue;
    kept->used[kept->uses++] = i;
    for (int j = i + 1; j < FALT_ADDRESSES; j++)
      if (all[j].used && (all[i].written || all[j].written)) add_pair(kept, all, i, j);
  }
  plan->operands = kept;
  return FALT_OK;
}

/* ---- an execution's */

static falt_status check_address(const falt_plan *plan, int which, const void *address) {
  const falt_device *device = plan->device;
  const falt_device_memory *memory = device->memory;
  if (which == FALT_WORKSPACE && !address)
    return falt_fail(FALT_INVALID_ARGUMENT, "operands.workspace: NULL; the plan needs %zu bytes", plan->workspace);
  if (!address) return falt_fail(FALT_INVALID_ARGUMENT, "operands.%s: NULL; the plan reads or writes it", names[which]);
  if (which == FALT_WORKSPACE && (uintptr_t)address % FALT_ALIGN)
    return falt_fail(FALT_INVALID_ARGUMENT, "operands.workspace: not aligned; align it to %d bytes", FALT_ALIGN);
  if (!memory || !memory->reaches || memory->reaches(plan->device, address)) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT,
                   "operands.%s: not in the memory of %s; allocate it there, or use falt_execute_host", names[which],
                   device->name);
}

static falt_status shared(const pair *p) {
  if (p->other == FALT_WORKSPACE)
    return falt_fail(FALT_INVALID_ARGUMENT, "operands.workspace: overlaps operands.%s; give it memory of its own",
                     names[p->one]);
  if (p->one == FALT_OUTPUT && p->other == FALT_RESIDUAL)
    return falt_fail(FALT_INVALID_ARGUMENT,
                     "operands.output: shares elements with operands.residual; use the same address, order and type, "
                     "or memory of its own");
  return falt_fail(FALT_INVALID_ARGUMENT,
                   "operands.%s: shares elements with operands.%s, and one of them is written; "
                   "give it memory of its own",
                   names[p->one], names[p->other]);
}

falt_status falt_operands_check(const falt_plan *plan, const falt_operands *o, bool on_device) {
  const void *const at[FALT_ADDRESSES] = {o->input, o->filter, o->output, o->bias, o->scale, o->residual, o->workspace};
  const falt_plan_operands *kept = plan->operands;
  for (int i = 0; i < kept->uses; i++) {
    const int which = kept->used[i];
    if (on_device)
      FALT_TRY(check_address(plan, which, at[which]));
    else if (which != FALT_WORKSPACE && !at[which])
      return falt_fail(FALT_INVALID_ARGUMENT, "operands.%s: NULL; the plan reads or writes it", names[which]);
  }
  for (int i = 0; i < kept->pairs; i++) {
    const pair *p = &kept->pair[i];
    const int64_t distance = (int64_t)((uintptr_t)at[p->other] - (uintptr_t)at[p->one]);
    if (distance < p->first || distance > p->last) continue;
    if (p->may_coincide && distance == 0) continue;
    if (!on_device && p->other == FALT_WORKSPACE) continue;
    if (falt_overlap_at(&kept->overlap[i], distance)) return shared(p);
  }
  return FALT_OK;
}
