// Shared memory addresses as PTX instructions take them.
#pragma once

__device__ inline unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
