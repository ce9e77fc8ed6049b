/* Allocation, aligned for every kernel, and size arithmetic that detects overflow. */
#ifndef FALT_CORE_MEMORY_H
#define FALT_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FALT_ALIGN = 64 };

/* size bytes aligned to FALT_ALIGN, uninitialised, or NULL. Release with falt_free. size 0 gives a valid pointer. */
void *falt_alloc(size_t size);
/* The same, zeroed. */
void *falt_alloc_zero(size_t size);
void falt_free(void *memory); /* accepts NULL */

/* Makes the n-th allocation from now fail (n = 0: the next), and all later ones until called with a negative n. Tests
 * only. */
void falt_alloc_fail_after(int64_t n);

/* Stores a*b or a+b and returns true, or returns false on overflow. Operands are not negative. */
bool falt_mul(int64_t a, int64_t b, int64_t *product);
bool falt_add(int64_t a, int64_t b, int64_t *sum);

static inline int64_t falt_ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
} /* a >= 0, b > 0 */
static inline int64_t falt_round_up(int64_t a, int64_t b) {
  return falt_ceil_div(a, b) * b;
}
static inline int64_t falt_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t falt_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The greatest common divisor. */
static inline int64_t falt_gcd(int64_t a, int64_t b) {
  return b == 0 ? a : falt_gcd(b, a % b);
} /* a, b >= 0 */

#endif
