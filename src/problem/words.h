/* Declarations that the parser and the printer of words share. Private to words.c, word_text.c and boundary.c. */
#ifndef FALT_PROBLEM_WORDS_H
#define FALT_PROBLEM_WORDS_H

#include "problem/line.h"

/* "problem: name=text: why". */
falt_status falt_word_bad(falt_status status, const falt_word *word, const char *text, size_t length, const char *why);
/* "problem: unknown name 'text'", and the nearest of the names or all of them. */
falt_status falt_word_unknown(const falt_word *word, const char *text, size_t length, const char *const *names,
                              int count);
/* What a line writes for another library's word: text is a value of the word `kind`, or a word itself (kind "word"), or
 * an operation. NULL where nothing is known. A type's hint has no word and equals sign before it. */
const char *falt_word_hint(const char *kind, const char *text, size_t length);
falt_status falt_word_number(const falt_word *word, const char *text, size_t length, double *value);
/* The next piece of text up to `mark`, which is stepped over; false at the end. */
bool falt_next_piece(const char **text, size_t *length, char mark, const char **piece, size_t *piece_length);
/* Axis of "y=..." or "h=...", or -1. */
int falt_axis_named(const char *text, size_t length);
/* Reads the piece of one axis. */
typedef falt_status falt_axis_reader(const falt_word *word, falt_line *line, int axis, const char *text, size_t length);
/* Reads AXIS=PIECE,AXIS=PIECE and calls read for each piece; *axes gets their bits. */
falt_status falt_read_axes(const falt_word *word, falt_line *line, const char *text, size_t length, unsigned *axes,
                           falt_axis_reader *read);
/* " name=". */
void falt_word_begin(const falt_word *word, falt_text *text);

falt_status falt_read_boundary(const falt_word *word, falt_line *line, const char *text, size_t length);
void falt_write_boundary(const falt_word *word, const falt_line *line, falt_text *text);
falt_status falt_read_value(const falt_word *word, falt_line *line, const char *text, size_t length);

#endif
