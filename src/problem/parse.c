/* Reading a problem line: an operation, then words of the form name=value in any order, each at most once. */
#include <string.h>

#include "problem/words.h"

static const char blanks[] = " \t\r\n\v\f";

/* The next run of anything but blanks; false at the end of the line. */
static bool next_token(const char **line, const char **token, size_t *length) {
  *token = *line + strspn(*line, blanks);
  *length = strcspn(*token, blanks);
  *line = *token + *length;
  return *length > 0;
}

static falt_status read_verb(const char **line, int *verb) {
  const char *token, *names[FALT_VERB_COUNT];
  size_t length;
  for (int i = 0; i < FALT_VERB_COUNT; i++) names[i] = falt_verb_name(i);
  if (!next_token(line, &token, &length))
    return falt_fail(FALT_INVALID_TEXT, "problem: the line is empty; it begins with an operation such as correlate");
  *verb = falt_find_name(token, length, names, FALT_VERB_COUNT);
  if (*verb >= 0) return FALT_OK;
  const char *hint = falt_word_hint("operation", token, length);
  falt_quote quote = falt_quoted(token, length);
  if (hint) return falt_fail(FALT_INVALID_TEXT, "problem: unknown operation '%s'; write %s", quote.text, hint);
  const char *near = falt_nearest_name(token, length, names, FALT_VERB_COUNT);
  if (near)
    return falt_fail(FALT_INVALID_TEXT, "problem: unknown operation '%s'; did you mean '%s'?", quote.text, near);
  return falt_fail(FALT_INVALID_TEXT,
                   "problem: unknown operation '%s'; a line begins with one, such as correlate, forward or maxpool",
                   quote.text);
}

/* Names the word that is near, among those that may stand here. */
static falt_status unknown_word(const char *name, size_t length, unsigned families) {
  const char *names[FALT_WORD_COUNT] = {NULL};
  const char *hint = falt_word_hint("word", name, length);
  falt_quote quote = falt_quoted(name, length);
  if (hint) return falt_fail(FALT_INVALID_TEXT, "problem: unknown word '%s'; write %s", quote.text, hint);
  for (int i = 0; i < FALT_WORD_COUNT; i++) {
    if (falt_words[i].families & families) names[i] = falt_words[i].name;
  }
  const char *near = falt_nearest_name(name, length, names, FALT_WORD_COUNT);
  if (near) return falt_fail(FALT_INVALID_TEXT, "problem: unknown word '%s'; did you mean '%s'?", quote.text, near);
  return falt_fail(FALT_INVALID_TEXT, "problem: unknown word '%s'; docs/guide/problem-line.md lists the words",
                   quote.text);
}

static falt_status misplaced_word(const falt_word *word, int verb) {
  if (word->families & FALT_OF_BUDGETS)
    return falt_fail(FALT_INVALID_TEXT, "problem: '%s' belongs to a plan's budget, which is not read here", word->name);
  return falt_fail(FALT_INVALID_TEXT, "problem: '%s' is no word of %s", word->name, falt_verb_name(verb));
}

/* The word before '=' in a token, allowed by the families, and not seen before. */
static falt_status find_word(const char *token, size_t length, unsigned families, int verb, uint64_t *seen,
                             const falt_word **word) {
  const char *names[FALT_WORD_COUNT];
  const char *equals = memchr(token, '=', length);
  size_t name = equals ? (size_t)(equals - token) : length;
  for (int i = 0; i < FALT_WORD_COUNT; i++) names[i] = falt_words[i].name;
  int found = falt_find_name(token, name, names, FALT_WORD_COUNT);
  if (found < 0) return unknown_word(token, name, families);
  *word = &falt_words[found];
  if (!((*word)->families & families)) return misplaced_word(*word, verb);
  if (!equals || equals == token + length - 1)
    return falt_fail(FALT_INVALID_TEXT, "problem: '%s' has no value; write %s=VALUE", (*word)->name, (*word)->name);
  if (*seen >> found & 1)
    return falt_fail(FALT_INVALID_TEXT, "problem: '%s' is given twice; give it once", (*word)->name);
  *seen |= UINT64_C(1) << found;
  return FALT_OK;
}

static falt_status read_line(const char *text, bool with_budget, falt_line *line) {
  const char *token;
  size_t length;
  uint64_t seen = 0;
  falt_line_default(line);
  FALT_TRY(read_verb(&text, &line->verb));
  unsigned families = falt_verb_family(line->verb) | (with_budget ? FALT_OF_BUDGETS : 0);
  while (next_token(&text, &token, &length)) {
    const falt_word *word = NULL;
    FALT_TRY(find_word(token, length, families, line->verb, &seen, &word));
    size_t name = strlen(word->name) + 1;
    FALT_TRY(word->read(word, line, token + name, length - name));
  }
  return FALT_OK;
}

falt_status falt_problem_parse(falt_problem *problem, falt_budget *budget, const char *text) {
  falt_line line;
  falt_problem built;
  if (!problem || !text) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", problem ? "line" : "problem");
  FALT_TRY(read_line(text, budget != NULL, &line));
  FALT_TRY(falt_line_build(&line, &built));
  *problem = built;
  if (budget) *budget = line.budget;
  return FALT_OK;
}
