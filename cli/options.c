/* The command line: one table of options for all verbs, GNU style (--name value, --name=value, -- ends them). */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "verbs.h"

/* ---- readers of values: each fills a field or says why not */

typedef bool (*value_reader)(const char *text, void *field, io_error *error);

static bool read_flag(const char *text, void *field, io_error *error) {
  (void)text, (void)error;
  *(bool *)field = true;
  return true;
}

static bool read_text(const char *text, void *field, io_error *error) {
  if (!*text) return cli_wrong(error, "empty value; write something after it");
  *(const char **)field = text;
  return true;
}

static bool read_integer(const char *text, int64_t low, int64_t high, void *field, io_error *error) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno == ERANGE || value < low || value > high) {
    return cli_wrong(error, "%.40s: not an integer from %lld to %lld; change it", text, (long long)low,
                     (long long)high);
  }
  *(int64_t *)field = value;
  return true;
}

static bool read_threads(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, 4096, field, error);
}

static bool read_space(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, 3, field, error);
}

static bool read_rounds(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, 64, field, error);
}

static bool read_count(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, INT64_MAX, field, error);
}

static bool read_real(const char *text, void *field, io_error *error) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value)) {
    return cli_wrong(error, "%.40s: not a finite number; write one such as 0.5", text);
  }
  *(double *)field = value;
  return true;
}

static bool read_bound(const char *text, void *field, io_error *error) {
  if (!read_real(text, field, error)) return false;
  if (*(double *)field >= 0) return true;
  return cli_wrong(error, "%.40s: negative; write 0 or more", text);
}

/* Bytes, with K, M, G or T (and an optional i and B) for powers of 1024. */
static bool read_bytes(const char *text, void *field, io_error *error) {
  static const char units[] = "KMGT";
  char *end;
  double value = strtod(text, &end);
  const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
  if (unit) {
    value = ldexp(value, 10 * (int)(unit - units + 1));
    end++;
    if (*end == 'i') end++;
  }
  if (*end == 'B') end++;
  if (end == text || *end || !(value >= 0) || value >= 9e18) {
    return cli_wrong(error, "%.40s: not a number of bytes; write one such as 0, 65536 or 32M", text);
  }
  *(int64_t *)field = (int64_t)value;
  return true;
}

static bool read_axes(const char *text, void *field, io_error *error) {
  return cli_axes_parse(text, field, error);
}

static bool read_name(const char *text, const char *const *names, int count, const char *kind, void *field,
                      io_error *error) {
  int found = cli_find_name(text, names, count);
  char hint[192];
  if (found < 0) {
    return cli_wrong(error, "%.40s: unknown %s%s", text, kind, cli_suggestion(text, names, count, hint, sizeof hint));
  }
  *(int *)field = found;
  return true;
}

static bool read_type(const char *text, void *field, io_error *error) {
  const char *names[FALT_TYPE_COUNT];
  for (int i = 0; i < FALT_TYPE_COUNT; i++) names[i] = falt_type_name((falt_type)i);
  return read_name(text, names, FALT_TYPE_COUNT, "type", field, error);
}

static bool read_mode(const char *text, void *field, io_error *error) {
  static const char *const names[] = {"same", "valid", "full"};
  int mode = 0;
  if (!read_name(text, names, 3, "mode", &mode, error)) return false;
  *(falt_mode *)field = (falt_mode)mode;
  return true;
}

static bool read_dialect(const char *text, void *field, io_error *error) {
  int dialect = 0;
  if (!read_name(text, cli_dialect_names + 1, CLI_DIALECT_COUNT - 1, "dialect", &dialect, error)) return false;
  *(cli_dialect *)field = (cli_dialect)(dialect + 1);
  return true;
}

/* ---- the table */

typedef struct option {
  const char *name, *value; /* value: what stands for it in help; NULL for flags */
  unsigned verbs;
  value_reader read;
  size_t field;
  const char *help;
} option;

#define FIELD(name) offsetof(cli_options, name)

static const option options_table[] = {
    {"kernel", "K", CLI_FILTERS, read_text, FIELD(kernel),
     "a name (gaussian:2, box:5x5, sobel:x, ...), a literal (\"1 2 1; 2 4 2; 1 2 1\") or a file (.npy or text)"},
    {"normalize", NULL, CLI_FILTERS, read_flag, FIELD(normalize), "divide the kernel by its sum"},
    {"boundary", "MODE", CLI_FILTERS, read_text, FIELD(boundary),
     "constant[=VALUE], edge, symmetric, reflect101 or wrap; by axis y=wrap,x=edge; by side x=edge:constant"},
    {"cval", "VALUE", CLI_FILTERS, read_real, FIELD(cval), "what boundary constant continues with (default 0)"},
    {"dialect", "NAME", CLI_FILTERS, read_dialect, FIELD(dialect),
     "whose words reflect and mirror are, and whose default boundary: scipy, numpy, opencv or torch"},
    {"mode", "MODE", CLI_FILTERS, read_mode, FIELD(mode),
     "size of the output: same (default), valid (kernel inside the input) or full (kernel touches it)"},
    {"anchor", "A", CLI_FILTERS, read_axes, FIELD(anchor),
     "the tap that stands on the output's position, from 0: y=1,x=2 or 1x2 (default: half the size)"},
    {"origin", "O", CLI_FILTERS, read_axes, FIELD(origin), "scipy.ndimage's origin: the anchor relative to the middle"},
    {"stride", "N", CLI_FILTERS, read_axes, FIELD(stride), "distance of the outputs: 2, 2x1 or y=2,x=1 (default 1)"},
    {"dilation", "N", CLI_FILTERS, read_axes, FIELD(dilation), "distance of the taps (default 1: no holes)"},
    {"alpha", "A", CLI_FILTERS, read_real, FIELD(alpha), "output = A * sum + B, rounded and saturated (default 1)"},
    {"beta", "B", CLI_FILTERS, read_real, FIELD(beta), "see --alpha (default 0)"},
    {"out-type", "TYPE", CLI_FILTERS, read_type, FIELD(out_type),
     "u8 s8 u16 s16 s32 f16 bf16 f32 f64 (default: the input's)"},
    {"space", "N", CLI_FILTERS, read_space, FIELD(space), "how many axes of an .npy are space: 1, 2 or 3"},
    {"band-rows", "N", CLI_FILTERS, read_count, FIELD(band_rows),
     "output rows computed at a time (default: all of a small file, else about 32 MiB)"},
    {"method", "NAME", CLI_PLANNERS, read_text, FIELD(method), "auto (default) or the name of a solver"},
    {"device", "D", CLI_RUNNERS, read_text, FIELD(device),
     "cpu, cuda[:N], cuda:h200 to explain for a GPU that is not there, or auto (default): the faster one for files, "
     "else the cpu"},
    {"threads", "N", CLI_RUNNERS, read_threads, FIELD(threads), "never more threads than this"},
    {"max-workspace", "BYTES", CLI_PLANNERS, read_bytes, FIELD(max_workspace),
     "0 is allowed; K, M and G are understood"},
    {"max-error", "E", CLI_PLANNERS, read_bound, FIELD(max_error),
     "relative error allowed to trade for speed (default 0)"},
    {"deterministic", NULL, CLI_PLANNERS, read_flag, FIELD(deterministic), "the same bits for any number of threads"},
    {"allow-tf32", NULL, CLI_PLANNERS, read_flag, FIELD(allow_tf32),
     "let f32 be computed as tf32 where a device has it"},
    {"input", "X.npy", CLI_LAYER, read_text, FIELD(input), "the layer's input"},
    {"weight", "W.npy", CLI_LAYER, read_text, FIELD(weight), "the filter"},
    {"bias", "B.npy", CLI_LAYER, read_text, FIELD(bias), "with bias=1: read forward, written by backward-filter"},
    {"scale", "S.npy", CLI_LAYER, read_text, FIELD(scale), "with scale=1: one factor an output channel"},
    {"residual", "R.npy", CLI_LAYER, read_text, FIELD(residual), "with residual=1: added before the activation"},
    {"grad", "DY.npy", CLI_LAYER, read_text, FIELD(grad), "the gradient of the output, for backward problems"},
    {"output", "Y.npy", CLI_LAYER, read_text, FIELD(output), "the result: of backward problems the gradient"},
    {"peers", NULL, CLI_BENCH, read_flag, FIELD(peers), "time the installed peers too, in turns, on the same data"},
    {"rounds", "N", CLI_BENCH, read_rounds, FIELD(rounds), "turns that the time is spread over (default 3)"},
    {"filter", "TEXT", CLI_BENCH, read_text, FIELD(filter), "only problems whose name has TEXT in it"},
    {"type", "TYPE", CLI_BENCH, read_type, FIELD(retype),
     "for problems that name none; those that have no meaning in it (gradients of integers) are left out"},
    {"html", "FILE", CLI_BENCH, read_text, FIELD(html), "write a report to look at"},
    {"plot", "FILE.svg", CLI_LADDER, read_text, FIELD(plot), "draw the steps' times as bars"},
    {"seconds", "S", CLI_PROBLEMS | CLI_LADDER | CLI_BENCH, read_bound, FIELD(seconds), "time to measure for"},
    {"count", "N", CLI_VERIFY, read_count, FIELD(count), "random problems to check (default 100)"},
    {"seed", "N", CLI_VERIFY, read_count, FIELD(seed), "of the first random problem, and of the data (default 1)"},
    {"compile-only", NULL, CLI_TUNE, read_flag, FIELD(compile_only),
     "only fill the cache with kernels for --arch; needs NVRTC and no GPU"},
    {"arch", "A,B", CLI_TUNE, read_text, FIELD(arch),
     "what --compile-only compiles for: GPUs (h200, h100, b200, a100, l40s, ...) or architectures (sm_90a)"},
    {"measure", NULL, CLI_INFO, read_flag, FIELD(measure), "measure the limits of this machine and remember them"},
    {"cache", NULL, CLI_INFO, read_flag, FIELD(cache), "list what the cache holds: limits, wisdom, compiled kernels"},
    {"clear-cache", NULL, CLI_INFO, read_flag, FIELD(clear_cache), "remove the compiled kernels from the cache"},
    {"explain", NULL, CLI_FILTERS | CLI_LAYER, read_flag, FIELD(explain),
     "print every candidate, and where the time went"},
    {"json", NULL, CLI_RUNNERS, read_flag, FIELD(json), "print one JSON object a line on standard output"},
    {"quiet", NULL, CLI_RUNNERS, read_flag, FIELD(quiet), "print no summary and no progress"},
};
enum { OPTIONS = sizeof options_table / sizeof *options_table };

static const option *find_option(const char *name, size_t length) {
  for (int i = 0; i < OPTIONS; i++) {
    const option *one = &options_table[i];
    if (strlen(one->name) == length && memcmp(one->name, name, length) == 0) return one;
  }
  return NULL;
}

static int fail_unknown(const char *word, size_t length, const cli_verb *verb) {
  const char *names[OPTIONS];
  for (int i = 0; i < OPTIONS; i++) names[i] = options_table[i].verbs & verb->bit ? options_table[i].name : NULL;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)length, word);
  const char *nearest = cli_nearest_name(name, names, OPTIONS);
  if (nearest) return cli_fail(CLI_WRONG, "--%s: unknown option; did you mean --%s?", name, nearest);
  return cli_fail(CLI_WRONG, "--%s: unknown option; `faltung help %s` lists those it takes", name, verb->name);
}

/* Reads the option in words[*at]; its value may be the next word. */
static int parse_option(int count, char **words, int *at, const cli_verb *verb, cli_options *options) {
  const char *word = words[*at] + 2, *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const option *one = find_option(word, length);
  if (!one) return fail_unknown(word, length, verb);
  if (!(one->verbs & verb->bit)) {
    return cli_fail(CLI_WRONG, "--%s: %s does not take it; `faltung help %s` lists those it takes", one->name,
                    verb->name, verb->name);
  }
  const char *value = equals ? equals + 1 : NULL;
  if (!one->value && value) return cli_fail(CLI_WRONG, "--%s: takes no value; leave out =%.40s", one->name, value);
  if (one->value && !value) {
    if (*at + 1 >= count)
      return cli_fail(CLI_WRONG, "--%s: needs a value; write --%s=%s", one->name, one->name, one->value);
    value = words[++*at];
  }
  io_error error;
  if (one->read(value, (char *)options + one->field, &error)) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--%s: %s", one->name, error.text);
}

int cli_options_parse(int count, char **words, const cli_verb *verb, cli_options *options) {
  *options = (cli_options){
      .verb = verb->bit, .alpha = 1, .cval = NAN, .out_type = -1, .retype = -1, .max_workspace = -1, .seconds = -1};
  bool only_operands = false;
  for (int at = 0; at < count; at++) {
    const char *word = words[at];
    bool is_option = !only_operands && word[0] == '-' && word[1];
    if (is_option && strcmp(word, "--") == 0) {
      only_operands = true;
    } else if (is_option && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      return CLI_HELP;
    } else if (is_option && word[1] != '-') {
      return cli_fail(CLI_WRONG, "%.40s: unknown option; options begin with two dashes, and a file so named is ./%.40s",
                      word, word);
    } else if (is_option) {
      int status = parse_option(count, words, &at, verb, options);
      if (status != CLI_DONE) return status;
    } else if (options->operands == CLI_MAX_OPERANDS) {
      return cli_fail(CLI_WRONG, "%.40s: more than %d words after %s; leave some out", word, CLI_MAX_OPERANDS,
                      verb->name);
    } else {
      options->operand[options->operands++] = word;
    }
  }
  options->has_cval = !isnan(options->cval);
  return CLI_DONE;
}

/* ---- help */

/* Words of text from column `left` on, broken before column 100. */
static void print_wrapped(FILE *file, const char *text, int left) {
  int column = left;
  while (*text) {
    int length = (int)strcspn(text, " ");
    if (column + length > 100) {
      fprintf(file, "\n%*s", left, "");
      column = left;
    }
    fprintf(file, "%s%.*s", column > left ? " " : "", length, text);
    column += length + 1;
    text += length + (text[length] == ' ');
  }
  fputc('\n', file);
}

void cli_options_help(FILE *file, const cli_verb *verb) {
  enum { LEFT = 26 };
  for (int i = 0; i < OPTIONS; i++) {
    const option *one = &options_table[i];
    if (!(one->verbs & verb->bit)) continue;
    char head[64];
    snprintf(head, sizeof head, "  --%s%s%s", one->name, one->value ? " " : "", one->value ? one->value : "");
    fprintf(file, "%-*s", LEFT, head);
    print_wrapped(file, one->help, LEFT);
  }
}
