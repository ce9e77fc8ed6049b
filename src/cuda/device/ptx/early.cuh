// Programmatic dependent launch (PDL): a kernel starts before the preceding kernel in its stream has ended.
#pragma once

// Waits until the preceding kernels have ended and their writes are visible. Every thread calls it before it accesses
// anything except its parameters and shared memory. Then lets the next kernel's blocks launch.
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

// For kernels of one execution that do not depend on each other and run concurrently. All except the first, which has
// waited for the stream before it let the next one launch, wait at their end only. So the last one to end has seen all
// others end.
__device__ inline void begin_beside(bool first) {
  if (first)
    await_stream();
  else
    let_next_start();
}

__device__ inline void end_beside(bool first) {
  if (!first) await_ahead();
}
