/* The words of a problem line: one row a word, read by the parser and written by the printer in this order. */
#include <math.h>
#include <string.h>

#include "problem/words.h"

const char *falt_verb_name(int verb) {
  static const char *const filters[] = {"correlate", "convolve"};
  return verb < FALT_FIRST_OPERATION ? filters[verb] : falt_operations[verb - FALT_FIRST_OPERATION].name;
}

static const char *const mode_names[] = {"same", "valid", "full"};

static void *field(const falt_word *word, falt_line *line) {
  return (char *)line + word->field;
}

static const void *field_of(const falt_word *word, const falt_line *line) {
  return (const char *)line + word->field;
}

/* ---- whole numbers */

static bool only_digits(const char *text, size_t length) {
  size_t i = length && (*text == '-' || *text == '+');
  if (i == length) return false;
  while (i < length && text[i] >= '0' && text[i] <= '9') i++;
  return i == length;
}

static falt_status read_int(const falt_word *word, const char *text, size_t length, int64_t *value) {
  if (falt_read_int(text, length, value)) return FALT_OK;
  if (only_digits(text, length))
    return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "the number exceeds 2^63 - 1");
  return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "a whole number is expected");
}

static falt_status read_size(const falt_word *word, falt_line *line, const char *text, size_t length) {
  int64_t *size = field(word, line);
  FALT_TRY(read_int(word, text, length, size));
  if (*size < 1) return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "at least 1 is expected");
  return *size <= FALT_LIMIT ? FALT_OK : falt_word_bad(FALT_INVALID_SIZE, word, text, length, "sizes lie below 2^60");
}

static void write_size(const falt_word *word, const falt_line *line, falt_text *text) {
  const int64_t *size = field_of(word, line);
  if (!*size) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%lld", (long long)*size);
}

/* ---- lists: 2, 1x2x3 or y=2,x=3 */

/* Pieces for up to three axes, in their order or by the axes' names. What a piece is, read_axis says. */
static falt_status read_pieces(const falt_word *word, falt_line *line, const char *text, size_t length, int *count,
                               unsigned *axes, falt_axis_reader *read_axis, const char *most) {
  const char *rest = text, *piece;
  size_t left = length, size;
  if (falt_axis_named(text, length) >= 0) {
    *count = 3;
    return falt_read_axes(word, line, text, length, axes, read_axis);
  }
  while (falt_next_piece(&rest, &left, 'x', &piece, &size)) {
    if (*count == 3) return falt_word_bad(FALT_INVALID_TEXT, word, text, length, most);
    FALT_TRY(read_axis(word, line, (*count)++, piece, size));
  }
  return FALT_OK;
}

static falt_status read_list_axis(const falt_word *word, falt_line *line, int axis, const char *text, size_t length) {
  falt_list *list = field(word, line);
  return read_int(word, text, length, &list->value[axis]);
}

static falt_status read_list(const falt_word *word, falt_line *line, const char *text, size_t length) {
  falt_list *list = field(word, line);
  return read_pieces(word, line, text, length, &list->count, &list->axes, read_list_axis,
                     "at most three numbers, one for each axis");
}

static falt_status read_positive_list(const falt_word *word, falt_line *line, const char *text, size_t length) {
  const falt_list *list = field(word, line);
  FALT_TRY(read_list(word, line, text, length));
  for (int i = 0; i < list->count; i++) {
    const bool given = !list->axes || list->axes >> i & 1;
    if (given && list->value[i] < 1)
      return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "at least 1 is expected");
  }
  return FALT_OK;
}

static void write_list(const falt_word *word, const falt_line *line, falt_text *text) {
  const falt_list *list = field_of(word, line);
  if (list->count) falt_word_begin(word, text);
  for (int i = 0; i < list->count; i++) falt_text_add(text, "%s%lld", i ? "x" : "", (long long)list->value[i]);
}

/* max:2 or max:2x2. */
static const char pool_kind[] = "max:";

static falt_status read_pool(const falt_word *word, falt_line *line, const char *text, size_t length) {
  const size_t kind = sizeof pool_kind - 1;
  if (length <= kind || memcmp(text, pool_kind, kind) != 0)
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "max:SIZE is expected, such as max:2x2");
  return read_positive_list(word, line, text + kind, length - kind);
}

static void write_pool(const falt_word *word, const falt_line *line, falt_text *text) {
  const falt_list *list = field_of(word, line);
  if (list->count) falt_word_begin(word, text);
  for (int i = 0; i < list->count; i++) falt_text_add(text, "%s%lld", i ? "x" : pool_kind, (long long)list->value[i]);
}

/* 1 or before:after. */
static falt_status read_pad(const falt_word *word, const char *text, size_t length, int64_t pad[2]) {
  const char *colon = memchr(text, ':', length), *hint = falt_word_hint(word->name, text, length);
  const size_t before = colon ? (size_t)(colon - text) : length;
  if (hint)
    return falt_fail(FALT_INVALID_TEXT, "problem: %s=%s: unknown; write %s", word->name, falt_quoted(text, length).text,
                     hint);
  FALT_TRY(read_int(word, text, before, &pad[0]));
  pad[1] = pad[0];
  return colon ? read_int(word, colon + 1, length - before - 1, &pad[1]) : FALT_OK;
}

static falt_status read_pad_axis(const falt_word *word, falt_line *line, int axis, const char *text, size_t length) {
  falt_pads *pads = field(word, line);
  return read_pad(word, text, length, pads->value[axis]);
}

/* 1, 1x2, 1:0x1:0 or y=1,x=1:0. */
static falt_status read_pads(const falt_word *word, falt_line *line, const char *text, size_t length) {
  falt_pads *pads = field(word, line);
  return read_pieces(word, line, text, length, &pads->count, &pads->axes, read_pad_axis,
                     "at most three pads, one for each axis");
}

static void write_pads(const falt_word *word, const falt_line *line, falt_text *text) {
  const falt_pads *pads = field_of(word, line);
  bool even = true, same = true;
  for (int i = 0; i < pads->count; i++) {
    even &= pads->value[i][0] == pads->value[i][1];
    same &= pads->value[i][0] == pads->value[0][0];
  }
  if (pads->count) falt_word_begin(word, text);
  for (int i = 0; i < (even && same && pads->count ? 1 : pads->count); i++) {
    falt_text_add(text, "%s%lld", i ? "x" : "", (long long)pads->value[i][0]);
    if (!even) falt_text_add(text, ":%lld", (long long)pads->value[i][1]);
  }
}

/* ---- names */

static falt_status read_mode(const falt_word *word, falt_line *line, const char *text, size_t length) {
  line->mode = falt_find_name(text, length, mode_names, 3);
  return line->mode >= 0 ? FALT_OK : falt_word_unknown(word, text, length, mode_names, 3);
}

static void write_mode(const falt_word *word, const falt_line *line, falt_text *text) {
  if (line->mode < 0) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%s", mode_names[line->mode]);
}

static falt_status read_when(const falt_word *word, falt_line *line, const char *text, size_t length) {
  const int found = falt_find_name(text, length, falt_filter_when_names, FALT_FILTER_KNOWN);
  line->filter_when = found + FALT_FILTER_GIVEN;
  return found >= 0 ? FALT_OK : falt_word_unknown(word, text, length, falt_filter_when_names, FALT_FILTER_KNOWN);
}

static void write_when(const falt_word *word, const falt_line *line, falt_text *text) {
  if (line->filter_when == FALT_FILTER_AUTO) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%s", falt_filter_when_names[line->filter_when - FALT_FILTER_GIVEN]);
}

static falt_status read_type(const falt_word *word, falt_line *line, const char *text, size_t length) {
  const char *names[FALT_TYPE_COUNT];
  int *type = field(word, line);
  for (int i = 0; i < FALT_TYPE_COUNT; i++) names[i] = falt_type_name((falt_type)i);
  *type = falt_find_name(text, length, names, FALT_TYPE_COUNT);
  return *type >= 0 ? FALT_OK : falt_word_unknown(word, text, length, names, FALT_TYPE_COUNT);
}

static void write_type(const falt_word *word, const falt_line *line, falt_text *text) {
  const int *type = field_of(word, line);
  if (*type < 0) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%s", falt_type_name((falt_type)*type));
}

/* A layout's name, of the data's families or the weights'. */
static falt_status read_family(const falt_word *word, const char *text, size_t length, int first, int count,
                               int *layout, int *space) {
  const char *const *names = falt_layout_names[first];
  int found = falt_find_name(text, length, names, 3 * count);
  if (found < 0) return falt_word_unknown(word, text, length, names, 3 * count);
  *layout = first + found / 3;
  *space = found % 3 + 1;
  return FALT_OK;
}

static falt_status read_layout(const falt_word *word, falt_line *line, const char *text, size_t length) {
  return read_family(word, text, length, FALT_NCHW, 2, &line->layout, &line->layout_space);
}

static falt_status read_weight_layout(const falt_word *word, falt_line *line, const char *text, size_t length) {
  return read_family(word, text, length, FALT_OIHW, 3, &line->weight_layout, &line->weight_layout_space);
}

static void write_layout(const falt_word *word, const falt_line *line, falt_text *text) {
  const int *layout = field_of(word, line);
  if (*layout < 0) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%s", falt_layout_names[*layout][falt_line_space(line) - 1]);
}

/* ---- real numbers, flags, activation */

static falt_status read_real(const falt_word *word, falt_line *line, const char *text, size_t length) {
  return falt_word_number(word, text, length, field(word, line));
}

static void write_real(const falt_word *word, const falt_line *line, falt_text *text) {
  const double *value = field_of(word, line);
  if (isnan(*value)) return;
  falt_word_begin(word, text);
  falt_text_add_double(text, *value);
}

static falt_status read_flag(const falt_word *word, falt_line *line, const char *text, size_t length) {
  bool *flag = field(word, line);
  if (length != 1 || (*text != '0' && *text != '1'))
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "0 or 1 is expected");
  *flag = *text == '1';
  return FALT_OK;
}

static void write_flag(const falt_word *word, const falt_line *line, falt_text *text) {
  const bool *flag = field_of(word, line);
  if (!*flag) return;
  falt_word_begin(word, text);
  falt_text_add(text, "1");
}

/* relu, leaky, leaky:0.1, clip:-1:1. */
static falt_status read_activation(const falt_word *word, falt_line *line, const char *text, size_t length) {
  const char *rest = text, *piece = text;
  size_t left = length, size = 0;
  double *numbers[] = {&line->act_a, &line->act_b};
  int count = 0;
  falt_next_piece(&rest, &left, ':', &piece, &size);
  int found = falt_find_name(piece, size, falt_activation_names, FALT_ACTIVATION_COUNT);
  if (found < 0) return falt_word_unknown(word, piece, size, falt_activation_names, FALT_ACTIVATION_COUNT);
  line->activation = (falt_activation)found;
  int most = found == FALT_CLIP ? 2 : found == FALT_LEAKY;
  while (falt_next_piece(&rest, &left, ':', &piece, &size)) {
    if (count == most) return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "too many numbers");
    FALT_TRY(falt_word_number(word, piece, size, numbers[count++]));
  }
  if (found == FALT_CLIP && count < 2)
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "clip:LOW:HIGH is expected");
  return FALT_OK;
}

static void write_activation(const falt_word *word, const falt_line *line, falt_text *text) {
  const double numbers[] = {line->act_a, line->act_b};
  bool plain = line->activation == FALT_LEAKY && line->act_a == FALT_LEAKY_DEFAULT;
  int count = line->activation == FALT_CLIP ? 2 : line->activation == FALT_LEAKY && !plain;
  if (line->activation == FALT_IDENTITY) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%s", falt_activation_names[line->activation]);
  for (int i = 0; i < count; i++) {
    falt_text_add(text, ":");
    falt_text_add_double(text, numbers[i]);
  }
}

/* ---- strides and offsets: what the C API may ask for beyond layouts */

static falt_status read_strides(const falt_word *word, falt_line *line, const char *text, size_t length) {
  falt_strides *strides = field(word, line);
  const char *rest = text, *piece;
  size_t left = length, size;
  int count = 0;
  while (falt_next_piece(&rest, &left, ',', &piece, &size)) {
    if (count == FALT_DIMS) count++;
    if (count > FALT_DIMS) break;
    FALT_TRY(read_int(word, piece, size, &strides->value[count++]));
  }
  if (count != FALT_DIMS)
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "six numbers, for n,groups,channels,d,h,w");
  strides->given = true;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (strides->value[dim] > FALT_LIMIT || strides->value[dim] < -FALT_LIMIT)
      return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "strides lie below 2^60");
  }
  return FALT_OK;
}

static void write_strides(const falt_word *word, const falt_line *line, falt_text *text) {
  const falt_strides *strides = field_of(word, line);
  if (!strides->given) return;
  falt_word_begin(word, text);
  for (int dim = 0; dim < FALT_DIMS; dim++)
    falt_text_add(text, "%s%lld", dim ? "," : "", (long long)strides->value[dim]);
}

static falt_status read_offset(const falt_word *word, falt_line *line, const char *text, size_t length) {
  int64_t *offset = field(word, line);
  line->offset_given[offset - line->offset] = true;
  return read_int(word, text, length, offset);
}

static void write_offset(const falt_word *word, const falt_line *line, falt_text *text) {
  const int64_t *offset = field_of(word, line);
  if (!line->offset_given[offset - line->offset]) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%lld", (long long)*offset);
}

/* ---- budgets */

/* 4096, 64K, 32M, 2G. */
static falt_status read_bytes(const falt_word *word, falt_line *line, const char *text, size_t length) {
  static const char suffixes[] = "KMG";
  int64_t *bytes = field(word, line);
  const char *suffix = length && text[length - 1] ? strchr(suffixes, text[length - 1]) : NULL;
  FALT_TRY(read_int(word, text, length - (suffix != NULL), bytes));
  for (const char *s = suffixes; suffix && s <= suffix; s++) {
    if (!falt_mul(*bytes < 0 ? 0 : *bytes, 1024, bytes))
      return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "more than 2^63 - 1 bytes");
  }
  if (*bytes < 0) return falt_word_bad(FALT_INVALID_SIZE, word, text, length, "0 or more bytes are expected");
  return FALT_OK;
}

static void write_bytes(const falt_word *word, const falt_line *line, falt_text *text) {
  const int64_t *bytes = field_of(word, line);
  if (*bytes < 0) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%lld", (long long)*bytes);
}

static falt_status read_limit(const falt_word *word, falt_line *line, const char *text, size_t length) {
  double *value = field(word, line);
  FALT_TRY(falt_word_number(word, text, length, value));
  if (*value < 0 || isinf(*value))
    return falt_word_bad(FALT_INVALID_ARGUMENT, word, text, length, "0 or more is expected");
  return FALT_OK;
}

static void write_limit(const falt_word *word, const falt_line *line, falt_text *text) {
  const double *value = field_of(word, line);
  if (*value != 0) write_real(word, line, text);
}

static falt_status read_method(const falt_word *word, falt_line *line, const char *text, size_t length) {
  if (length >= sizeof line->budget.method)
    return falt_word_bad(FALT_INVALID_TEXT, word, text, length, "a solver's name has at most 31 letters");
  memcpy(line->budget.method, text, length);
  line->budget.method[length] = '\0';
  return FALT_OK;
}

static void write_method(const falt_word *word, const falt_line *line, falt_text *text) {
  if (!line->budget.method[0]) return;
  falt_word_begin(word, text);
  falt_text_add(text, "%.31s", line->budget.method);
}

/* ---- the table */

enum {
  F = FALT_OF_FILTERS,
  L = FALT_OF_LAYERS,
  P = FALT_OF_POOLS,
  B = FALT_OF_BUDGETS,
  FL = F | L,
  LP = L | P,
  FLP = F | L | P
};
#define AT(member) offsetof(falt_line, member)

const falt_word falt_words[FALT_WORD_COUNT] = {
    {"n", FLP, AT(n), read_size, write_size},
    {"c", FLP, AT(c), read_size, write_size},
    {"pixel", F, AT(pixel), read_size, write_size},
    {"d", FLP, AT(in[0]), read_size, write_size},
    {"h", FLP, AT(in[1]), read_size, write_size},
    {"w", FLP, AT(in[2]), read_size, write_size},
    {"k", L, AT(k), read_size, write_size},
    {"t", FLP, AT(taps[0]), read_size, write_size},
    {"r", FLP, AT(taps[1]), read_size, write_size},
    {"s", FLP, AT(taps[2]), read_size, write_size},
    {"groups", L, AT(groups), read_size, write_size},
    {"stride", FLP, AT(stride), read_positive_list, write_list},
    {"dilation", FLP, AT(dilation), read_positive_list, write_list},
    {"pad", FLP, AT(pad), read_pads, write_pads},
    {"mode", F, AT(mode), read_mode, write_mode},
    {"anchor", F, AT(anchor), read_list, write_list},
    {"origin", F, AT(origin), read_list, write_list},
    {"out", FLP, AT(out), read_positive_list, write_list},
    {"boundary", FLP, AT(boundary), falt_read_boundary, falt_write_boundary},
    {"value", FL, AT(value), falt_read_value, write_real},
    {"type", FLP, AT(type), read_type, write_type},
    {"weight-type", FL, AT(weight_type), read_type, write_type},
    {"out-type", FLP, AT(out_type), read_type, write_type},
    {"acc", FLP, AT(accumulator), read_type, write_type},
    {"layout", LP, AT(layout), read_layout, write_layout},
    {"weight-layout", L, AT(weight_layout), read_weight_layout, write_layout},
    {"rank", FL, AT(rank), read_size, write_size},
    {"factors", F, AT(factors), read_size, write_size},
    {"filter", FL, AT(filter_when), read_when, write_when},
    {"alpha", FL, AT(alpha), read_real, write_real},
    {"beta", FL, AT(beta), read_real, write_real},
    {"scale", FL, AT(scale), read_flag, write_flag},
    {"bias", FL, AT(bias), read_flag, write_flag},
    {"residual", FL, AT(residual), read_flag, write_flag},
    {"residual-type", FL, AT(residual_type), read_type, write_type},
    {"act", FL, AT(activation), read_activation, write_activation},
    {"pool", L, AT(pool), read_pool, write_pool},
    {"count-pad", P, AT(count_pad), read_flag, write_flag},
    {"input-strides", FLP, AT(strides[FALT_INPUT]), read_strides, write_strides},
    {"input-offset", FLP, AT(offset[FALT_INPUT]), read_offset, write_offset},
    {"filter-strides", FL, AT(strides[FALT_FILTER]), read_strides, write_strides},
    {"filter-offset", FL, AT(offset[FALT_FILTER]), read_offset, write_offset},
    {"output-strides", FLP, AT(strides[FALT_OUTPUT]), read_strides, write_strides},
    {"output-offset", FLP, AT(offset[FALT_OUTPUT]), read_offset, write_offset},
    {"residual-strides", FL, AT(strides[FALT_RESIDUAL]), read_strides, write_strides},
    {"residual-offset", FL, AT(offset[FALT_RESIDUAL]), read_offset, write_offset},
    {"deterministic", B, AT(budget.deterministic), read_flag, write_flag},
    {"tf32", B, AT(budget.allow_tf32), read_flag, write_flag},
    {"no-transforms", B, AT(budget.no_transforms), read_flag, write_flag},
    {"max-workspace", B, AT(budget.max_workspace), read_bytes, write_bytes},
    {"max-error", B, AT(budget.max_error), read_limit, write_limit},
    {"method", B, AT(budget.method), read_method, write_method},
    {"tune", B, AT(budget.tune_seconds), read_limit, write_limit},
};

void falt_line_default(falt_line *line) {
  memset(line, 0, sizeof *line);
  line->mode = line->type = line->weight_type = line->out_type = line->residual_type = line->accumulator = -1;
  line->layout = line->weight_layout = -1;
  line->value = line->alpha = line->beta = NAN;
  line->act_a = FALT_LEAKY_DEFAULT;
  falt_budget_default(&line->budget);
}
