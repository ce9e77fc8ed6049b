/* One JSON object on one line, the answer format of peers: text, numbers, true, false and null, without nesting. */
#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *skip(char *at) {
  return at + strspn(at, " \t\r\n");
}

/* Writes a character of 16 bits as UTF-8; halves of a pair become question marks. */
static char *put(char *to, unsigned long point) {
  if (point == 0 || (point >= 0xd800 && point < 0xe000)) point = '?';
  if (point < 0x80) {
    *to++ = (char)point;
  } else if (point < 0x800) {
    *to++ = (char)(0xc0 | point >> 6);
    *to++ = (char)(0x80 | (point & 0x3f));
  } else {
    *to++ = (char)(0xe0 | point >> 12);
    *to++ = (char)(0x80 | (point >> 6 & 0x3f));
    *to++ = (char)(0x80 | (point & 0x3f));
  }
  return to;
}

/* One escape after its backslash; the character behind it, or NULL. */
static char *unescape(char *at, char **to) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const char *letter = *at ? strchr(letters, *at) : NULL;
  if (letter) {
    *(*to)++ = meanings[letter - letters];
    return at + 1;
  }
  char digits[5] = "";
  if (*at != 'u') return NULL;
  memcpy(digits, at + 1, strnlen(at + 1, 4));
  if (strspn(digits, "0123456789abcdefABCDEF") != 4) return NULL;
  *to = put(*to, strtoul(digits, NULL, 16));
  return at + 5;
}

/* A string at its opening quote, decoded in place (it only shrinks); the text after it, or NULL. */
static char *read_text(char *at, const char **text) {
  if (*at++ != '"') return NULL;
  char *to = at;
  *text = at;
  while (at && *at && *at != '"') {
    if (*at == '\\')
      at = unescape(at + 1, &to);
    else
      *to++ = *at++;
  }
  if (!at || *at != '"') return NULL;
  *to = '\0';
  return at + 1;
}

static char *read_value(char *at, const char **text, double *number) {
  static const struct {
    const char *word;
    double number;
  } words[] = {{"null", NAN}, {"true", 1}, {"false", 0}};
  *text = NULL;
  *number = NAN;
  if (*at == '"') return read_text(at, text);
  for (int i = 0; i < 3; i++) {
    const size_t length = strlen(words[i].word);
    if (strncmp(at, words[i].word, length) != 0) continue;
    *number = words[i].number;
    return at + length;
  }
  if (*at != '-' && (*at < '0' || *at > '9')) return NULL;
  char *end;
  *number = strtod(at, &end);
  return end;
}

static char *read_field(char *at, cli_answer *answer) {
  if (answer->count == CLI_ANSWER_FIELDS) return NULL;
  const int i = answer->count++;
  at = read_text(skip(at), &answer->field[i].key);
  if (!at || *(at = skip(at)) != ':') return NULL;
  return read_value(skip(at + 1), &answer->field[i].text, &answer->field[i].number);
}

bool cli_answer_parse(cli_answer *answer) {
  answer->count = 0;
  char *at = skip(answer->line);
  if (*at++ != '{') return false;
  at = skip(at);
  if (*at == '}') return *skip(at + 1) == '\0';
  for (;;) {
    at = read_field(at, answer);
    if (!at) return false;
    at = skip(at);
    if (*at == '}') return *skip(at + 1) == '\0';
    if (*at++ != ',') return false;
  }
}

static int find(const cli_answer *answer, const char *key) {
  for (int i = 0; i < answer->count; i++)
    if (strcmp(answer->field[i].key, key) == 0) return i;
  return -1;
}

const char *cli_answer_text(const cli_answer *answer, const char *key) {
  const int i = find(answer, key);
  return i < 0 ? NULL : answer->field[i].text;
}

double cli_answer_number(const cli_answer *answer, const char *key) {
  const int i = find(answer, key);
  return i < 0 ? NAN : answer->field[i].number;
}
