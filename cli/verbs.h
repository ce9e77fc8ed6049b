/* The table of verbs: one line of verbs.c each. */
#ifndef FALT_CLI_VERBS_H
#define FALT_CLI_VERBS_H

#include "options.h"

typedef struct cli_verb {
  const char *name;
  unsigned bit;                           /* one of cli_verb_bit; the options table says which options take it */
  const char *operands;                   /* "INPUT OUTPUT" */
  const char *summary;                    /* one line */
  const char *details;                    /* paragraphs for `faltung help VERB` */
  int (*run)(const cli_options *options); /* returns the exit status; errors were printed by cli_fail */
} cli_verb;

/* The i-th verb, from 0; NULL after the last. */
const cli_verb *cli_verb_at(int i);

int falt_verb_convolve(const cli_options *options);
int falt_verb_correlate(const cli_options *options);
int falt_verb_layer(const cli_options *options);
int falt_verb_explain(const cli_options *options);
int falt_verb_time(const cli_options *options);
int falt_verb_tune(const cli_options *options);
int falt_verb_verify(const cli_options *options);
int falt_verb_ladder(const cli_options *options);
int falt_verb_bench(const cli_options *options);
int falt_verb_info(const cli_options *options);
int falt_verb_list(const cli_options *options);

#endif
