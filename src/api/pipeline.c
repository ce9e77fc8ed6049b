/* The pipeline of slabs through a device: copy in, compute and copy out overlap. */
#include "api/pipeline.h"

#include <pthread.h>
#include <string.h>

#include "api/parts.h"
#include "core/clock.h"
#include "core/copy.h"

/* Slab i uses slot i mod SLOTS: buffers on the device and pinned host memory (the caller's own memory if it is pinned).
 * Three queues work concurrently: one copies slab i + 1 in, one computes slab i, one copies slab i - 1 out. Marks keep
 * them in order within a slab. Meanwhile the host's threads copy the output out of slot i - SLOTS and fill the same
 * slot with slab i. Buffers stay with the device for the next call, unless they are unusually large. */

enum {
  SLOTS = 3,
  WANTED = 16 << 20, /* bytes of a slab, in and out: long against a launch, short against filling the first slot */
  CHUNK = 256 << 10, /* that one thread of the host copies at a time */
  KEPT = 64 << 20,   /* of one buffer */
  SHARE_OF_FREE = 4,
  REGION = 256 /* alignment of the residual behind the source */
};
enum { COPY_IN, COMPUTE, COPY_OUT, QUEUES };
enum { IN_BEGIN, IN_END, RUN_BEGIN, RUN_END, OUT_BEGIN, OUT_END, MARKS };
enum { FILTER, BIAS, SCALE, CONSTANTS };

typedef struct buffer {
  void *memory;
  int64_t bytes;
} buffer;

typedef struct slot {
  buffer here[2], there[2]; /* pinned, on the device; in, out */
  void *mark[MARKS];
  falt_slab slab;
  int64_t residual; /* offset of the residual behind the source */
  bool busy;
} slot;

struct falt_pipeline {
  pthread_mutex_t lock;
  void *queue[QUEUES];
  slot slots[SLOTS];
  buffer constant[CONSTANTS], workspace; /* on the device */
};

/* One call. */
typedef struct run {
  falt_pipeline *line;
  falt_device *device;
  const falt_device_queues *queues;
  const falt_plan *plan;
  const falt_slabs *slabs;
  falt_operands there; /* state of all slabs */
  char *source, *residual, *result;
  bool direct_in, direct_out; /* the caller's memory is pinned */
  falt_stages *stages;
} run;

/* ---- buffers */

static void release(falt_device *device, buffer *b, bool pinned) {
  if (b->memory && pinned) device->queues->unpin(device, b->memory);
  if (b->memory && !pinned) device->memory->release(device, b->memory);
  *b = (buffer){NULL, 0};
}

static falt_status provide(falt_device *device, buffer *b, bool pinned, int64_t bytes) {
  if (bytes <= b->bytes) return FALT_OK;
  release(device, b, pinned);
  const falt_status status = pinned ? device->queues->pin(device, &b->memory, (size_t)bytes)
                                    : device->memory->allocate(device, &b->memory, (size_t)bytes);
  if (status == FALT_OK) b->bytes = bytes;
  return status;
}

static void shrink(falt_device *device, falt_pipeline *line, int64_t most) {
  for (int i = 0; i < SLOTS; i++) {
    for (int side = 0; side < 2; side++) {
      if (line->slots[i].here[side].bytes > most) release(device, &line->slots[i].here[side], true);
      if (line->slots[i].there[side].bytes > most) release(device, &line->slots[i].there[side], false);
    }
  }
  for (int i = 0; i < CONSTANTS; i++)
    if (line->constant[i].bytes > most) release(device, &line->constant[i], false);
  if (line->workspace.bytes > most) release(device, &line->workspace, false);
}

void falt_pipeline_destroy(falt_device *device) {
  falt_pipeline *line = device->pipeline;
  if (!line) return;
  shrink(device, line, 0);
  for (int i = 0; i < SLOTS; i++)
    for (int m = 0; m < MARKS; m++)
      if (line->slots[i].mark[m]) device->queues->free_mark(device, line->slots[i].mark[m]);
  for (int i = 0; i < QUEUES; i++)
    if (line->queue[i]) device->queues->close(device, line->queue[i]);
  pthread_mutex_destroy(&line->lock);
  falt_free(line);
  device->pipeline = NULL;
}

/* The device's pipeline, created on first use. */
static falt_pipeline *pipeline_of(falt_device *device) {
  static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&making);
  if (!device->pipeline && (device->pipeline = falt_alloc_zero(sizeof *device->pipeline)))
    pthread_mutex_init(&device->pipeline->lock, NULL);
  falt_pipeline *line = device->pipeline;
  pthread_mutex_unlock(&making);
  return line;
}

static falt_status open_queues(falt_device *device, falt_pipeline *line) {
  for (int i = 0; i < QUEUES; i++)
    if (!line->queue[i]) FALT_TRY(device->queues->open(device, &line->queue[i]));
  for (int i = 0; i < SLOTS; i++)
    for (int m = 0; m < MARKS; m++)
      if (!line->slots[i].mark[m]) FALT_TRY(device->queues->make_mark(device, &line->slots[i].mark[m]));
  return FALT_OK;
}

/* ---- the cut */

bool falt_pipeline_cut(const falt_plan *plan, falt_slabs *slabs) {
  falt_device *device = plan->device;
  int64_t most = device->max_memory;
  size_t room;
  if (!device->queues || !plan->parts) return false;
  if (most <= 0 && device->queues->room(device, &room) != FALT_OK) return false;
  if (most <= 0) most = (int64_t)(room / SHARE_OF_FREE);
  most /= SLOTS;
  return falt_slabs_cut(slabs, &plan->problem, falt_min(WANTED, most), most);
}

/* ---- the host's copies */

typedef struct move {
  const falt_slab_rows *rows;
  char *here, *there;
  bool in;
  int64_t bytes, chunks;
} move;

typedef struct moves {
  move move[3];
  int count;
  int64_t chunks;
} moves;

static void add_move(moves *all, const falt_slab_rows *rows, char *here, char *there, bool in) {
  const int64_t bytes = falt_slab_moved(rows);
  if (!here || bytes == 0) return;
  all->move[all->count++] = (move){rows, here, there, in, bytes, falt_ceil_div(bytes, CHUNK)};
  all->chunks += falt_ceil_div(bytes, CHUNK);
}

static void copy_chunk(void *context, int64_t index) {
  const move *m = ((const moves *)context)->move;
  while (index >= m->chunks) index -= m++->chunks;
  const int64_t end = falt_min((index + 1) * CHUNK, m->bytes);
  for (int64_t at = index * CHUNK; at < end;) {
    const falt_slab_piece piece = falt_slab_next(m->rows, at, end);
    char *here = m->here + piece.here, *there = m->there + piece.there;
    falt_copy_stream(m->in ? there : here, m->in ? here : there, (size_t)piece.bytes);
    at += piece.bytes;
  }
}

/* ---- one slab */

static falt_status copy_pieces(const run *r, const falt_slab_rows *rows, char *here, char *there, bool in) {
  const int64_t end = falt_slab_moved(rows);
  for (int64_t at = 0; at < end;) {
    const falt_slab_piece piece = falt_slab_next(rows, at, end);
    if (in)
      FALT_TRY(r->queues->copy_in(r->device, there + piece.there, here + piece.here, (size_t)piece.bytes,
                                  r->line->queue[COPY_IN]));
    else
      FALT_TRY(r->queues->copy_out(r->device, here + piece.here, there + piece.there, (size_t)piece.bytes,
                                   r->line->queue[COPY_OUT]));
    at += piece.bytes;
  }
  return FALT_OK;
}

/* The source, and the residual behind it. */
static int64_t bytes_in(const slot *s) {
  return s->residual + falt_slab_bytes(&s->slab.residual);
}

static falt_status bring(const run *r, slot *s) {
  char *there = s->there[0].memory;
  if (r->direct_in) return copy_pieces(r, &s->slab.source, r->source, there, true);
  return r->queues->copy_in(r->device, there, s->here[0].memory, (size_t)bytes_in(s), r->line->queue[COPY_IN]);
}

static falt_status fetch(const run *r, slot *s) {
  const falt_slab_rows *rows = &s->slab.result;
  if (r->direct_out) return copy_pieces(r, rows, r->result, s->there[1].memory, false);
  const int64_t skipped = rows->skip * rows->there_pitch;
  return r->queues->copy_out(r->device, (char *)s->here[1].memory + skipped, (char *)s->there[1].memory + skipped,
                             (size_t)(falt_slab_bytes(rows) - skipped), r->line->queue[COPY_OUT]);
}

static falt_status compute(const run *r, const slot *s) {
  const falt_plan *part;
  falt_operands there = r->there;
  FALT_TRY(falt_parts_plan(r->plan, &s->slab.problem, &part));
  void **source = r->slabs->goes_back ? &there.output : &there.input;
  void **result = r->slabs->goes_back ? &there.input : &there.output;
  *source = s->there[0].memory;
  *result = s->there[1].memory;
  if (r->plan->problem.has_residual) there.residual = (char *)s->there[0].memory + s->residual;
  if (part->workspace) FALT_TRY(provide(r->device, &r->line->workspace, false, (int64_t)part->workspace));
  there.workspace = r->line->workspace.memory;
  return falt_execute(part, &there);
}

/* Puts a filled slot's work into the queues. */
static falt_status start(const run *r, slot *s) {
  const falt_device_queues *q = r->queues;
  void *const *queue = r->line->queue;
  FALT_TRY(q->mark(r->device, s->mark[IN_BEGIN], queue[COPY_IN]));
  FALT_TRY(bring(r, s));
  FALT_TRY(q->mark(r->device, s->mark[IN_END], queue[COPY_IN]));
  FALT_TRY(q->follow(r->device, queue[COMPUTE], s->mark[IN_END]));
  FALT_TRY(q->mark(r->device, s->mark[RUN_BEGIN], queue[COMPUTE]));
  FALT_TRY(compute(r, s));
  FALT_TRY(q->mark(r->device, s->mark[RUN_END], queue[COMPUTE]));
  FALT_TRY(q->follow(r->device, queue[COPY_OUT], s->mark[RUN_END]));
  FALT_TRY(q->mark(r->device, s->mark[OUT_BEGIN], queue[COPY_OUT]));
  FALT_TRY(fetch(r, s));
  return q->mark(r->device, s->mark[OUT_END], queue[COPY_OUT]);
}

static void account(const run *r, const slot *s) {
  const falt_device_queues *q = r->queues;
  falt_stages *t = r->stages;
  t->copy_in += q->between(r->device, s->mark[IN_BEGIN], s->mark[IN_END]);
  t->compute += q->between(r->device, s->mark[RUN_BEGIN], s->mark[RUN_END]);
  t->copy_out += q->between(r->device, s->mark[OUT_BEGIN], s->mark[OUT_END]);
  t->bytes_in += (double)falt_slab_moved(&s->slab.source) + (double)falt_slab_moved(&s->slab.residual);
  t->bytes_out += (double)falt_slab_moved(&s->slab.result);
  t->slabs++;
}

static falt_status prepare(const run *r, slot *s, const falt_slab *slab) {
  s->slab = *slab;
  s->residual =
      slab->residual.count ? falt_round_up(falt_slab_bytes(&slab->source), REGION) : falt_slab_bytes(&slab->source);
  const int64_t in = bytes_in(s), out = falt_slab_bytes(&slab->result);
  FALT_TRY(provide(r->device, &s->there[0], false, in));
  FALT_TRY(provide(r->device, &s->there[1], false, out));
  if (!r->direct_in) FALT_TRY(provide(r->device, &s->here[0], true, in));
  if (!r->direct_out) FALT_TRY(provide(r->device, &s->here[1], true, out));
  return FALT_OK;
}

/* Carries the results of the slot's last slab away and, unless it was the last, begins with the slab `index`. */
static falt_status advance(const run *r, int64_t index) {
  slot *s = &r->line->slots[index % SLOTS];
  const bool drains = s->busy, fills = index < r->slabs->count;
  const falt_slab_rows drained = s->slab.result;
  moves all = {.count = 0};
  falt_slab slab;
  if (drains) {
    FALT_TRY(r->queues->wait(r->device, s->mark[OUT_END]));
    account(r, s);
    if (!r->direct_out) add_move(&all, &drained, r->result, s->here[1].memory, false);
    s->busy = false;
  }
  if (fills) {
    FALT_TRY(falt_slab_describe(r->slabs, index, &slab));
    FALT_TRY(prepare(r, s, &slab));
    if (!r->direct_in) add_move(&all, &s->slab.source, r->source, s->here[0].memory, true);
    if (!r->direct_in && r->residual)
      add_move(&all, &s->slab.residual, r->residual, (char *)s->here[0].memory + s->residual, true);
  }
  const double began = falt_seconds();
  falt_parallel_for(r->device->threads, all.chunks, copy_chunk, &all);
  r->stages->staging += falt_seconds() - began;
  s->busy = fills;
  return fills ? start(r, s) : FALT_OK;
}

/* ---- all slabs */

static falt_status bring_constant(run *r, int which, const void *here, int64_t bytes, void **there) {
  buffer *b = &r->line->constant[which];
  if (!here) return FALT_OK;
  FALT_TRY(provide(r->device, b, false, bytes));
  *there = b->memory;
  return r->queues->copy_in(r->device, b->memory, here, (size_t)bytes, r->line->queue[COPY_IN]);
}

static falt_status bring_constants(run *r, const falt_operands *here) {
  const falt_problem *p = &r->plan->problem;
  const int64_t vector =
      p->filter.size[FALT_G] * p->filter.size[FALT_K] * (int64_t)falt_type_size(falt_type_real(p->output.type));
  if (!r->plan->packed && !falt_is_pooling(p->operation))
    FALT_TRY(bring_constant(r, FILTER, here->filter,
                            falt_problem_filter_elements(p) * (int64_t)falt_type_size(p->filter.type),
                            &r->there.filter));
  if (p->has_bias) FALT_TRY(bring_constant(r, BIAS, here->bias, vector, &r->there.bias));
  if (p->has_scale) FALT_TRY(bring_constant(r, SCALE, here->scale, vector, &r->there.scale));
  return FALT_OK;
}

/* Whether copies can reach all rows of the caller's array directly, and by large pieces. */
static bool reaches(const run *r, const falt_slab_rows *rows, const char *array) {
  return rows->here_pitch == rows->row_bytes && r->queues->pinned(r->device, array + rows->here) &&
         r->queues->pinned(r->device, array + rows->here + rows->size * rows->here_pitch - 1);
}

static falt_status run_slabs(run *r, const falt_operands *operands) {
  falt_slab first;
  const falt_plan *part;
  FALT_TRY(falt_slab_describe(r->slabs, 0, &first));
  FALT_TRY(falt_parts_plan(r->plan, &first.problem, &part)); /* before anything is written */
  r->direct_in = !r->residual && reaches(r, &first.source, r->source);
  r->direct_out = reaches(r, &first.result, r->result);
  FALT_TRY(open_queues(r->device, r->line));
  r->there.stream = r->line->queue[COMPUTE];
  FALT_TRY(bring_constants(r, operands));
  const int64_t steps = r->slabs->count + SLOTS;
  for (int64_t i = 0; i < steps && !falt_cancelled(); i++) {
    const falt_progress_range all = falt_progress_enter((double)i / (double)steps, (double)(i + 1) / (double)steps);
    const falt_status status = advance(r, i);
    falt_progress_leave(all);
    FALT_TRY(status);
  }
  return falt_cancelled() ? FALT_CANCELLED : FALT_OK;
}

falt_status falt_pipeline_run(const falt_plan *plan, const falt_slabs *slabs, const falt_operands *operands,
                              falt_stages *stages) {
  falt_device *device = plan->device;
  run r = {.line = pipeline_of(device),
           .device = device,
           .queues = device->queues,
           .plan = plan,
           .slabs = slabs,
           .source = slabs->goes_back ? operands->output : operands->input,
           .residual = plan->problem.has_residual ? operands->residual : NULL,
           .result = slabs->goes_back ? operands->input : operands->output,
           .stages = stages};
  if (!r.line) return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  pthread_mutex_lock(&r.line->lock);
  const falt_status status = run_slabs(&r, operands);
  if (status != FALT_OK) device->memory->synchronize(device); /* nothing may touch the buffers any more */
  for (int i = 0; i < SLOTS; i++) r.line->slots[i].busy = false;
  shrink(device, r.line, KEPT);
  pthread_mutex_unlock(&r.line->lock);
  return status;
}
