// What instructions that work on shared memory call a place in it.
#pragma once

__device__ inline unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
