/* Text: a bounded writer, integers and decimals in the "C" locale for any locale of the program, and similar names. F.
 * J. Damerau, "A technique for computer detection and correction of spelling errors", 1964. */
#include "core/text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

/* Decimals have a point, also in a program that speaks French. Entering and leaving costs no allocation: "C" is built
 * into the C library. */
typedef struct c_locale {
  locale_t plain, before;
} c_locale;

static c_locale enter_c_locale(void) {
  c_locale here = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
  if (here.plain) here.before = uselocale(here.plain);
  return here;
}

static void leave_c_locale(c_locale here) {
  if (!here.plain) return;
  uselocale(here.before);
  freelocale(here.plain);
}

falt_text falt_text_over(char *data, size_t size) {
  if (size) data[0] = '\0';
  return (falt_text){data, size, 0};
}

void falt_text_add(falt_text *text, const char *format, ...) {
  const bool full = text->length >= text->size;
  const c_locale here = enter_c_locale();
  va_list arguments;
  va_start(arguments, format);
  const int added =
      vsnprintf(full ? NULL : text->data + text->length, full ? 0 : text->size - text->length, format, arguments);
  va_end(arguments);
  leave_c_locale(here);
  if (added > 0) text->length += (size_t)added;
}

/* Whole numbers are written out as people do; %g would make 1e+02 of 100. */
static void shortest_decimal(char *number, size_t size, double value) {
  if (fabs(value) < 1e15 && value == trunc(value)) {
    snprintf(number, size, "%.0f", value);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(number, size, "%.*g", digits, value);
    if (strtod(number, NULL) == value) return;
  }
}

void falt_text_add_double(falt_text *text, double value) {
  char number[32] = "nan";
  const c_locale here = enter_c_locale();
  if (!isnan(value)) shortest_decimal(number, sizeof number, value);
  leave_c_locale(here);
  falt_text_add(text, "%s", number);
}

bool falt_read_int(const char *text, size_t length, int64_t *value) {
  const bool minus = length > 0 && text[0] == '-';
  size_t i = length > 0 && (minus || text[0] == '+');
  if (i == length) return false;
  int64_t number = 0;
  for (; i < length; i++) {
    const int digit = text[i] - '0';
    if (digit < 0 || digit > 9) return false;
    if (!falt_mul(number, 10, &number)) return false;
    if (!falt_add(number, minus ? -digit : digit, &number)) return false;
  }
  *value = number;
  return true;
}

static bool is_word(const char *text, const char *word) {
  for (; *word; text++, word++)
    if (tolower((unsigned char)*text) != *word) return false;
  return *text == '\0';
}

bool falt_read_double(const char *text, size_t length, double *value) {
  char number[512];
  if (length == 0 || length >= sizeof number || memchr(text, '\0', length)) return false;
  memcpy(number, text, length);
  number[length] = '\0';
  const char *magnitude = number + (number[0] == '-' || number[0] == '+');
  const bool is_infinity = is_word(magnitude, "inf") || is_word(magnitude, "infinity");
  const bool is_special = is_infinity || is_word(magnitude, "nan");
  if (!is_special && number[strspn(number, "0123456789.eE+-")]) return false; /* no spaces, no hexadecimal */

  char *end;
  const c_locale here = enter_c_locale();
  const double read = strtod(number, &end);
  leave_c_locale(here);
  if (end != number + length || (isinf(read) && !is_infinity)) return false;
  *value = read;
  return true;
}

int falt_find_name(const char *text, size_t length, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (names[i] && strlen(names[i]) == length && memcmp(names[i], text, length) == 0) return i;
  return -1;
}

enum { LONGEST_NAME = 64 };

static int least(int a, int b) {
  return a < b ? a : b;
}

/* Names are in ASCII. */
static char small_letter(char letter) {
  return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* The letters that occur, as a set of their low five bits, which are the same for small and capital ones. */
static uint32_t letters_in(const char *text, size_t length) {
  uint32_t letters = 0;
  for (size_t i = 0; i < length; i++) letters |= UINT32_C(1) << (text[i] & 31);
  return letters;
}

/* Changes of a text that are at least needed: each brings one letter that it lacks, or removes one that the name lacks.
 */
static int least_distance(uint32_t text, uint32_t name) {
  const int lacking = __builtin_popcount(name & ~text), beside = __builtin_popcount(text & ~name);
  return lacking > beside ? lacking : beside;
}

/* The fewest insertions, deletions, replacements and swaps of neighbours that transform a into b, or more than `most`
 * if these do not suffice. Row i holds the distances of a's first i letters from prefixes of b, of which only those
 * whose lengths differ from i by at most `most` are needed (Ukkonen, 1985); three rows are enough because a swap looks
 * back two. Letters are small. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length, int most) {
  int rows[3][LONGEST_NAME + 2], before = 0;
  for (int j = 0; j <= least(b_length, most); j++) rows[0][j] = j;
  rows[0][least(b_length, most) + 1] = most + 1;
  for (int i = 1; i <= a_length; i++) {
    int *row = rows[i % 3], fewest = most + 1;
    const int *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
    const int first = i > most ? i - most : 1, last = least(b_length, i + most);
    row[first - 1] = i > most ? most + 1 : i;
    for (int j = first; j <= last; j++) {
      row[j] = least(least(up[j], row[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = least(row[j], up2[j - 2] + 1);
      fewest = least(fewest, row[j]);
    }
    row[last + 1] = most + 1;
    fewest = least(fewest, row[first - 1]);
    if (fewest > most && before >= most) return most + 1; /* neither this row nor a swap from the one before leads on */
    before = fewest;
  }
  return rows[a_length % 3][b_length];
}

const char *falt_nearest_name(const char *text, size_t length, const char *const *names, int count) {
  const char *nearest = NULL;
  char wrong[LONGEST_NAME], name[LONGEST_NAME];
  int fewest = 2 * LONGEST_NAME;
  if (length == 0 || length > LONGEST_NAME) return NULL;
  for (size_t i = 0; i < length; i++) wrong[i] = small_letter(text[i]);
  const uint32_t letters = letters_in(text, length);
  for (int i = 0; i < count; i++) {
    const size_t name_length = names[i] ? strlen(names[i]) : 0;
    if (name_length == 0 || name_length > LONGEST_NAME) continue;
    const int longer = (int)(length > name_length ? length : name_length), most = least(longer / 2, fewest - 1);
    if (2 * longer - (int)(length + name_length) > most) continue;
    if (least_distance(letters, letters_in(names[i], name_length)) > most) continue;
    for (size_t j = 0; j < name_length; j++) name[j] = small_letter(names[i][j]);
    const int distance = edit_distance(wrong, (int)length, name, (int)name_length, most);
    if (distance > most) continue;
    fewest = distance;
    nearest = names[i];
  }
  return nearest;
}
