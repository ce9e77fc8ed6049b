/* Fuzzes a peer's answer: an accepted line has keys, text and numbers inside its own bounds. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(const cli_answer *answer, const char *text) {
  if (text < answer->line || text + strlen(text) >= answer->line + sizeof answer->line) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cli_answer *answer = malloc(sizeof *answer);
  if (!answer || size >= sizeof answer->line) {
    free(answer);
    return 0;
  }
  memset(answer, 0x55, sizeof *answer);
  memcpy(answer->line, data, size);
  answer->line[size] = '\0';
  if (cli_answer_parse(answer)) {
    if (answer->count < 0 || answer->count > CLI_ANSWER_FIELDS) abort();
    for (int i = 0; i < answer->count; i++) {
      check_inside(answer, answer->field[i].key);
      if (answer->field[i].text) check_inside(answer, answer->field[i].text);
      cli_answer_text(answer, answer->field[i].key);
      cli_answer_number(answer, answer->field[i].key);
    }
  }
  free(answer);
  return 0;
}
