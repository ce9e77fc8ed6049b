/* Parsing and printing the header of .npy files. See npy_header.h. */
#include "io/npy_header.h"

#include <stdio.h>
#include <string.h>

/* Type codes as NumPy writes them, behind the byte order. Booleans are bytes of 0 and 1. NumPy has no bfloat16;
 * ml_dtypes stores its own as two opaque bytes. */
static const struct {
  char code[3];
  falt_type type;
  io_wide wide;
} codes[] = {
    {"u1", FALT_U8, IO_NARROW},   {"i1", FALT_S8, IO_NARROW},  {"u2", FALT_U16, IO_NARROW}, {"i2", FALT_S16, IO_NARROW},
    {"i4", FALT_S32, IO_NARROW},  {"f2", FALT_F16, IO_NARROW}, {"f4", FALT_F32, IO_NARROW}, {"f8", FALT_F64, IO_NARROW},
    {"V2", FALT_BF16, IO_NARROW}, {"b1", FALT_U8, IO_NARROW},  {"u4", FALT_F64, IO_U32},    {"i8", FALT_F64, IO_S64},
    {"u8", FALT_F64, IO_U64},
};
enum { CODES = sizeof codes / sizeof codes[0] };

static const bool big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

typedef struct cursor {
  const char *at, *end;
  const char *name;
  io_error *error;
} cursor;

typedef struct slice {
  const char *text;
  int length;
} slice;

static bool malformed(const cursor *c, const char *why) {
  return io_fail(c->error, "%s: is not a valid .npy file: %s; write it again with numpy.save", c->name, why);
}

static void skip_space(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static bool accept(cursor *c, char expected) {
  skip_space(c);
  if (c->at == c->end || *c->at != expected) return false;
  c->at++;
  return true;
}

static bool accept_word(cursor *c, const char *word) {
  const size_t length = strlen(word);
  skip_space(c);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
  c->at += length;
  return true;
}

/* A string literal without escapes, which no key and no supported type needs. */
static bool parse_string(cursor *c, slice *out) {
  skip_space(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return malformed(c, "a string is missing in its header");
  const char quote = *c->at++;
  const char *start = c->at;
  while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at != '\n') c->at++;
  if (c->at == c->end || *c->at != quote) return malformed(c, "a string in its header does not end");
  *out = (slice){start, (int)(c->at - start)};
  c->at++;
  return true;
}

static bool is_slice(slice s, const char *text) {
  return (size_t)s.length == strlen(text) && memcmp(s.text, text, (size_t)s.length) == 0;
}

static bool unsupported_type(const cursor *c, slice code) {
  if (code.length > 1 && code.text[1] == 'c')
    return io_fail(c->error, "%s: has complex elements; save .real, .imag or numpy.abs of it", c->name);
  return io_fail(
      c->error,
      "%s: has elements of type '%.*s'; convert to one of bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 with numpy.astype",
      c->name, code.length < 24 ? code.length : 24, code.text);
}

static bool parse_type(cursor *c, npy_header *header) {
  slice code;
  skip_space(c);
  if (c->at < c->end && *c->at == '[')
    return io_fail(c->error, "%s: is a structured array; save one field of it", c->name);
  if (!parse_string(c, &code)) return false;
  if (code.length != 3 || !strchr("<>=|", code.text[0])) return unsupported_type(c, code);
  for (int i = 0; i < CODES; i++) {
    if (memcmp(codes[i].code, code.text + 1, 2) != 0) continue;
    header->type = codes[i].type;
    header->wide = codes[i].wide;
    const bool matters = falt_type_size(header->type) > 1 && (code.text[0] == '<' || code.text[0] == '>');
    header->swap = matters && (code.text[0] == '>') != big_endian;
    return true;
  }
  return unsupported_type(c, code);
}

static bool parse_order(cursor *c, npy_header *header) {
  header->fortran = accept_word(c, "True");
  return header->fortran || accept_word(c, "False") || malformed(c, "fortran_order is neither True nor False");
}

static bool parse_size(cursor *c, int64_t *size) {
  int64_t value = 0;
  skip_space(c);
  const char *start = c->at;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
      return io_fail(c->error, "%s: has an axis longer than 2^63 elements; it cannot be real", c->name);
  if (c->at == start) return malformed(c, "its shape is not a list of sizes");
  if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2 */
  *size = value;
  return true;
}

static bool parse_shape(cursor *c, npy_header *header) {
  if (!accept(c, '(')) return malformed(c, "its shape is not a tuple");
  header->rank = 0;
  while (!accept(c, ')')) {
    int64_t size = 0;
    if (!parse_size(c, &size)) return false;
    if (header->rank == NPY_MAX_RANK)
      return io_fail(c->error, "%s: has more than %d axes; reshape it", c->name, NPY_MAX_RANK);
    header->size[header->rank++] = size;
    if (accept(c, ',')) continue;
    if (accept(c, ')') && header->rank != 1) return true;
    return malformed(c, "its shape is not a tuple"); /* (3) is a number to Python; a tuple of one is (3,) */
  }
  return true;
}

bool npy_header_measure(npy_header *header) {
  bool empty = false, overflow = false;
  header->count = 1;
  for (int i = 0; i < header->rank; i++) {
    empty |= header->size[i] == 0;
    overflow |= __builtin_mul_overflow(header->count, header->size[i], &header->count);
  }
  if (empty) header->count = 0;
  const int64_t size = (int64_t)falt_type_size(header->type);
  header->stored = header->wide == IO_U32 ? 4 : size;
  overflow |= __builtin_mul_overflow(header->count, size, &header->bytes);
  __builtin_mul_overflow(header->count, header->stored, &header->bytes);
  return !overflow || empty;
}

static bool parse_entry(cursor *c, npy_header *header, unsigned *seen) {
  static const struct {
    const char *key;
    bool (*parse)(cursor *c, npy_header *header);
  } entries[] = {{"descr", parse_type}, {"fortran_order", parse_order}, {"shape", parse_shape}};
  slice key;
  if (!parse_string(c, &key)) return false;
  if (!accept(c, ':')) return malformed(c, "a colon is missing in its header");
  for (unsigned i = 0; i < 3; i++) {
    if (!is_slice(key, entries[i].key)) continue;
    if (*seen & 1u << i) return malformed(c, "a key occurs twice in its header");
    *seen |= 1u << i;
    return entries[i].parse(c, header);
  }
  return malformed(c, "its header has a key other than descr, fortran_order and shape");
}

bool npy_header_parse(npy_header *header, const char *text, size_t length, const char *name, io_error *error) {
  cursor c = {text, text + length, name, error};
  unsigned seen = 0;
  *header = (npy_header){0};
  if (!accept(&c, '{')) return malformed(&c, "its header is not a dictionary");
  while (!accept(&c, '}')) {
    if (!parse_entry(&c, header, &seen)) return false;
    if (accept(&c, ',')) continue;
    if (accept(&c, '}')) break;
    return malformed(&c, "a comma is missing in its header");
  }
  skip_space(&c);
  if (c.at != c.end) return malformed(&c, "something follows the dictionary in its header");
  if (seen != 7) return malformed(&c, "its header lacks one of descr, fortran_order and shape");
  if (!npy_header_measure(header))
    return io_fail(error, "%s: declares more than 2^63 bytes of elements; it cannot be real", name);
  header->fortran = header->fortran && header->rank > 1;
  return true;
}

bool npy_prelude_parse(const unsigned char *bytes, int available, int *prelude, int64_t *text, const char *name,
                       io_error *error) {
  cursor c = {NULL, NULL, name, error};
  if (memcmp(bytes, "\x93NUMPY", 6) != 0)
    return io_fail(error, "%s: does not begin as a .npy file does; write it with numpy.save", name);
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) return malformed(&c, "its version is not 1.0, 2.0 or 3.0");
  *prelude = bytes[6] == 1 ? 10 : 12;
  *text = 0;
  if (available < *prelude) return true;
  for (int i = *prelude - 1; i >= 8; i--) *text = *text << 8 | bytes[i];
  return *text <= NPY_MAX_TEXT || malformed(&c, "its header is too long");
}

/* "(3, 4)", "(3,)", "()". */
static int print_shape(const npy_header *header, char *text, size_t size) {
  int n = snprintf(text, size, "(");
  for (int i = 0; i < header->rank; i++)
    n += snprintf(text + n, size - (size_t)n, "%s%lld", i ? ", " : "", (long long)header->size[i]);
  return n + snprintf(text + n, size - (size_t)n, header->rank == 1 ? ",)" : ")");
}

size_t npy_header_print(const npy_header *header, char bytes[NPY_MAX_HEADER]) {
  enum { GROWTH = 21 }; /* digits of 2^64 and one more: numpy leaves room for the first size to grow in place */
  char shape[256], first[32];
  int code = 0;
  while (codes[code].type != header->type) code++;
  const char order = falt_type_size(header->type) == 1 || header->type == FALT_BF16 ? '|' : big_endian ? '>' : '<';
  print_shape(header, shape, sizeof shape);
  int n = 10 + snprintf(bytes + 10, NPY_MAX_HEADER - 10, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                        order, codes[code].code, shape);
  if (header->rank > 0) n += GROWTH - snprintf(first, sizeof first, "%lld", (long long)header->size[0]);
  const int total = ((n + 1) / 64 + 1) * 64;
  const int used = 10 + (int)strlen(bytes + 10);
  memset(bytes + used, ' ', (size_t)(total - used - 1));
  bytes[total - 1] = '\n';
  memcpy(bytes, "\x93NUMPY\1\0", 8);
  bytes[8] = (char)((total - 10) & 255);
  bytes[9] = (char)((total - 10) >> 8);
  return (size_t)total;
}
