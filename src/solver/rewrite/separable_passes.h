/* The problems of a filter of factors that is computed pass by pass: separable_passes.c plans and runs them. */
#ifndef FALT_SOLVER_REWRITE_SEPARABLE_PASSES_H
#define FALT_SOLVER_REWRITE_SEPARABLE_PASSES_H

#include "problem/problem.h"

enum { FALT_MOST_PASSES = 3 };

/* The passes of every term, one for each axis of more than one tap, the width first. Terms share the first passes'
 * problems. The last pass is one for all terms: it finds their results one after the other, `apart` elements from one
 * to the next, and sums over them. Where it cannot reach the output, or what is done to sums is more than it does,
 * `finish` copies the sums there. */
typedef struct falt_passes {
  int count, axis[FALT_MOST_PASSES];
  int64_t apart;
  bool extends; /* first passes make the rows beyond the ends, too: what the constant becomes there is not one number */
  bool finishes;
  bool paired; /* the first pass goes along the width and the height of a volume */
  falt_problem pass[FALT_MOST_PASSES], finish;
} falt_passes;

/* The axes of more than one tap, the width first; how many. */
int falt_passes_axes(const falt_problem *problem, int axis[FALT_MOST_PASSES]);

/* Fills *passes for a problem whose filter comes as factors, with two tapped axes at least. `values` are the factors,
 * or NULL if they are given. `pair`: one pass along the width and the height, for one known term of three tapped axes.
 */
void falt_passes_make(falt_passes *passes, const falt_problem *problem, const void *values, bool pair);

/* The type of factors and of results between passes. */
falt_type falt_passes_type(const falt_problem *problem);
/* Where the factor along an axis begins among the values of a term, and how many these are. */
int64_t falt_passes_factor(const falt_problem *problem, int axis);
int64_t falt_passes_term(const falt_problem *problem);
/* The factors in the order of a correlation and in the type between passes. The first pass takes those of the axes of
 * one tap, which are numbers. */
void falt_passes_values(const falt_problem *problem, const void *values, void *out);

#endif
