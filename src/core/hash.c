/* FNV-1a (Fowler, Noll, Vo), 64 bit: for each byte, hash = (hash xor byte) * prime. */
#include "core/hash.h"

uint64_t falt_hash(uint64_t hash, const void *data, size_t size) {
  const unsigned char *byte = data;
  for (size_t i = 0; i < size; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
  return hash;
}
