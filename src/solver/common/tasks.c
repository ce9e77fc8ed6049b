/* The task queue of CPU plans: scratch for each worker, then one share of the tasks for each. */
#include "solver/common/tasks.h"

#include "core/shares.h"

/* In the workspace, after all scratch. */
typedef struct queue {
  const falt_row_job *job;
  char *scratch;
  size_t pitch;
  int64_t workers;
  falt_share share[]; /* of each worker */
} queue;

static size_t scratch_pitch(size_t scratch) {
  return (scratch + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
}

static size_t queue_bytes(const falt_device *device) {
  return sizeof(queue) + (size_t)falt_threads_count(device->threads) * sizeof(falt_share);
}

void falt_rows_place(falt_memory_layout *layout, const falt_device *device, const falt_memory_layout *scratch) {
  falt_place_each(layout, falt_threads_count(device->threads), scratch);
  falt_place_part(layout, queue_bytes(device));
}

size_t falt_rows_place_whole(falt_memory_layout *layout, const falt_device *device, falt_memory_layout *scratch,
                             size_t bytes) {
  *scratch = *layout = (falt_memory_layout){0};
  falt_place_part(scratch, bytes);
  falt_rows_place(layout, device, scratch);
  return layout->total;
}

static void work(void *context, int64_t worker) {
  queue *q = context;
  void *scratch = q->scratch + (size_t)worker * q->pitch;
  falt_taker taker = falt_taker_of(q->share, q->workers, worker);
  for (int64_t task; !falt_cancelled() && falt_take(&taker, &task);) {
    q->job->run(q->job->context, task, scratch);
    if (falt_progress_due())
      falt_progress_at((double)falt_shares_taken(q->share, q->workers, q->job->tasks) / (double)q->job->tasks);
  }
}

void falt_rows_run(const falt_device *device, const falt_row_job *job, void *workspace) {
  const size_t pitch = scratch_pitch(job->scratch);
  queue *q = (queue *)(void *)((char *)workspace + (size_t)falt_threads_count(device->threads) * pitch);
  if (job->tasks < 1) return;
  q->job = job;
  q->workers = falt_min(falt_threads_count(device->threads), job->tasks);
  q->scratch = workspace;
  q->pitch = pitch;
  falt_shares_cut(q->share, q->workers, job->tasks);
  falt_parallel_for(device->threads, q->workers, work, q);
}
