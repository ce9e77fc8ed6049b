/* Streams and events of a GPU: copies concurrent with kernels, and timing. */
#include <time.h>

#include "cuda/gpu_context.h"

/* ---- streams and events */

falt_status falt_gpu_stream(falt_gpu *gpu, void **stream) {
  falt_cu_stream made = NULL;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->stream_create(&made, FALT_CU_STREAM_NON_BLOCKING);
  *stream = made;
  return falt_gpu_finish(gpu, v, error, "cuda: making a stream");
}

void falt_gpu_stream_close(falt_gpu *gpu, void *stream) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (!v.error) gpu->driver->stream_destroy(stream);
  falt_gpu_leave(gpu, v);
}

falt_status falt_gpu_event(falt_gpu *gpu, void **event) {
  falt_cu_event made = NULL;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->event_create(&made, 0);
  *event = made;
  return falt_gpu_finish(gpu, v, error, "cuda: making an event");
}

void falt_gpu_event_close(falt_gpu *gpu, void *event) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (!v.error) gpu->driver->event_destroy(event);
  falt_gpu_leave(gpu, v);
}

falt_status falt_gpu_send(falt_gpu *gpu, void *to, const void *from, size_t bytes, void *stream) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->send(falt_gpu_address(to), from, bytes, stream);
  return falt_gpu_finish(gpu, v, error, "cuda: copying to the device");
}

falt_status falt_gpu_receive(falt_gpu *gpu, void *to, const void *from, size_t bytes, void *stream) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->receive(to, falt_gpu_address(from), bytes, stream);
  return falt_gpu_finish(gpu, v, error, "cuda: copying from the device");
}

falt_status falt_gpu_record(falt_gpu *gpu, void *event, void *stream) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->event_record(event, stream);
  return falt_gpu_finish(gpu, v, error, "cuda: recording an event");
}

falt_status falt_gpu_follow(falt_gpu *gpu, void *stream, void *event) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->stream_follow(stream, event, 0);
  return falt_gpu_finish(gpu, v, error, "cuda: ordering streams");
}

falt_status falt_gpu_wait(falt_gpu *gpu, void *event) {
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  const int error = v.error ? 0 : gpu->driver->event_synchronize(event);
  return falt_gpu_finish(gpu, v, error, "cuda: waiting for the device");
}

double falt_gpu_between(falt_gpu *gpu, void *begin, void *end) {
  float milliseconds = 0;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  if (!v.error && gpu->driver->event_elapsed(&milliseconds, begin, end)) milliseconds = 0;
  falt_gpu_leave(gpu, v);
  return 1e-3 * (double)milliseconds;
}

/* ---- time */

/* Longer than the host takes to start a kernel; never longer than a blink. */
static const double start_seconds = 5e-6, longest_head_start = 5e-3;

static void sleep_on_stream(void *nanoseconds) {
  nanosleep(&(struct timespec){.tv_nsec = (long)(intptr_t)nanoseconds}, NULL);
}

/* With the context current: the stream sleeps while the host queues the work to be timed. */
static int time_between(const falt_cuda_driver *cu, falt_cu_event event[2], falt_cu_stream stream,
                        void (*body)(void *context), void *context, long iterations, float *milliseconds) {
  const double wanted = start_seconds * (double)(iterations + 10);
  const double seconds = wanted < longest_head_start ? wanted : longest_head_start;
  int error = cu->launch_host(stream, sleep_on_stream, (void *)(intptr_t)(1e9 * seconds));
  if (!error) error = cu->event_record(event[0], stream);
  for (long i = 0; i < iterations && !error; i++) body(context);
  if (!error) error = cu->event_record(event[1], stream);
  if (!error) error = cu->event_synchronize(event[1]);
  return error ? error : cu->event_elapsed(milliseconds, event[0], event[1]);
}

double falt_gpu_time(falt_gpu *gpu, void *stream, void (*body)(void *context), void *context, long iterations) {
  const falt_cuda_driver *cu = gpu->driver;
  falt_cu_event event[2] = {NULL, NULL};
  float milliseconds = -1;
  int captures = 0;
  const falt_gpu_visit v = falt_gpu_enter(gpu);
  int error = v.error ? v.error : cu->stream_captures(stream, &captures);
  if (!error && captures) error = -1; /* captured work does not run yet */
  if (!error) error = cu->event_create(&event[0], 0);
  if (!error) error = cu->event_create(&event[1], 0);
  if (!error) error = time_between(cu, event, stream, body, context, iterations, &milliseconds);
  for (int i = 0; i < 2; i++)
    if (event[i]) cu->event_destroy(event[i]);
  falt_gpu_leave(gpu, v);
  return error ? -1 : 1e-3 * (double)milliseconds;
}
