/* Output of the command: one-line errors, JSON objects, a progress bar, and suggestions for misspelt names. */
#ifndef FALT_CLI_REPORT_H
#define FALT_CLI_REPORT_H

#include <signal.h>
#include <stdio.h>

#include "io/io.h"

/* Exit statuses. */
enum {
  CLI_DONE = 0,
  CLI_CHECK_FAILED = 1, /* ran, and a check failed (verify) */
  CLI_WRONG = 2,        /* the command line or a file is wrong */
  CLI_IMPOSSIBLE = 3,   /* not within the budget or not on this machine */
  CLI_BUG = 4           /* an internal error */
};

/* Prints "faltung: what: why; what to do" on standard error, always as one line, and returns the exit status. */
int cli_fail(int exit_status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The file that errors are about from now on; they begin with it unless they name it. NULL: none. */
void cli_fail_about(const char *path);
/* The same for a failing library call: prints falt_message() and returns the exit status that belongs to status. */
int cli_fail_library(falt_status status);
int cli_exit_status(falt_status status);

/* Fills *error and returns false: return cli_wrong(error, "--kernel: ..."). */
bool cli_wrong(io_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Index of text in names[0..count), or -1. */
int cli_find_name(const char *text, const char *const *names, int count);
/* The name nearest to text by edit distance, or NULL if more than half of it would change. NULL names are skipped. */
const char *cli_nearest_name(const char *text, const char *const *names, int count);
/* Writes "; did you mean X?" or, when no name is near, "; use A, B or C" into text and returns it. */
const char *cli_suggestion(const char *wrong, const char *const *names, int count, char *text, size_t size);

/* One JSON object on one line. Numbers that JSON cannot write (NaN, infinities) become null, bytes that are not UTF-8
 * the replacement character. */
typedef struct cli_json {
  FILE *file;
  int fields;
} cli_json;
cli_json cli_json_open(FILE *file);
void cli_json_text(cli_json *json, const char *key, const char *value); /* NULL: null */
void cli_json_number(cli_json *json, const char *key, double value);
void cli_json_integer(cli_json *json, const char *key, int64_t value);
void cli_json_flag(cli_json *json, const char *key, bool value);
/* An object inside: the fields up to the end are its own. */
void cli_json_begin(cli_json *json, const char *key);
void cli_json_end(cli_json *json);
void cli_json_close(cli_json *json);

/* Set by a signal: later failures follow from it, and cli_fail prints nothing. */
extern volatile sig_atomic_t cli_muted, cli_bar_is_shown;

/* A progress bar on standard error, only on a terminal and only after a second: of the steps that a verb counts, or of
 * one call of the library. */
typedef struct cli_progress {
  bool enabled;
} cli_progress;
bool cli_progress_is_wanted(bool quiet);
cli_progress cli_progress_begin(bool enabled);
void cli_progress_step(cli_progress *progress, int64_t done, int64_t total);
/* How many steps the calls of the library cover until the next cli_progress_step; 1 unless said. */
void cli_progress_next(int64_t steps);
void cli_progress_end(void); /* cli_fail does it too */
/* For falt_device_progress. */
bool cli_progress_call(void *context, const char *phase, double done);

/* Seconds of a monotonic clock. */
double cli_seconds(void);
/* A duration with its unit and three digits, such as "12.3 ms", in text. */
const char *cli_duration(double seconds, char text[32]);

#endif
