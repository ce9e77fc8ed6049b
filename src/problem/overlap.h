/* Tests if two strided arrays share an element. Disjoint address ranges decide most cases. Arrays with overlapping
 * ranges, such as two channels of interleaved pixels, are decided exactly. The part that depends on strides alone is
 * prepared once. */
#ifndef FALT_PROBLEM_OVERLAP_H
#define FALT_PROBLEM_OVERLAP_H

#include "faltung/faltung.h"

enum { FALT_OVERLAP_STEPS = 2 * FALT_DIMS };

/* The distances in bytes from an element of `a` to one of `b` are b - a + base + i[0]*step[0] + i[1]*step[1] + ... with
 * 0 <= i <= last. Steps fall. reach, unit and dense describe what the steps from one on add up to: at most reach, only
 * multiples of unit, and all of these if dense. */
typedef struct falt_overlap {
  int64_t base, bytes_a, bytes_b; /* bytes of one element */
  int count;
  int64_t step[FALT_OVERLAP_STEPS], last[FALT_OVERLAP_STEPS];
  int64_t reach[FALT_OVERLAP_STEPS + 1], unit[FALT_OVERLAP_STEPS + 1];
  bool dense[FALT_OVERLAP_STEPS + 1];
} falt_overlap;

/* Prepares the question for two tensors that passed falt_problem_check. False if no memory could hold them both. */
bool falt_overlap_prepare(falt_overlap *overlap, const falt_tensor *a, const falt_tensor *b);

/* The distances b - a at which the spans overlap: *first to *last, both included. */
void falt_overlap_spans(const falt_overlap *overlap, int64_t *first, int64_t *last);

/* Whether an element of `a` and one of `b` share a byte if b's data is `distance` bytes after a's. Strides so complex
 * that thousands of steps do not decide count as shared. */
bool falt_overlap_at(const falt_overlap *overlap, int64_t distance);

/* The complete test, for a single query. */
bool falt_tensors_overlap(const falt_tensor *a, const void *a_data, const falt_tensor *b, const void *b_data);

#endif
