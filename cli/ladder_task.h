/* A problem as a task of the ladder: operands on the device, the output, and the reference. */
#ifndef FALT_CLI_LADDER_TASK_H
#define FALT_CLI_LADDER_TASK_H

#include "ladder/ladder.h"
#include "problem.h"

typedef enum cli_stage { CLI_FILTER, CLI_CONVOLUTION, CLI_POOLED } cli_stage;

typedef struct cli_task {
  cli_question question; /* its device is the caller's */
  cli_operands operands; /* on the host; output is where results arrive */
  ladder_task ladder;
  cli_stage stage;
  bool by_transforms;    /* the ladder of transforms: set before cli_task_open */
  bool on_gpu, on_paper; /* on paper: the GPU is only described, so no operands and no runs */
  float *expected;       /* the first step's results */
  bool has_expected;
  void *memory[4]; /* x, w, y, between on a GPU; between on the CPU */
} cli_task;

/* Parses the line, creates random operands and copies them to the device. Prints an error and returns its exit status,
 * or CLI_DONE; cli_task_close in both cases. */
int cli_task_open(cli_task *task, const cli_options *options, falt_device *device, const char *line);
void cli_task_close(cli_task *task);

/* Starts a stage. The first output that is checked becomes the reference for later outputs of the stage. */
void cli_task_begin(cli_task *task, cli_stage stage);
/* Elements that the stage must read and write: input, filter, results. */
double cli_task_elements(const cli_task *task);
/* Fills the outputs with NaN, so unwritten elements show. */
int cli_task_poison(cli_task *task);
/* Largest difference of the results from the first step's, or of the first step's from sums in f64; relative to the
 * largest. */
int cli_task_judge(cli_task *task, double *difference);

#endif
