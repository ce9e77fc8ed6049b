/* Random problems: a draft of a line, filled by weighted tables, cut to a limit of work, built, and moved in memory. No
 * call draws twice in its arguments, because compilers differ in their order. Private to src/problem. */
#ifndef FALT_PROBLEM_RANDOM_H
#define FALT_PROBLEM_RANDOM_H

#include "core/random.h"
#include "problem/line.h"

/* One value of a table, drawn in proportion to its weight. */
typedef struct falt_odds {
  int weight;
  int64_t value;
} falt_odds;

typedef enum falt_channel_kind {
  FALT_FEW_CHANNELS,  /* a few in and out, groups now and then */
  FALT_MANY_CHANNELS, /* sizes around tiles, one group as a rule */
  FALT_FEW_IN,        /* first layers and their gradients */
  FALT_FEW_OUT,
  FALT_SMALL_GROUPS,
  FALT_DEPTHWISE,      /* one input channel a group, a multiplier now and then */
  FALT_WIDE_DEPTHWISE, /* one channel in and out, vectors of groups */
  FALT_TILED,          /* steps of 1, f32, images of many tiles, an error allowed: winograd's forms */
  FALT_BYTES /* few, of u8, taps of 8 bits, steps of 1, no epilogue, the filter known: dot products of bytes */
} falt_channel_kind;

typedef enum falt_window_kind {
  FALT_ANY_WINDOW,
  FALT_USUAL_WINDOW,  /* 1, 3, 5 or 7 along every axis */
  FALT_SQUARE_WINDOW, /* 3, 5 or 7, the same along all axes */
  FALT_LONG_WINDOW,
  FALT_FLAT_WINDOW, /* at least two axes of several taps, which terms of rank one may share */
  FALT_ROW_WINDOW,  /* several taps along one axis, often of rank one: boxes, once or repeated */
  FALT_PATCHES      /* as far apart as they are long */
} falt_window_kind;

/* A family of problems. */
typedef struct falt_recipe {
  int weight;
  unsigned verbs; /* bit i: verb i */
  falt_channel_kind channels;
  falt_window_kind window;
  int plain;  /* percent without the rarer words: usual types and pads, dense tensors */
  int inner;  /* percent NHWC */
  int pooled; /* percent with pool */
  int bf16;   /* percent of bf16 throughout, for products of pairs */
} falt_recipe;

typedef struct falt_draft {
  uint64_t state;
  falt_recipe recipe;
  falt_line line;
  int space;
  bool plain, same;        /* same: the pads keep the size */
  int64_t in, out, groups; /* channels of one group of a layer, in and out */
} falt_draft;

/* ---- drawing */

int64_t falt_draw(falt_draft *draft, const falt_odds *table, int count);
#define FALT_DRAW(draft, table) falt_draw(draft, table, (int)(sizeof(table) / sizeof *(table)))

static inline int64_t falt_pick(falt_draft *draft, int64_t low, int64_t high) {
  return falt_random_int(&draft->state, low, high);
}

/* True once in n. */
static inline bool falt_once_in(falt_draft *draft, int n) {
  return falt_pick(draft, 1, n) == 1;
}

/* True in the given percentage of cases. */
static inline bool falt_percent(falt_draft *draft, int percent) {
  return falt_pick(draft, 1, 100) <= percent;
}

/* ---- parts of a draft */

/* Space, taps, batch and channels, steps. */
void falt_random_sizes(falt_draft *draft);
/* Lowers one size, pad or step; false if none is left to lower. */
bool falt_random_lower(falt_draft *draft);
/* Fills the words that follow from others: channels, pads that keep the size, anchors within the taps. */
void falt_random_settle(falt_draft *draft);
/* The placement of the filter. */
void falt_random_place(falt_draft *draft);
/* Boundaries, types, layouts, epilogue and budget. */
void falt_random_words(falt_draft *draft);
/* Other strides and offsets for some of the tensors. */
void falt_random_move(falt_draft *draft, falt_problem *problem);

#endif
