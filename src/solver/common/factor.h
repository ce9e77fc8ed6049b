/* Filters as sums of separable terms: a[z][y][x] = sum over k of f_k[z] g_k[y] h_k[x]. Pure mathematics, in double. */
#ifndef FALT_SOLVER_COMMON_FACTOR_H
#define FALT_SOLVER_COMMON_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

/* Terms with equal f are consecutive, so they can share a pass along z. */
typedef struct falt_factors {
  int64_t size[3]; /* taps along z, y, x */
  int terms;
  int groups;      /* distinct f */
  int *group;      /* of each term, rising from 0 */
  double *taps;    /* terms x (size[0] + size[1] + size[2]): f, g, h of each term */
  double residual; /* sum |a - terms| / sum |a|: bounds the error of an output relative to sum |a| times max |input| */
  bool exact;      /* one term of integers times a power of two: products give a without any rounding */
} falt_factors;

typedef enum falt_factoring {
  FALT_FACTORED,
  FALT_FACTOR_RANK,   /* more terms than allowed are needed for the tolerance */
  FALT_FACTOR_VALUES, /* the filter holds infinities or NaN */
  FALT_FACTOR_MEMORY
} falt_factoring;

/* Factors a (dense, size[0] x size[1] x size[2]) into as few terms as keep the residual within tolerance, at most
 * max_terms. After any other answer than FALT_FACTORED *factors holds nothing. */
falt_factoring falt_factor(falt_factors *factors, const double *a, const int64_t size[3], int max_terms,
                           double tolerance);
void falt_factors_free(falt_factors *factors);

/* The vector of a term along an axis (0: f, 1: g, 2: h). */
double *falt_factors_taps(const falt_factors *factors, int term, int axis);

/* Whether all of a[0..count) are integers. */
bool falt_are_integers(const double *a, int64_t count);
/* The power of two that makes all of a[0..count) integers of magnitude at most 2^limit, or 0 if none does. */
double falt_integer_scale(const double *a, int64_t count, int limit);

#endif
