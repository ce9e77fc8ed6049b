/* Fuzzes a suite line that expands to many problems: each result is a line without brackets or braces, within the
 * buffer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64, ROOM = 40 };

static void check_point(const char *line, int walk, int point, size_t size) {
  char *text = malloc(size), *suffix = malloc(ROOM);
  if (!text || !suffix) abort();
  cli_walk again;
  if (cli_walk_expand(line, walk, point, text, size, suffix, ROOM)) {
    if (strlen(text) >= size || strlen(suffix) >= ROOM) abort();
    if (!cli_walk_measure(text, &again) || again.walks != 1 || again.points != 1) abort();
  }
  free(text);
  free(suffix);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *line = malloc(size + 1);
  cli_walk walk;
  if (!line) return 0;
  memcpy(line, data, size);
  line[size] = '\0';
  if (cli_walk_measure(line, &walk)) {
    if (walk.walks < 1 || walk.points < 1) abort();
    for (int i = 0; i < walk.walks && i < MOST; i++)
      for (int point = 0; point < walk.points && point < MOST; point++) {
        check_point(line, i, point, size + 64);
        check_point(line, i, point, 16);
      }
  }
  free(line);
  return 0;
}
