/* The parts of a convolver: levels, which hold signals and their transforms, and banks, which hold one set of
 * responses and its products. Level l has partitions of n = partition * growth^l samples; its first tap is 2n less
 * the latency. While a block of n samples arrives, the previous block is transformed, multiplied by all partitions
 * and transformed back, a share after each call. That gives the outputs of the next block. Taps before the first
 * level are summed directly. */
#ifndef FALT_CONVOLVER_CONVOLVER_H
#define FALT_CONVOLVER_CONVOLVER_H

#include <stdatomic.h>

#include "convolver/convolver_kernels.h"
#include "core/status.h"
#include "solver/cpu/fft/fft_shape.h"

enum { FALT_CONVOLVER_LEVELS = 8 };

typedef struct falt_convolver_level {
  int64_t size, parts, first; /* samples and taps of a partition, how many, the first tap */
  falt_fft_shape shape;
  char *twiddles;             /* exp(-i pi k / 2n): cosines, then sines */
  char *sum;                  /* products of the output that is being made */
  char *spectra;              /* transforms of the inputs' blocks, [inputs][parts] */
  int64_t newest, input;      /* the slot of the latest block; inputs that were transformed in this period */
  int64_t began, work, spent; /* the time when the period began; its work, in products of one partition */
} falt_convolver_level;

/* What a bank has of a level. */
typedef struct falt_convolver_stage {
  char *filter;    /* transforms of the partitions, [pairs][parts] */
  char *result[2]; /* [outputs][size]: outputs of this block, and those that are being computed */
  int now;
  int64_t output, pair, part; /* the next product */
  bool runs;
  int64_t periods; /* since it runs */
} falt_convolver_stage;

/* One response, from an input to an output. */
typedef struct falt_convolver_pair {
  int input, output;
  char *head; /* the taps that are summed directly */
} falt_convolver_pair;

typedef struct falt_convolver_bank {
  falt_convolver_pair *pair; /* by output */
  int64_t pairs;
  falt_convolver_stage stage[FALT_CONVOLVER_LEVELS];
  char *memory;
  struct falt_convolver_bank *next; /* of the banks that are no longer used */
} falt_convolver_bank;

struct falt_convolver {
  falt_convolver_options options;
  const falt_convolver_lane *lane;
  size_t element;
  int64_t vector;             /* elements */
  int64_t head, margin, ring; /* direct taps; samples kept before a ring; of a ring */
  int64_t time;               /* samples so far */
  int levels;
  falt_convolver_level level[FALT_CONVOLVER_LEVELS];
  char *memory, *signals, *tile, *output, *other; /* signals: [inputs][margin + ring + padding] */
  falt_convolver_bank *bank[2];                   /* in use; the next, or NULL */
  int64_t faded;                                  /* samples of going over; negative: not yet */
  _Atomic(falt_convolver_bank *) waiting, retired;
};

/* Dense copies and transforms of responses; NULL if memory ran out. */
falt_convolver_bank *falt_convolver_bank_make(const falt_convolver *convolver, const void *const *responses);
void falt_convolver_bank_free(falt_convolver_bank *bank);

/* Space for and tables of all levels: false if memory ran out. Free what was made by falt_convolver_levels_free. */
bool falt_convolver_levels_make(falt_convolver *convolver, falt_isa isa);
void falt_convolver_levels_free(falt_convolver *convolver);
/* Work up to the share of the period that has passed; at its end all of it, and the next period begins. */
void falt_convolver_level_advance(falt_convolver *convolver, int level);
/* Leaves out what a bank has left of this period. */
void falt_convolver_levels_drop(falt_convolver *convolver, int bank);
/* As at the start. */
void falt_convolver_levels_reset(falt_convolver *convolver);

static inline char *falt_convolver_signal(const falt_convolver *c, int64_t input) {
  return c->signals + (size_t)(input * (c->margin + c->ring + 8 * c->vector) + c->margin) * c->element;
}

#endif
