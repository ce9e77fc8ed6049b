/* Reduces a failing problem: removes a word, lowers a number, or replaces a rare type by a common one, one change at a
 * time, and keeps the line if the same solver still fails. Every change lowers the line's weight, so the reduction
 * ends; the number of attempts and the time are also bounded. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "verify.h"

enum { MOST_WORDS = 64, MOST_ATTEMPTS = 600 };
static const double most_seconds = 90, most_for_one = 20;

typedef struct words {
  int count;
  char text[CLI_LINE]; /* the words, each ended by 0 */
  char *word[MOST_WORDS];
} words;

typedef struct shrinking {
  const cli_run *run;
  cli_failure *failure;
  char solver[32], method[32], line[CLI_LINE]; /* method: the only solver that a probe runs; empty: all */
  bool crashed;
  int attempts;
  double began;
} shrinking;

/* ---- lines */

static void split(words *w, const char *line) {
  w->count = 0;
  snprintf(w->text, sizeof w->text, "%s", line);
  char *rest = NULL;
  for (char *at = strtok_r(w->text, " ", &rest); at && w->count < MOST_WORDS; at = strtok_r(NULL, " ", &rest))
    w->word[w->count++] = at;
}

/* The words with one of them replaced, or removed if there is no replacement. */
static void join(const words *w, int which, const char *instead, char line[CLI_LINE]) {
  size_t used = 0;
  line[0] = '\0';
  for (int i = 0; i < w->count && used < CLI_LINE; i++) {
    const char *word = i == which ? instead : w->word[i];
    if (word) used += (size_t)snprintf(line + used, CLI_LINE - used, "%s%s", used ? " " : "", word);
  }
}

static bool begins_number(const char *word, const char *at) {
  return strchr("=x:,-", at[-1]) && at > word && isdigit((unsigned char)*at);
}

/* Many words and large numbers weigh much. */
static double weight(const char *line) {
  double sum = 0;
  for (const char *at = strchr(line, '='); at && *at; at++) {
    sum += *at == '=' ? 30 : 0.01;
    if (begins_number(line, at)) sum += strtod(at, NULL);
  }
  return sum;
}

/* ---- attempts */

static double patience(const shrinking *s) {
  return s->run->limit < most_for_one ? s->run->limit : most_for_one;
}

static bool fails_alike(shrinking *s, const char *line) {
  cli_failure failure = *s->failure;
  s->attempts++;
  const cli_outcome outcome = cli_probe(s->run, line, s->method, s->failure->seed, patience(s), &failure);
  const bool alike =
      s->crashed ? outcome == CLI_CRASHES : outcome == CLI_FAILS && strcmp(failure.solver, s->solver) == 0;
  if (alike) *s->failure = failure;
  return alike;
}

/* True, and the line is kept, if it is lighter, legal and fails. */
static bool keep(shrinking *s, const char *line) {
  falt_problem problem;
  falt_budget budget;
  char canonical[CLI_LINE];
  if (s->attempts >= MOST_ATTEMPTS || cli_seconds() - s->began > most_seconds || cli_interrupted()) return false;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) return false;
  falt_problem_print(&problem, &budget, canonical, sizeof canonical);
  if (weight(canonical) >= weight(s->line) || !fails_alike(s, canonical)) return false;
  memcpy(s->line, canonical, sizeof s->line);
  return true;
}

static bool replace(shrinking *s, const words *w, int which, const char *instead) {
  char line[CLI_LINE];
  join(w, which, instead, line);
  return keep(s, line);
}

/* ---- changes to one word; each returns true once it made the line lighter */

static bool leave_out(shrinking *s, const words *w, int which) {
  return replace(s, w, which, NULL);
}

static bool lower_numbers(shrinking *s, const words *w, int which) {
  const char *word = w->word[which];
  for (const char *at = strchr(word, '='); at && *at; at++) {
    if (!begins_number(word, at)) continue;
    char *end;
    const long long value = strtoll(at, &end, 10);
    const long long tries[] = {0, 1, 2, value / 4, value / 2, value - value / 4, value - 1};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
      char other[CLI_LINE];
      if (tries[i] >= value || tries[i] < 0) continue;
      snprintf(other, sizeof other, "%.*s%lld%s", (int)(at - word), word, tries[i], end);
      if (replace(s, w, which, other)) return true;
    }
    at = end - 1;
  }
  return false;
}

static bool plainer_name(shrinking *s, const words *w, int which) {
  static const char *const plainer[][2] = {
      {"boundary=", "boundary=edge"}, {"act=", "act=relu"}, {"residual-type=", NULL}};
  for (size_t i = 0; i < sizeof plainer / sizeof *plainer; i++) {
    const char *name = plainer[i][0], *to = plainer[i][1];
    if (strncmp(w->word[which], name, strlen(name)) == 0 && to && strcmp(w->word[which], to) != 0 &&
        strlen(w->word[which]) > strlen(to) && replace(s, w, which, to))
      return true;
  }
  return false;
}

typedef bool (*change)(shrinking *s, const words *w, int which);
static const change changes[] = {leave_out, lower_numbers, plainer_name};

/* ---- changes to the whole line */

static long long number_of(const words *w, const char *name, long long absent) {
  for (int i = 0; i < w->count; i++) {
    const size_t length = strlen(name);
    if (strncmp(w->word[i], name, length) == 0 && w->word[i][length] == '=')
      return strtoll(w->word[i] + length + 1, NULL, 10);
  }
  return absent;
}

static void without(const words *w, const char *const *names, int count, char line[CLI_LINE]) {
  words rest = {0};
  for (int i = 0; i < w->count; i++) {
    bool leave = false;
    for (int n = 0; n < count; n++) {
      const size_t length = strlen(names[n]);
      leave |= strncmp(w->word[i], names[n], length) == 0 && w->word[i][length] == '=';
    }
    if (!leave) rest.word[rest.count++] = w->word[i];
  }
  join(&rest, -1, NULL, line);
}

/* Fewer groups of the same channels, or fewer channels in the same groups. */
static bool lower_channels(shrinking *s) {
  static const char *const names[] = {"c", "k", "groups"};
  words w;
  char rest[CLI_LINE], line[CLI_LINE];
  split(&w, s->line);
  const long long groups = number_of(&w, "groups", 1), c = number_of(&w, "c", 0), k = number_of(&w, "k", 0);
  if (!c || !k || groups <= 1) return false;
  without(&w, names, 3, rest);
  const long long in = c / groups, out = k / groups;
  const long long tries[][3] = {{1, in, out},          {2, in, out},          {groups / 2, in, out},
                                {groups - 1, in, out}, {groups, 1, 1},        {groups, 1, out},
                                {groups, in, 1},       {groups, in / 2, out}, {groups, in - 1, out},
                                {groups, in, out / 2}, {groups, in, out - 1}};
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    const long long *t = tries[i];
    if (t[0] < 1 || t[1] < 1 || t[2] < 1) continue;
    snprintf(line, sizeof line, "%.1900s c=%lld k=%lld groups=%lld", rest, t[0] * t[1], t[0] * t[2], t[0]);
    if (keep(s, line)) return true;
  }
  return false;
}

/* Dense tensors, so that sizes may change. */
static bool drop_places(shrinking *s) {
  static const char *const names[] = {"input-strides", "filter-strides", "output-strides", "residual-strides",
                                      "input-offset",  "filter-offset",  "output-offset",  "residual-offset"};
  words w;
  char line[CLI_LINE];
  split(&w, s->line);
  without(&w, names, sizeof names / sizeof *names, line);
  return keep(s, line);
}

static bool change_words(shrinking *s) {
  words w;
  bool any = false;
  for (size_t c = 0; c < sizeof changes / sizeof *changes; c++)
    for (int i = 1;; i++) {
      split(&w, s->line);
      if (i >= w.count) break;
      any |= changes[c](s, &w, i);
    }
  return any;
}

/* Finds the solver that crashes when run alone; none if all pass alone. */
static void find_solver(shrinking *s) {
  const char *name;
  for (int i = 0; i < CLI_MOST_SOLVERS && (name = falt_solver_name(i)); i++) {
    cli_failure failure = *s->failure;
    if (cli_probe(s->run, s->line, name, s->failure->seed, patience(s), &failure) != CLI_CRASHES) continue;
    snprintf(s->method, sizeof s->method, "%s", name);
    snprintf(s->solver, sizeof s->solver, "%s", name);
    return;
  }
}

bool cli_shrink(const cli_run *run, char line[CLI_LINE], cli_failure *failure) {
  shrinking s = {.run = run, .failure = failure, .crashed = failure->crashed, .began = cli_seconds()};
  if (failure->why[0] && !failure->crashed) return false;
  snprintf(s.solver, sizeof s.solver, "%s", failure->solver);
  snprintf(s.method, sizeof s.method, "%s", failure->solver);
  snprintf(s.line, sizeof s.line, "%s", line);
  if (s.crashed) find_solver(&s);
  if (!fails_alike(&s, s.line)) {
    s.method[0] = '\0';
    if (!fails_alike(&s, s.line)) return false;
  }
  bool smaller = true;
  while (smaller) {
    smaller = drop_places(&s);
    smaller |= lower_channels(&s);
    smaller |= change_words(&s);
  }
  memcpy(failure->solver, s.solver, sizeof failure->solver);
  memcpy(line, s.line, CLI_LINE);
  return true;
}
