/* Prints a problem as its canonical line: the operation, then each word that differs from its default, in the order
 * of the table. An illegal problem has no line: the reason is printed instead, in parentheses, which does not parse. */
#include "problem/line.h"

size_t falt_problem_print(const falt_problem *problem, const falt_budget *budget, char *text, size_t size) {
  falt_text out = falt_text_over(text, size);
  if (!problem) return 0;
  falt_problem canonical = *problem;
  falt_line line;
  if (falt_problem_check(problem) != FALT_OK) {
    falt_text_add(&out, "(%s)", falt_message());
    return out.length;
  }
  falt_problem_canonical(&canonical);
  falt_line_describe(&canonical, &line);
  if (budget) line.budget = *budget;
  falt_text_add(&out, "%s", falt_verb_name(line.verb));
  for (int i = 0; i < FALT_WORD_COUNT; i++) falt_words[i].write(&falt_words[i], &line, &out);
  return out.length;
}
