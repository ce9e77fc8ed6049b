/* What readers and writers of words share: pieces of text, numbers, and errors that name a word. */
#include <math.h>
#include <string.h>

#include "problem/words.h"

falt_quote falt_quoted(const char *text, size_t length) {
  falt_quote quote = {""};
  size_t room = sizeof quote.text - 4, kept = length < room ? length : room;
  for (size_t i = 0; i < kept; i++) quote.text[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
  if (kept < length) memcpy(quote.text + kept, "...", 4);
  return quote;
}

falt_status falt_word_bad(falt_status status, const falt_word *word, const char *text, size_t length, const char *why) {
  return falt_fail(status, "problem: %s=%s: %s", word->name, falt_quoted(text, length).text, why);
}

falt_status falt_word_unknown(const falt_word *word, const char *text, size_t length, const char *const *names,
                              int count) {
  const char *hint = falt_word_hint(word->name, text, length);
  falt_quote quote = falt_quoted(text, length);
  if (hint) {
    const bool whole = strchr(hint, '=') != NULL;
    return falt_fail(FALT_INVALID_TEXT, "problem: %s=%s: unknown; write %s%s%s", word->name, quote.text,
                     whole ? "" : word->name, whole ? "" : "=", hint);
  }
  const char *near = falt_nearest_name(text, length, names, count);
  if (near)
    return falt_fail(FALT_INVALID_TEXT, "problem: unknown %s '%s'; did you mean '%s'?", word->name, quote.text, near);
  falt_text all = {(char[160]){""}, 160, 0};
  for (int i = 0; i < count; i++) {
    if (names[i]) falt_text_add(&all, "%s%s", all.length ? " " : "", names[i]);
  }
  return falt_fail(FALT_INVALID_TEXT, "problem: unknown %s '%s'; it is one of %s", word->name, quote.text, all.data);
}

void falt_word_begin(const falt_word *word, falt_text *text) {
  falt_text_add(text, " %s=", word->name);
}

bool falt_next_piece(const char **text, size_t *length, char mark, const char **piece, size_t *piece_length) {
  if (!*text) return false;
  const char *end = memchr(*text, mark, *length);
  *piece = *text;
  *piece_length = end ? (size_t)(end - *text) : *length;
  *length -= end ? *piece_length + 1 : *length;
  *text = end ? end + 1 : NULL;
  return true;
}

falt_status falt_word_number(const falt_word *word, const char *text, size_t length, double *value) {
  if (!falt_read_double(text, length, value))
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "a number is expected");
  if (isnan(*value)) return falt_word_bad(FALT_INVALID_ARGUMENT, word, text, length, "not a number");
  return FALT_OK;
}
