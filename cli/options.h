/* The command line: one table of options for all verbs, GNU style: --name value, --name=value, -n value, -nvalue, flags
 * together as in -qk value; -- ends them. */
#ifndef FALT_CLI_OPTIONS_H
#define FALT_CLI_OPTIONS_H

#include <stdio.h>

#include "axes.h"
#include "choice.h"

/* Each verb is a bit: one table tells which verbs take an option. */
typedef enum cli_verb_bit {
  CLI_CONVOLVE = 1 << 0,
  CLI_CORRELATE = 1 << 1,
  CLI_LAYER = 1 << 2,
  CLI_EXPLAIN = 1 << 3,
  CLI_TIME = 1 << 4,
  CLI_TUNE = 1 << 5,
  CLI_VERIFY = 1 << 6,
  CLI_LADDER = 1 << 7,
  CLI_BENCH = 1 << 8,
  CLI_INFO = 1 << 9,
  CLI_LIST = 1 << 10
} cli_verb_bit;

enum {
  CLI_FILTERS = CLI_CONVOLVE | CLI_CORRELATE,
  CLI_PROBLEMS = CLI_EXPLAIN | CLI_TIME | CLI_TUNE,                   /* take a problem line */
  CLI_PLANNERS = CLI_FILTERS | CLI_LAYER | CLI_PROBLEMS | CLI_VERIFY, /* choose a plan within a budget */
  CLI_RUNNERS = CLI_PLANNERS | CLI_LADDER | CLI_BENCH | CLI_INFO      /* have a device */
};

enum { CLI_MAX_OPERANDS = 4096, CLI_ALL_PAGES = -1 };

/* Everything the table can set. Zero, NULL or false where nothing was given, but for the fields with a comment. */
typedef struct cli_options {
  unsigned verb; /* the verb's bit */
  const char *operand[CLI_MAX_OPERANDS];
  int operands;

  /* filters */
  const char *kernel, *boundary, *format;
  bool normalize, has_cval, scale_to_type;
  double cval, alpha, beta; /* alpha defaults to 1 */
  falt_mode mode;
  cli_axes anchor, origin, stride, dilation;
  int out_type; /* a falt_type, or -1 for the input's */
  cli_dialect dialect;
  int64_t space;     /* of an .npy; 0: as it looks */
  int64_t page;      /* from 1; CLI_ALL_PAGES; 0: all that the output holds */
  int64_t band_rows; /* 0: our choice */

  /* device and budget */
  const char *method, *device;
  int64_t threads;       /* 0: the library's choice */
  int64_t max_workspace; /* -1: no limit */
  double max_error;
  bool deterministic, allow_tf32, no_transforms;

  /* problems */
  double seconds;              /* of measuring; -1: the verb's choice */
  int64_t count, seed;         /* count: -1: the verb's choice */
  int64_t processes, variants; /* verify; 0: not given */
  double time_limit;
  bool forever, by_solver;
  bool measure, cache, clear_cache; /* info */
  bool compile_only;                /* tune */
  const char *arch;
  bool peers; /* bench */
  int64_t rounds;
  const char *filter, *html, *plot;
  const char *show;                                            /* ladder: the name of a step */
  bool list;                                                   /* ladder */
  int64_t exercise;                                            /* ladder; 0: none */
  double answer;                                               /* to the exercise; NaN: none */
  int retype;                                                  /* a falt_type, or -1 */
  const char *input, *weight, *bias, *scale, *residual, *grad; /* .npy files of a layer */
  const char *output; /* of a layer; of a filter it was appended to the operands */

  /* report */
  bool json, explain, all, quiet;
} cli_options;

struct cli_verb;

/* Reads the words after the verb. On an error prints it and returns an exit status; CLI_HELP if --help was there. */
enum { CLI_HELP = -1 };
int cli_options_parse(int count, char **words, const struct cli_verb *verb, cli_options *options);

/* One option of the table, for help, manual and completions. */
typedef struct cli_option_note {
  const char *name, *value, *help; /* value: the word for it in help; NULL for flags */
  char letter;                     /* 0: none */
  unsigned verbs;                  /* that take it */
  cli_choice choice;               /* names to complete; NULL: none */
  bool is_file;                    /* the value is a file's name */
} cli_option_note;

/* The i-th option, from 0; false after the last. */
bool cli_option_at(int i, cli_option_note *note);
/* "-k, --kernel K" */
const char *cli_option_head(const cli_option_note *note, char text[64]);

#endif
