/* A signal through falt_convolver, band after band: the way of files of audio whose filter is long. */
#ifndef FALT_CLI_STREAM_H
#define FALT_CLI_STREAM_H

#include "faltung/faltung.h"

/* Rows are frames: samples of all channels, interleaved. Each row is given to the convolver once, with what the
 * boundary puts before and after the file. Rows that are not finite are given as zeros, and bands that read them are
 * left to a plan, which keeps them from other outputs. */
typedef struct cli_stream cli_stream;

/* Rows [low, high) of the file and of its boundary. */
typedef struct cli_stream_rows {
  const char *data;
  int64_t low, high;
} cli_stream_rows;

/* Opens a stream for a problem of one axis if its plan is by transforms and the budget leaves the method open; else,
 * and if memory runs out, NULL. */
cli_stream *cli_stream_open(const falt_problem *problem, const void *weights, const falt_budget *budget,
                            falt_device *device);
void cli_stream_close(cli_stream **stream);
/* Rows behind a band's own that it takes from the file already. */
int64_t cli_stream_latency(const cli_stream *stream);
/* Before the first band of a page. */
void cli_stream_rewind(cli_stream *stream);
/* Computes output rows [begin, begin + count), the ones behind the last call's. The rows hold all that the band reads
 * and up to cli_stream_latency more, as far as there are any. False: a plan has to compute this band, as rows are not
 * finite. */
bool cli_stream_run(cli_stream *stream, const cli_stream_rows *rows, int64_t begin, int64_t count, void *output);
/* As falt_plan_print. */
void cli_stream_print(const cli_stream *stream, char *text, size_t size);

#endif
