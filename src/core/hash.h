/* FNV-1a, 64 bit, for problems and solver sets. Not for adversarial input. */
#ifndef FALT_CORE_HASH_H
#define FALT_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define FALT_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t falt_hash(uint64_t hash, const void *data, size_t size);

#endif
