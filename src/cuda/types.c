/* The table of element types for CUDA, its tensor cores and its libraries. */
#include "cuda/types.h"

#define NONE FALT_CUDA_NONE
const falt_cuda_type falt_cuda_types[] = {
    [FALT_U8] = {"unsigned char", "UNSIGNED_BYTES", NONE, NONE, NONE},
    [FALT_S8] = {"signed char", "SIGNED_BYTES", NONE, NONE, NONE},
    [FALT_U16] = {"unsigned short", NULL, NONE, NONE, NONE},
    [FALT_S16] = {"short", NULL, NONE, NONE, NONE},
    [FALT_S32] = {"int", NULL, NONE, NONE, NONE},
    [FALT_F16] = {"unsigned short", "HALVES", 6, 2, 2},
    [FALT_BF16] = {"unsigned short", "BRAINS", 9, 9, 14},
    [FALT_F32] = {"float", "WORDS", 7, 0, 0},
    [FALT_F64] = {"double", "DOUBLES", NONE, 1, 1},
};
_Static_assert(sizeof falt_cuda_types / sizeof *falt_cuda_types == FALT_TYPE_COUNT, "a type has no row");

const char *falt_cuda_products(falt_type a, falt_type b) {
  if (a == b) return falt_cuda_types[a].products;
  if (!falt_type_is_byte(a) || !falt_type_is_byte(b)) return NULL;
  return falt_type_min(a) < 0 ? "BYTES" : "MIXED_BYTES";
}

const char *falt_cuda_bits(size_t bytes) {
  static const char *const bits[] = {
      [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned", [8] = "unsigned long long"};
  return bits[bytes];
}
