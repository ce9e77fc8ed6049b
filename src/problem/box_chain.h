/* Repeated boxes: filters of one axis that are boxes, convolved with each other and with a last box of two levels.
 *
 *     taps = B(size[0]) * ... * B(size[count - 1]) * (at_inner B(inner) + at_outer B(outer)),   B(n): n ones
 *
 * Pure mathematics, in double: their taps, the chain that given taps are, and the chain nearest to a Gaussian. */
#ifndef FALT_PROBLEM_BOX_CHAIN_H
#define FALT_PROBLEM_BOX_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

enum { FALT_MOST_BOXES = 5 /* before the last */ };

typedef struct falt_box_chain {
  int count;
  int64_t size[FALT_MOST_BOXES];
  int64_t inner, outer; /* of the last box, one in the middle of the other; outer 0: one level */
  double at_inner, at_outer;
} falt_box_chain;

/* Taps of the whole. */
int64_t falt_box_chain_length(const falt_box_chain *chain);
/* Writes them; scratch holds as many. */
void falt_box_chain_taps(const falt_box_chain *chain, double *taps, double *scratch);

/* The chain that taps are: equal boxes, one box of two levels, or falt_box_chain_gaussian's. Each is composed and
 * compared: sum |made - taps| <= tolerance * sum |taps|. False if it is none, or memory is short. */
bool falt_box_chain_find(falt_box_chain *chain, const double *taps, int64_t count, double tolerance);

/* Three boxes and one of two levels with the variance sigma^2 and the sum 1; sigma is 2 or more. False: no memory. */
bool falt_box_chain_gaussian(falt_box_chain *chain, double sigma);

#endif
