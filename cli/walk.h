/* Expands lines of suites that stand for many problems, and finds cliffs in their speed. */
#ifndef FALT_CLI_WALK_H
#define FALT_CLI_WALK_H

#include <stdbool.h>
#include <stddef.h>

/*   {forward,backward-data} c=[16,17,24,32] k=[16,17,24,32] h=56 w=56 layout={nhwc,nchw}
 *
 * Braces are alternatives; every combination is a walk. Brackets are the points of a walk; several on a line advance
 * together. Text after @, a kernel, is not expanded. */

typedef struct cli_walk {
  int walks, points; /* both 1 on a plain line */
} cli_walk;

/* False if a bracket or brace is not closed or stands alone, or if brackets differ in length. */
bool cli_walk_measure(const char *line, cli_walk *walk);
/* The line of one point of one walk, and "-alternative-point" for its name; false if either is too long. */
bool cli_walk_expand(const char *line, int walk, int point, char *text, size_t size, char *suffix, size_t room);

/* The cost of a unit of work at point i relative to the cheaper neighbour, the next measured points on both sides. NaN
 * marks unmeasured points, and is returned if there is nothing to compare. */
double cli_walk_rise(const double *cost, int count, int i, int *neighbour);

#endif
