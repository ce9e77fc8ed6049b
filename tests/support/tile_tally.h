/* What a test counts while a tile search offers its candidates. */
#ifndef FALT_TESTS_TILE_TALLY_H
#define FALT_TESTS_TILE_TALLY_H

#include "machines.h"

typedef struct tally {
  const void *problem;         /* of the search */
  const falt_machine *machine; /* where a test has several */
  int legal, rejected;
  double least; /* seconds */
} tally;

static void count_legal(tally *sum, double seconds) {
  sum->legal++;
  if (sum->least == 0 || seconds < sum->least) sum->least = seconds;
  assert_true(seconds > 0 && seconds < 3600);
}

/* The search keeps the fastest of the legal ones. */
static void check_best(const tally *sum, double seconds) {
  assert_true(sum->legal > 0 && seconds == sum->least);
}

#endif
