// Kernels that start before the one ahead of them in their stream has ended ("programmatic dependent launch").
#pragma once

// Until all that is ahead has ended and what it wrote can be seen: every thread, before it reads or writes anything but
// its parameters and shared memory. Then the next kernel's blocks may come as well, to wait in their turn.
__device__ inline void await_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
