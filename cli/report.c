/* Output of the command: one-line errors, JSON objects, a progress bar, and suggestions for misspelt names. */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- errors */

volatile sig_atomic_t cli_muted, cli_bar_is_shown;

static void clear_bar(void) {
  if (cli_bar_is_shown) fputs("\r\033[K", stderr);
  cli_bar_is_shown = 0;
}

/* User input may contain line ends and escapes; an error stays one plain line whatever it quotes. */
static void make_plain(char *text) {
  for (; *text; text++) {
    if ((unsigned char)*text < 32 || *text == 127) *text = '?';
  }
}

static const char *about;

void cli_fail_about(const char *path) {
  about = path;
}

int cli_fail(int exit_status, const char *format, ...) {
  char text[1024];
  va_list list;
  if (cli_muted) return exit_status;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  make_plain(text);
  fflush(stdout);
  clear_bar();
  const bool named = !about || strncmp(text, about, strlen(about)) == 0;
  fprintf(stderr, "faltung: %s%s%s\n", named ? "" : about, named ? "" : ": ", text);
  return exit_status;
}

int cli_exit_status(falt_status status) {
  if (status == FALT_OK) return CLI_DONE;
  if (status == FALT_NO_FILE || status < FALT_OVER_BUDGET) return CLI_WRONG;
  return status < FALT_INTERNAL ? CLI_IMPOSSIBLE : CLI_BUG;
}

int cli_fail_library(falt_status status) {
  return cli_fail(cli_exit_status(status), "%s", falt_message());
}

bool cli_wrong(io_error *error, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(error->text, sizeof error->text, format, list);
  va_end(list);
  return false;
}

/* ---- names */

int cli_find_name(const char *text, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    if (names[i] && strcmp(text, names[i]) == 0) return i;
  }
  return -1;
}

enum { LONGEST_NAME = 64 };

/* Levenshtein's distance with one row of the table. */
static int edit_distance(const char *a, int la, const char *b, int lb) {
  int row[LONGEST_NAME + 1];
  for (int j = 0; j <= lb; j++) row[j] = j;
  for (int i = 1; i <= la; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= lb; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[lb];
}

const char *cli_nearest_name(const char *text, const char *const *names, int count) {
  const char *nearest = NULL;
  int length = (int)strnlen(text, LONGEST_NAME), best = length / 2 + 1;
  for (int i = 0; i < count; i++) {
    const int name_length = names[i] ? (int)strnlen(names[i], LONGEST_NAME) : 0;
    if (!names[i] || abs(length - name_length) >= best) continue;
    const int distance = edit_distance(text, length, names[i], name_length);
    if (distance < best) best = distance, nearest = names[i];
  }
  return nearest;
}

const char *cli_suggestion(const char *wrong, const char *const *names, int count, char *text, size_t size) {
  const char *nearest = cli_nearest_name(wrong, names, count);
  if (nearest) {
    snprintf(text, size, "; did you mean %s?", nearest);
    return text;
  }
  size_t at = (size_t)snprintf(text, size, "; use");
  int left = 0, written = 0;
  for (int i = 0; i < count; i++) left += names[i] != NULL;
  for (int i = 0; i < count && at < size; i++) {
    if (!names[i]) continue;
    const char *before = written++ == 0 ? "" : left == 1 ? " or" : ",";
    at += (size_t)snprintf(text + at, size - at, "%s %s", before, names[i]);
    left--;
  }
  return text;
}

/* ---- JSON */

/* Bytes of the UTF-8 character at text, or 0 if it is none. */
static int utf8_length(const unsigned char *text) {
  static const unsigned char lead[] = {0x00, 0xc0, 0xe0, 0xf0}, mask[] = {0x80, 0xe0, 0xf0, 0xf8};
  static const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
  for (int more = 0; more < 4; more++) {
    if ((text[0] & mask[more]) != lead[more]) continue;
    unsigned long point = (unsigned long)(text[0] & ~mask[more]);
    for (int i = 1; i <= more; i++) {
      if ((text[i] & 0xc0) != 0x80) return 0;
      point = point << 6 | (text[i] & 0x3f);
    }
    bool is_surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[more] || point > 0x10ffff || is_surrogate ? 0 : more + 1;
  }
  return 0;
}

static void write_text(FILE *file, const char *text) {
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)text; *at;) {
    int length = utf8_length(at);
    if (length == 0) {
      fputs("\\ufffd", file);
      length = 1;
    } else if (*at == '"' || *at == '\\') {
      fprintf(file, "\\%c", *at);
    } else if (*at < 32) {
      fprintf(file, "\\u%04x", *at);
    } else {
      fwrite(at, 1, (size_t)length, file);
    }
    at += length;
  }
  fputc('"', file);
}

cli_json cli_json_open(FILE *file) {
  fputc('{', file);
  return (cli_json){file, 0};
}

static void write_key(cli_json *json, const char *key) {
  fprintf(json->file, "%s\"%s\": ", json->fields++ ? ", " : "", key);
}

void cli_json_text(cli_json *json, const char *key, const char *value) {
  write_key(json, key);
  if (value) {
    write_text(json->file, value);
  } else {
    fputs("null", json->file);
  }
}

void cli_json_number(cli_json *json, const char *key, double value) {
  write_key(json, key);
  if (isfinite(value)) {
    fprintf(json->file, "%.9g", value);
  } else {
    fputs("null", json->file);
  }
}

void cli_json_integer(cli_json *json, const char *key, int64_t value) {
  write_key(json, key);
  fprintf(json->file, "%lld", (long long)value);
}

void cli_json_flag(cli_json *json, const char *key, bool value) {
  write_key(json, key);
  fputs(value ? "true" : "false", json->file);
}

void cli_json_begin(cli_json *json, const char *key) {
  write_key(json, key);
  fputc('{', json->file);
  json->fields = 0;
}

void cli_json_end(cli_json *json) {
  fputc('}', json->file);
  json->fields = 1;
}

void cli_json_close(cli_json *json) {
  fputs("}\n", json->file);
}

/* ---- time */

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *cli_duration(double seconds, char text[32]) {
  static const char *const units[] = {"s", "ms", "us"};
  int unit = 0;
  for (; unit < 2 && seconds < 0.9995; unit++) seconds *= 1000;
  snprintf(text, 32, "%.*f %s", seconds < 10 ? 2 : seconds < 100 ? 1 : 0, seconds, units[unit]);
  return text;
}

/* ---- progress */

static const double bar_delay = 1, bar_pause = 0.1; /* seconds until the bar appears, and between its updates */

/* The bar's content: steps that a verb counts, each with the progress of its library calls; or a library call's phase.
 */
static struct {
  double began, drawn;
  int64_t done, next, total; /* steps; the part covered by the calls until the next one; total 0: no steps */
  double share;              /* shown last of these steps */
} bar;

static bool is_bar_due(double now) {
  return now - bar.began >= bar_delay && now - bar.drawn >= bar_pause;
}

static void draw_bar(double share, const char *phase) {
  static const char full[] = "########################################";
  enum { WIDTH = sizeof full - 1 };
  const double now = cli_seconds();
  if (!is_bar_due(now)) return;
  const int filled = (int)(share * WIDTH);
  fprintf(stderr, "\r[%.*s%*s] %3.0f%% %-8s", filled, full, WIDTH - filled, "", 100 * share, phase);
  fflush(stderr);
  bar.drawn = now;
  cli_bar_is_shown = 1;
}

bool cli_progress_is_wanted(bool quiet) {
  return !quiet && isatty(STDERR_FILENO);
}

cli_progress cli_progress_begin(bool enabled) {
  const cli_progress progress = {cli_progress_is_wanted(!enabled)};
  bar.began = cli_seconds();
  bar.total = bar.done = 0;
  bar.share = 0;
  return progress;
}

/* Within a step only executing counts: planning may come before each. */
static void draw_steps(double part) {
  const double share = ((double)bar.done + part * (double)bar.next) / (double)bar.total;
  if (share > bar.share) bar.share = share;
  draw_bar(bar.share, "");
}

void cli_progress_step(cli_progress *progress, int64_t done, int64_t total) {
  if (!progress->enabled || total <= 0) return;
  bar.done = done;
  bar.next = 1;
  bar.total = total;
  draw_steps(0);
}

void cli_progress_next(int64_t steps) {
  bar.next = steps;
}

void cli_progress_end(void) {
  bar.total = 0;
  clear_bar();
}

bool cli_progress_call(void *context, const char *phase, double done) {
  (void)context;
  if (bar.total > 0)
    draw_steps(strcmp(phase, "plan") == 0 ? 0 : done);
  else if (done < 1)
    draw_bar(done, phase);
  else
    clear_bar(); /* the call is over, and its results are about to be printed */
  return true;
}
