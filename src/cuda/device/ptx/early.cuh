// Programmatic dependent launch (PDL): a kernel starts before the preceding kernel in its stream has ended.
#pragma once

// Until all that is ahead has ended and what it wrote can be seen: every thread, before it reads or writes anything but
// its parameters and shared memory. Then the next kernel's blocks may come as well, to wait in their turn.
__device__ inline void await_ahead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void await_stream() {
  await_ahead();
  let_next_start();
}

// The same, after `known` was found: the compiler would put that off.
__device__ inline void await_stream_knowing(long long known) {
  if (known != (long long)(1ull << 63)) await_stream();
}

// Kernels of one execution that need nothing of each other run side by side: all but the first, which has awaited the
// stream before it let the next start, wait at their end only. So the last one to end has seen all others end.
__device__ inline void begin_beside(bool first) {
  if (first)
    await_stream();
  else
    let_next_start();
}

__device__ inline void end_beside(bool first) {
  if (!first) await_ahead();
}
