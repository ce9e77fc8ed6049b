/* One JSON object on one line, the answer format of peers: text, numbers, true, false and null, without nesting. */
#ifndef FALT_CLI_ANSWER_H
#define FALT_CLI_ANSWER_H

#include <stdbool.h>

enum { CLI_ANSWER_LINE = 4096, CLI_ANSWER_FIELDS = 32 };

typedef struct cli_answer {
  char line[CLI_ANSWER_LINE]; /* parsed in place */
  int count;
  struct {
    const char *key, *text; /* text: NULL unless the value is one */
    double number;          /* NaN unless the value is one; 1 and 0 for true and false */
  } field[CLI_ANSWER_FIELDS];
} cli_answer;

/* Parses answer->line; false if it is not such an object. */
bool cli_answer_parse(cli_answer *answer);
/* The text of a key, NULL if it is absent or no text. */
const char *cli_answer_text(const cli_answer *answer, const char *key);
/* The number of a key, NaN if it is absent or none. */
double cli_answer_number(const cli_answer *answer, const char *key);

#endif
