/* Suites: lists of problem lines to measure. */
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report.h"
#include "share.h"
#include "walk.h"

static const char blanks[] = " \t\r\n";
enum { MAX_CASES = 10000, MAX_SUITES = 64 };

/* ---- one line */

/* Cuts the blanks off both ends, in place. */
static char *trim(char *text) {
  text += strspn(text, blanks);
  size_t length = strlen(text);
  while (length && strchr(blanks, text[length - 1])) length--;
  text[length] = '\0';
  return text;
}

/* Whether the first word is a name: a problem's second word has an equals sign, an operation has none. */
static bool is_named(const char *line) {
  const char *second = line + strcspn(line, blanks);
  second += strspn(second, blanks);
  return *second && !memchr(second, '=', strcspn(second, blanks));
}

/* Cuts "<= 0.135 ms" off the end. False if it is something else. */
static bool read_target(char *text, cli_case *one) {
  char *sign = strstr(text, "<="), *end;
  if (!sign) return true;
  one->target = 1e-3 * strtod(sign + 2, &end);
  *sign = '\0';
  return one->target > 0 && one->target < 1e6 && strcmp(trim(end), "ms") == 0;
}

/* Splits a trimmed line. False if a part is too long. */
static bool split(char *text, cli_case *one) {
  char *at = strchr(text, '@');
  if (at) *at = '\0';
  char *line = trim(text);
  size_t name = is_named(line) ? strcspn(line, blanks) : 0;
  if (name >= sizeof one->name) return false;
  if (name)
    snprintf(one->name, sizeof one->name, "%.*s", (int)name, line);
  else
    snprintf(one->name, sizeof one->name, "line-%d", one->number);
  const int line_length = snprintf(one->line, sizeof one->line, "%s", trim(line + name));
  const int kernel_length = snprintf(one->kernel, sizeof one->kernel, "%s", at ? trim(at + 1) : "");
  return line_length < (int)sizeof one->line && kernel_length < (int)sizeof one->kernel;
}

int cli_case_of_option(const cli_options *options, cli_case *one, const cli_case **taps) {
  *one = (cli_case){.number = 0};
  *taps = NULL;
  if (!options->kernel) return CLI_DONE;
  if (strlen(options->kernel) >= sizeof one->kernel)
    return cli_fail(CLI_WRONG, "--kernel: has more than %zu characters; write it to a file", sizeof one->kernel - 1);
  strcpy(one->kernel, options->kernel);
  *taps = one;
  return CLI_DONE;
}

bool cli_case_kernel(const cli_case *one, const falt_problem *problem, cli_kernel *kernel, io_error *error) {
  if (problem->factors) return cli_wrong(error, "--kernel %.60s: is no filter of factors; leave it out", one->kernel);
  if (!problem->is_filter)
    return cli_wrong(error, "--kernel %.60s: only filters take a kernel; leave it out", one->kernel);
  if (!cli_kernel_make(one->kernel, problem->space, true, kernel, error)) return false;
  const int64_t *has = kernel->size, *wants = &problem->filter.size[FALT_D];
  if (memcmp(has, wants, 3 * sizeof *has) == 0) return true;
  cli_kernel_free(kernel);
  return cli_wrong(
      error, "--kernel %.60s: has %lldx%lldx%lld taps (t, r, s) and the problem %lldx%lldx%lld; change t, r and s",
      one->kernel, (long long)has[0], (long long)has[1], (long long)has[2], (long long)wants[0], (long long)wants[1],
      (long long)wants[2]);
}

/* Random taps would drive most results of integer images into saturation, where every mistake looks right: weights of
 * an average do not. */
static void make_average(float *taps, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += fabsf(taps[i]);
  for (int64_t i = 0; i < count; i++) taps[i] = (float)(fabsf(taps[i]) / sum);
}

/* The same of a filter's factors, of which each is an average and all terms together are one. */
static void make_average_factors(float *values, const falt_problem *p) {
  for (int term = 0; term < p->factors; term++)
    for (int dim = FALT_D; dim < FALT_DIMS; dim++) {
      make_average(values, p->filter.size[dim]);
      for (int64_t i = 0; i < p->filter.size[dim] && dim == FALT_W; i++) values[i] /= (float)p->factors;
      values += p->filter.size[dim];
    }
}

/* A case of the option has no name. */
static int fail_case(const cli_case *one, const io_error *error) {
  return cli_fail(CLI_WRONG, "%s%s%s", one->name, one->name[0] ? ": " : "", error->text);
}

int cli_case_taps(const cli_case *one, const falt_problem *problem, void *filter) {
  const int64_t count = falt_problem_filter_elements(problem);
  if (one->kernel[0]) {
    cli_kernel kernel;
    io_error error;
    if (!cli_case_kernel(one, problem, &kernel, &error)) return fail_case(one, &error);
    void *packed = cli_kernel_pack(&kernel, problem->filter.type, &error);
    if (packed) memcpy(filter, packed, (size_t)count * falt_type_size(problem->filter.type));
    free(packed);
    cli_kernel_free(&kernel);
    return packed ? CLI_DONE : fail_case(one, &error);
  }
  const bool averages =
      problem->is_filter && problem->filter.type == FALT_F32 && cli_type_is_integer(problem->output.type);
  if (averages && problem->factors)
    make_average_factors(filter, problem);
  else if (averages && problem->rank <= 1)
    make_average(filter, count);
  return CLI_DONE;
}

static int check(const cli_case *one, const char *path) {
  falt_problem problem;
  falt_budget budget;
  const falt_status status = falt_problem_parse(&problem, &budget, one->line);
  if (status != FALT_OK) return cli_fail(cli_exit_status(status), "%.200s:%d: %s", path, one->number, falt_message());
  if (!one->kernel[0]) return CLI_DONE;
  cli_kernel kernel;
  io_error error;
  if (!cli_case_kernel(one, &problem, &kernel, &error))
    return cli_fail(CLI_WRONG, "%.200s:%d: %s", path, one->number, error.text);
  cli_kernel_free(&kernel);
  return CLI_DONE;
}

/* ---- the file */

static cli_case *add(cli_suite *suite) {
  if (suite->count == suite->room) {
    const int room = suite->room ? 2 * suite->room : 32;
    cli_case *larger = room <= MAX_CASES ? realloc(suite->cases, (size_t)room * sizeof *larger) : NULL;
    if (!larger) return NULL;
    suite->cases = larger;
    suite->room = room;
  }
  suite->cases[suite->count] = (cli_case){.number = 0};
  return &suite->cases[suite->count++];
}

/* One point of a walk; of a plain line the only one. */
static int read_point(const char *text, int walk, int point, int number, const char *path, cli_suite *suite) {
  char line[CLI_LINE + 1024], suffix[sizeof suite->cases->name];
  const bool fits = cli_walk_expand(text, walk, point, line, sizeof line, suffix, sizeof suffix);
  cli_case *one = add(suite);
  if (!one) return cli_fail(CLI_WRONG, "%.200s: more than %d problems or than memory; split it", path, MAX_CASES);
  one->number = number;
  if (!read_target(line, one))
    return cli_fail(CLI_WRONG, "%.200s:%d: the text after <= is not a time; write one such as <= 0.135 ms", path,
                    number);
  if (!fits || !split(line, one) || strlen(one->name) + strlen(suffix) >= sizeof one->name)
    return cli_fail(CLI_WRONG, "%.200s:%d: a name, a problem or a kernel is too long; shorten it", path, number);
  strcat(one->name, suffix);
  return check(one, path);
}

static int read_line(char *text, int number, const char *path, cli_suite *suite) {
  char *comment = strchr(text, '#');
  if (comment) *comment = '\0';
  text = trim(text);
  if (!*text) return CLI_DONE;
  cli_walk walk;
  if (!cli_walk_measure(text, &walk))
    return cli_fail(CLI_WRONG, "%.200s:%d: a list is not closed, or lists have different lengths; write c=[1,2,3]",
                    path, number);
  int status = CLI_DONE;
  for (int i = 0; i < walk.walks; i++) {
    suite->walks += walk.points > 1;
    for (int point = 0; status == CLI_DONE && point < walk.points; point++) {
      status = read_point(text, i, point, number, path, suite);
      if (status == CLI_DONE && walk.points > 1) suite->cases[suite->count - 1].walk = suite->walks;
    }
  }
  return status;
}

static int read_file(FILE *file, const char *path, cli_suite *suite) {
  char text[CLI_LINE + 1024];
  const int before = suite->count;
  int status = CLI_DONE;
  for (int number = 1; status == CLI_DONE && fgets(text, sizeof text, file); number++) {
    if (strlen(text) == sizeof text - 1)
      return cli_fail(CLI_WRONG, "%.200s:%d: the line is too long; shorten it", path, number);
    status = read_line(text, number, path, suite);
  }
  if (status == CLI_DONE && ferror(file))
    return cli_fail(CLI_WRONG, "%.200s: cannot be read: %s; name a text file", path, strerror(errno));
  if (status == CLI_DONE && suite->count == before)
    return cli_fail(CLI_WRONG,
                    "%.200s: contains no problems; write one a line, such as \"correlate h=480 w=640 r=3 s=3\"", path);
  return status;
}

/* ---- names */

/* Names and number of the suites that are shipped with the command. */
static int list_suites(char names[MAX_SUITES][64], const char *list[MAX_SUITES]) {
  char directory[PATH_MAX];
  DIR *open = cli_share_find("bench/suites", directory, sizeof directory) ? opendir(directory) : NULL;
  int count = 0;
  for (struct dirent *entry; open && count < MAX_SUITES && (entry = readdir(open)) != NULL;) {
    const size_t length = strlen(entry->d_name);
    if (length < 5 || length >= 64 || strcmp(entry->d_name + length - 4, ".txt") != 0) continue;
    snprintf(names[count], 64, "%.*s", (int)length - 4, entry->d_name);
    list[count] = names[count];
    count++;
  }
  if (open) closedir(open);
  return count;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int fail_name(const char *word) {
  char names[MAX_SUITES][64], hint[512] = "; give a file with one problem a line";
  const char *list[MAX_SUITES];
  const int count = list_suites(names, list);
  qsort(list, (size_t)count, sizeof *list, by_name);
  if (count) cli_suggestion(word, list, count, hint, sizeof hint);
  if (!*word) return cli_fail(CLI_WRONG, "no suite given: nothing to measure%s", hint);
  return cli_fail(CLI_WRONG, "%.200s: neither a suite nor a file%s", word, hint);
}

/* Gives a case the name of its suite: the file's without directory and extension. */
static void name_suite(const char *path, cli_case *one) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  snprintf(one->suite, sizeof one->suite, "%.63s", base);
  char *dot = strrchr(one->suite, '.');
  if (dot && dot != one->suite) *dot = '\0';
}

static FILE *open_suite(const char *word, char *path, size_t size) {
  char relative[256];
  struct stat state;
  const bool is_path = strchr(word, '/') || strchr(word, '.') || (stat(word, &state) == 0 && S_ISREG(state.st_mode));
  snprintf(relative, sizeof relative, "bench/suites/%.200s.txt", word);
  if (is_path)
    snprintf(path, size, "%s", word);
  else if (!cli_share_find(relative, path, size))
    return NULL;
  return fopen(path, "re");
}

int cli_suite_add(const char *word, cli_suite *suite) {
  char path[PATH_MAX];
  FILE *file = *word ? open_suite(word, path, sizeof path) : NULL;
  if (!file) return fail_name(word);
  const int before = suite->count, status = read_file(file, path, suite);
  fclose(file);
  for (int i = before; i < suite->count; i++) name_suite(path, &suite->cases[i]);
  return status;
}

void cli_suite_free(cli_suite *suite) {
  free(suite->cases);
  *suite = (cli_suite){.count = 0};
}

static void keep(cli_suite *suite, bool (*wanted)(cli_case *, const void *), const void *context) {
  int kept = 0;
  for (int i = 0; i < suite->count; i++) {
    if (!wanted(&suite->cases[i], context)) continue;
    if (kept != i) suite->cases[kept] = suite->cases[i];
    kept++;
  }
  suite->count = kept;
}

static bool is_named_so(cli_case *one, const void *text) {
  return strstr(one->name, text) != NULL;
}

void cli_suite_filter(cli_suite *suite, const char *text) {
  keep(suite, is_named_so, text);
}

static bool can_have_type(cli_case *one, const void *type) {
  const size_t length = strlen(one->line);
  falt_problem problem;
  falt_budget budget;
  if (strstr(one->line, " type=")) return true;
  const int more = snprintf(one->line + length, sizeof one->line - length, " type=%s", (const char *)type);
  return more < (int)(sizeof one->line - length) && falt_problem_parse(&problem, &budget, one->line) == FALT_OK;
}

void cli_suite_retype(cli_suite *suite, falt_type type) {
  keep(suite, can_have_type, falt_type_name(type));
}

int cli_suite_keep(const cli_options *options, cli_suite *suite) {
  if (options->filter) cli_suite_filter(suite, options->filter);
  if (suite->count == 0)
    return cli_fail(CLI_WRONG, "--filter %.60s: no problem of the suite has this in its name; omit it to run all",
                    options->filter);
  if (options->retype >= 0) cli_suite_retype(suite, (falt_type)options->retype);
  if (suite->count > 0) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--type %s: no problem of the suite is defined for it; use f32, bf16 or f16",
                  falt_type_name((falt_type)options->retype));
}

/* ---- drawing */

static bool is_same_line(const cli_case *a, const cli_case *b) {
  return a->number == b->number && strcmp(a->suite, b->suite) == 0;
}

/* A number from 0 to count - 1, the next of the seed's. */
static int draw(uint64_t *seed, int count) {
  double value; /* in [-1, 1) */
  falt_random_fill(&value, FALT_F64, 1, (*seed)++);
  const int index = (int)(0.5 * (value + 1) * count);
  return index < count ? index : count - 1;
}

static void swap(cli_case *a, cli_case *b) {
  const cli_case moving = *a;
  *a = *b;
  *b = moving;
}

/* Shuffles each line's cases, and numbers them: cases of low numbers are kept first. */
static void shuffle_lines(cli_suite *suite, int *order, uint64_t seed) {
  for (int first = 0, end; first < suite->count; first = end) {
    for (end = first + 1; end < suite->count && is_same_line(&suite->cases[first], &suite->cases[end]);) end++;
    for (int i = first; i < end; i++) {
      swap(&suite->cases[i], &suite->cases[i + draw(&seed, end - i)]);
      order[i] = i - first;
    }
  }
}

/* The number of cases of an order. */
static int64_t count_order(const cli_suite *suite, const int *order, int wanted) {
  int64_t count = 0;
  for (int i = 0; i < suite->count; i++) count += order[i] == wanted;
  return count;
}

/* Sets *last so that all cases of lower orders are kept, and *part of *whole cases of that order. */
static void find_last(const cli_suite *suite, const int *order, int64_t count, int *last, int64_t *part,
                      int64_t *whole) {
  *part = count;
  for (*last = 0; (*whole = count_order(suite, order, *last)) < *part && *whole > 0; ++*last) *part -= *whole;
}

int cli_suite_draw(cli_suite *suite, int64_t count, uint64_t seed) {
  int *order = malloc((size_t)suite->count * sizeof *order);
  if (!order) return cli_fail(CLI_IMPOSSIBLE, "suites: memory ran out; name fewer");
  int64_t part, whole, seen = 0;
  int last, kept = 0;
  shuffle_lines(suite, order, seed << 32);
  find_last(suite, order, count, &last, &part, &whole);
  for (int i = 0; i < suite->count; i++) {
    if (order[i] > last) continue;
    if (order[i] == last) {
      const int64_t before = seen * part / whole; /* spread over the lines */
      if (++seen * part / whole == before) continue;
    }
    if (kept != i) suite->cases[kept] = suite->cases[i];
    kept++;
  }
  suite->count = kept;
  suite->walks = 0;
  free(order);
  return CLI_DONE;
}
