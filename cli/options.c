/* The command line: one table of options for all verbs, GNU style. */
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

static bool read_format(const char *text, void *field, io_error *error) {
  return read_text(text[0] == '.' ? text + 1 : text, field, error);
}

static bool read_page(const char *text, void *field, io_error *error) {
  if (strcmp(text, "all") != 0) return read_integer(text, 1, INT32_MAX, field, error);
  *(int64_t *)field = CLI_ALL_PAGES;
  return true;
}

static bool read_rounds(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, 64, field, error);
}

static bool read_count(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, INT64_MAX, field, error);
}

static bool read_total(const char *text, void *field, io_error *error) {
  return read_integer(text, 0, INT64_MAX, field, error);
}

static bool read_processes(const char *text, void *field, io_error *error) {
  return read_integer(text, 1, 1024, field, error);
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

static bool read_type(const char *text, void *field, io_error *error) {
  falt_problem problem;
  if (!cli_word_read("", "type", text, &problem, error)) return false;
  *(int *)field = (int)problem.input.type;
  return true;
}

static bool read_mode(const char *text, void *field, io_error *error) {
  const int mode = cli_choice_find(cli_choice_mode, text, "mode", error);
  if (mode >= 0) *(falt_mode *)field = (falt_mode)mode;
  return mode >= 0;
}

static bool read_dialect(const char *text, void *field, io_error *error) {
  const int dialect = cli_choice_find(cli_choice_dialect, text, "dialect", error);
  if (dialect >= 0) *(cli_dialect *)field = (cli_dialect)(dialect + 1);
  return dialect >= 0;
}

/* ---- the table */

typedef struct option {
  const char *name, *value; /* value: the word for it in help; NULL for flags */
  unsigned verbs;
  value_reader read;
  size_t field;
  const char *help;
} option;

#define FIELD(name) offsetof(cli_options, name)

static const option options_table[] = {
    {"kernel", "K", CLI_FILTERS | CLI_PROBLEMS, read_text, FIELD(kernel),
     "a name (gaussian:2, box:5x5, sobel:x, ...), a literal (\"1 2 1; 2 4 2; 1 2 1\") or a file (.npy or text)"},
    {"normalize", NULL, CLI_FILTERS, read_flag, FIELD(normalize), "divide the kernel by its sum"},
    {"boundary", "MODE", CLI_FILTERS, read_text, FIELD(boundary),
     "constant[=VALUE], edge, symmetric, reflect101 or wrap; by axis y=wrap,x=edge; by side x=edge:constant"},
    {"cval", "VALUE", CLI_FILTERS, read_real, FIELD(cval),
     "the value beyond the edges for boundary constant (default 0)"},
    {"dialect", "NAME", CLI_FILTERS, read_dialect, FIELD(dialect),
     "the library that defines reflect, mirror and the default boundary: scipy, numpy, opencv or torch"},
    {"mode", "MODE", CLI_FILTERS, read_mode, FIELD(mode),
     "size of the output: same (default), valid (kernel inside the input) or full (kernel touches it)"},
    {"anchor", "A", CLI_FILTERS, read_axes, FIELD(anchor),
     "the tap at the output's position, from 0: y=1,x=2 or 1x2 (default: half the size)"},
    {"origin", "O", CLI_FILTERS, read_axes, FIELD(origin), "scipy.ndimage's origin: the anchor relative to the middle"},
    {"stride", "N", CLI_FILTERS, read_axes, FIELD(stride), "distance of the outputs: 2, 2x1 or y=2,x=1 (default 1)"},
    {"dilation", "N", CLI_FILTERS, read_axes, FIELD(dilation), "distance of the taps (default 1: adjacent)"},
    {"alpha", "A", CLI_FILTERS, read_real, FIELD(alpha), "output = A * sum + B, rounded and saturated (default 1)"},
    {"beta", "B", CLI_FILTERS, read_real, FIELD(beta), "see --alpha (default 0)"},
    {"out-type", "TYPE", CLI_FILTERS, read_type, FIELD(out_type),
     "u8 s8 u16 s16 s32 f16 bf16 f32 f64 (default: the input's)"},
    {"scale-to-type", NULL, CLI_FILTERS, read_flag, FIELD(scale_to_type),
     "map the results' range, least to largest, onto the range of the integer output type; reads the input twice"},
    {"space", "N", CLI_FILTERS, read_space, FIELD(space), "the number of spatial axes of an .npy: 1, 2 or 3"},
    {"format", "F", CLI_FILTERS, read_format, FIELD(format),
     "the output's format: npy, png, tif, wav, ... (default: its extension; npy on standard output)"},
    {"page", "N|all", CLI_FILTERS, read_page, FIELD(page),
     "one page of a TIFF, GIF, WebP, ..., from 1 (default: all where the output holds several, else the first)"},
    {"band-rows", "N", CLI_FILTERS, read_count, FIELD(band_rows),
     "output rows computed at a time (default: all of a small file, else about 32 MiB)"},
    {"method", "NAME", CLI_PLANNERS, read_text, FIELD(method), "auto (default) or the name of a solver"},
    {"device", "D", CLI_RUNNERS, read_text, FIELD(device),
     "cpu, cuda[:N], cuda:h200 to explain for a GPU that is not present, or auto (default): for files the faster "
     "device, "
     "else the cpu"},
    {"threads", "N", CLI_RUNNERS, read_threads, FIELD(threads), "the most threads to use"},
    {"max-workspace", "BYTES", CLI_PLANNERS, read_bytes, FIELD(max_workspace), "0 is allowed; suffixes K, M and G"},
    {"max-error", "E", CLI_PLANNERS, read_bound, FIELD(max_error),
     "relative error allowed to trade for speed (default 0)"},
    {"deterministic", NULL, CLI_PLANNERS, read_flag, FIELD(deterministic), "the same bits for any number of threads"},
    {"allow-tf32", NULL, CLI_PLANNERS, read_flag, FIELD(allow_tf32), "compute f32 as tf32 if the device has it"},
    {"no-transforms", NULL, CLI_PLANNERS, read_flag, FIELD(no_transforms),
     "no FFT and no Winograd: sums of zeros are exactly 0"},
    {"input", "FILE", CLI_LAYER, read_text, FIELD(input), "the layer's input"},
    {"weight", "FILE", CLI_LAYER, read_text, FIELD(weight), "the filter"},
    {"bias", "FILE", CLI_LAYER, read_text, FIELD(bias),
     "with bias=1: an input; of backward-filter its gradient, an output"},
    {"scale", "FILE", CLI_LAYER, read_text, FIELD(scale), "with scale=1: one factor an output channel"},
    {"residual", "FILE", CLI_LAYER, read_text, FIELD(residual), "with residual=1: added before the activation"},
    {"grad", "FILE", CLI_LAYER, read_text, FIELD(grad), "the gradient of the output, an input of backward problems"},
    {"output", "FILE", CLI_FILTERS | CLI_LAYER, read_text, FIELD(output),
     "the output: for filters the same as OUTPUT, for backward problems the gradient"},
    {"peers", NULL, CLI_BENCH, read_flag, FIELD(peers), "also time the installed peers, alternating, on the same data"},
    {"rounds", "N", CLI_BENCH, read_rounds, FIELD(rounds), "rounds over which the time is spread (default 3)"},
    {"filter", "TEXT", CLI_BENCH, read_text, FIELD(filter), "only problems whose name has TEXT in it"},
    {"type", "TYPE", CLI_BENCH, read_type, FIELD(retype),
     "the type of problems that name none; problems not defined for it (gradients of integers) are skipped"},
    {"html", "FILE", CLI_BENCH | CLI_EXPLAIN, read_text, FIELD(html), "write a report as a page with drawings"},
    {"plot", "FILE.svg", CLI_LADDER, read_text, FIELD(plot), "draw the steps' times as bars"},
    {"list", NULL, CLI_LADDER, read_flag, FIELD(list), "name the steps, their sections of the textbook and exercises"},
    {"show", "STEP", CLI_LADDER, read_text, FIELD(show), "print the source of a step"},
    {"exercise", "N", CLI_LADDER, read_count, FIELD(exercise), "print the question of an exercise"},
    {"answer", "X", CLI_LADDER, read_real, FIELD(answer), "check the answer to --exercise N"},
    {"seconds", "S", CLI_PROBLEMS | CLI_LADDER | CLI_BENCH, read_bound, FIELD(seconds), "time to measure for"},
    {"count", "N", CLI_VERIFY | CLI_BENCH, read_total, FIELD(count),
     "random problems to check (default 100; 0: unlimited); of bench choice, to draw (default 300)"},
    {"forever", NULL, CLI_VERIFY, read_flag, FIELD(forever), "the same as --count 0"},
    {"processes", "N", CLI_VERIFY, read_processes, FIELD(processes), "problems to check concurrently (default 1)"},
    {"variants", "N", CLI_VERIFY, read_count, FIELD(variants), "different data for each problem (default 1)"},
    {"time-limit", "S", CLI_VERIFY, read_bound, FIELD(time_limit),
     "a problem that takes longer has failed (default 120 seconds)"},
    {"by-solver", NULL, CLI_VERIFY, read_flag, FIELD(by_solver), "count the checks of each solver"},
    {"seed", "N", CLI_VERIFY | CLI_BENCH, read_count, FIELD(seed),
     "seed of the first random problem, and of the data (default 1); of bench choice, of the draw"},
    {"compile-only", NULL, CLI_TUNE, read_flag, FIELD(compile_only),
     "only fill the cache with kernels for --arch; needs NVRTC and no GPU"},
    {"arch", "A,B", CLI_TUNE, read_text, FIELD(arch),
     "targets of --compile-only: GPUs (h200, h100, b200, a100, l40s, ...) or architectures (sm_90a)"},
    {"measure", NULL, CLI_INFO, read_flag, FIELD(measure), "measure the limits of this machine and store them"},
    {"cache", NULL, CLI_INFO, read_flag, FIELD(cache),
     "list the contents of the cache: limits, wisdom, compiled kernels"},
    {"clear-cache", NULL, CLI_INFO, read_flag, FIELD(clear_cache), "remove the compiled kernels from the cache"},
    {"explain", NULL, CLI_FILTERS | CLI_LAYER, read_flag, FIELD(explain),
     "print every candidate, and where the time went"},
    {"all", NULL, CLI_FILTERS | CLI_LAYER | CLI_EXPLAIN, read_flag, FIELD(all),
     "explain lists the solvers for other kinds of problems too"},
    {"json", NULL, CLI_RUNNERS | CLI_LIST, read_flag, FIELD(json), "print one JSON object a line on standard output"},
    {"quiet", NULL, CLI_RUNNERS, read_flag, FIELD(quiet), "print no summary and no progress"},
};
enum { OPTIONS = sizeof options_table / sizeof *options_table };

/* Attributes of a few options: a letter, and names to complete the value. */
static const struct {
  const char *name;
  char letter;
  cli_choice choice;
} extras[] = {
    {"kernel", 'k', cli_choice_kernel},
    {"output", 'o', NULL},
    {"quiet", 'q', NULL},
    {"boundary", 0, cli_choice_boundary},
    {"dialect", 0, cli_choice_dialect},
    {"mode", 0, cli_choice_mode},
    {"out-type", 0, cli_choice_type},
    {"type", 0, cli_choice_type},
    {"format", 0, cli_choice_format},
    {"page", 0, cli_choice_page},
    {"method", 0, cli_choice_method},
    {"device", 0, cli_choice_device},
};
enum { EXTRAS = sizeof extras / sizeof *extras };

static const option *find_option(const char *name, size_t length) {
  for (int i = 0; i < OPTIONS; i++) {
    const option *one = &options_table[i];
    if (strlen(one->name) == length && memcmp(one->name, name, length) == 0) return one;
  }
  return NULL;
}

static const option *find_letter(char letter) {
  for (int i = 0; i < EXTRAS; i++) {
    if (extras[i].letter == letter) return find_option(extras[i].name, strlen(extras[i].name));
  }
  return NULL;
}

bool cli_option_at(int i, cli_option_note *note) {
  if (i < 0 || i >= OPTIONS) return false;
  const option *one = &options_table[i];
  *note = (cli_option_note){.name = one->name, .value = one->value, .help = one->help, .verbs = one->verbs};
  note->is_file = one->value && strstr(one->value, "FILE");
  for (int j = 0; j < EXTRAS; j++) {
    if (strcmp(extras[j].name, one->name) != 0) continue;
    note->letter = extras[j].letter;
    note->choice = extras[j].choice;
    note->is_file |= note->choice == cli_choice_kernel; /* or an array */
  }
  return true;
}

const char *cli_option_head(const cli_option_note *note, char text[64]) {
  char letter[8] = "";
  if (note->letter) snprintf(letter, sizeof letter, "-%c, ", note->letter);
  snprintf(text, 64, "%s--%s%s%s", letter, note->name, note->value ? " " : "", note->value ? note->value : "");
  return text;
}

/* ---- parsing */

/* Names that other commands have, and the words to write here. */
static const struct {
  const char *others, *write; /* others: separated by blanks */
} option_hints[] = {
    {"padding pad", "--mode same, --mode valid or --mode full; in a problem line pad=1"},
    {"kernel-size ksize kernel_size size", "--kernel with its size, such as --kernel box:5x5"},
    {"sigma", "--kernel gaussian:2"},
    {"border border-type padding-mode padding_mode", "--boundary edge"},
    {"strides step", "--stride 2"},
    {"dilations dilation-rate", "--dilation 2"},
    {"groups channels", "groups=2 in a problem line; filters treat each channel by itself"},
    {"gpu cuda", "--device cuda"},
    {"cpu", "--device cpu"},
    {"dtype output-type out_type", "--out-type f32"},
    {"out", "-o FILE"},
    {"silent", "--quiet"},
    {"verbose debug", "FALTUNG_VERBOSE=plan,time in the environment"},
    {"jobs num-threads", "--threads 4"},
    {"workspace", "--max-workspace 32M"},
    {"solver algorithm", "--method direct; `faltung list solvers` prints the names"},
};

static const char *option_hint(const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof option_hints / sizeof *option_hints; i++) {
    for (const char *at = option_hints[i].others; *at; at += strcspn(at, " "), at += *at == ' ') {
      if (strcspn(at, " ") == length && strncmp(at, name, length) == 0) return option_hints[i].write;
    }
  }
  return NULL;
}

static int fail_unknown(const char *word, size_t length, const cli_verb *verb) {
  const char *names[OPTIONS];
  for (int i = 0; i < OPTIONS; i++) names[i] = options_table[i].verbs & verb->bit ? options_table[i].name : NULL;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)length, word);
  const char *hint = option_hint(name), *nearest = cli_nearest_name(name, names, OPTIONS);
  if (hint) return cli_fail(CLI_WRONG, "--%s: unknown option; write %s", name, hint);
  if (nearest) return cli_fail(CLI_WRONG, "--%s: unknown option; did you mean --%s?", name, nearest);
  return cli_fail(CLI_WRONG, "--%s: unknown option; `faltung help %s` lists those it takes", name, verb->name);
}

typedef struct parser {
  int count;
  char **words;
  int at; /* the current word */
  const cli_verb *verb;
  cli_options *options;
} parser;

static int fail_other_verb(const char *spelled, const cli_verb *verb) {
  return cli_fail(CLI_WRONG, "%s: %s does not take it; `faltung help %s` lists those it takes", spelled, verb->name,
                  verb->name);
}

/* An option as it was spelled, with its value if that is in the same word; else the value is the next word. */
static int take_option(parser *p, const option *one, const char *spelled, const char *value) {
  if (!(one->verbs & p->verb->bit)) return fail_other_verb(spelled, p->verb);
  if (one->value && !value) {
    if (p->at + 1 >= p->count)
      return cli_fail(CLI_WRONG, "%s: needs a value; write %s %s", spelled, spelled, one->value);
    value = p->words[++p->at];
  }
  io_error error;
  if (one->read(value, (char *)p->options + one->field, &error)) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--%s: %s", one->name, error.text);
}

static int parse_long(parser *p) {
  const char *word = p->words[p->at] + 2, *equals = strchr(word, '=');
  const size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const option *one = find_option(word, length);
  if (!one) return fail_unknown(word, length, p->verb);
  char spelled[64];
  snprintf(spelled, sizeof spelled, "--%s", one->name);
  if (!one->value && equals && one->verbs & p->verb->bit)
    return cli_fail(CLI_WRONG, "%s: takes no value; leave out =%.40s", spelled, equals + 1);
  return take_option(p, one, spelled, equals ? equals + 1 : NULL);
}

/* Letters of flags, and at most one of an option with a value, which is the rest of the word or the next one. */
static int parse_letters(parser *p) {
  const char *word = p->words[p->at];
  if (find_option(word + 1, strlen(word + 1)))
    return cli_fail(CLI_WRONG, "%.40s: a name has two dashes; write -%.40s", word, word);
  for (const char *at = word + 1; *at; at++) {
    const option *one = find_letter(*at);
    const char spelled[] = {'-', *at, '\0'};
    if (!one)
      return cli_fail(CLI_WRONG,
                      "%s: unknown option; `faltung help %s` lists those it takes, and a file so named is ./%.40s",
                      spelled, p->verb->name, word);
    const int status = take_option(p, one, spelled, one->value && at[1] ? at + 1 : NULL);
    if (status != CLI_DONE || one->value) return status;
  }
  return CLI_DONE;
}

static int add_operand(parser *p, const char *word) {
  if (p->options->operands == CLI_MAX_OPERANDS)
    return cli_fail(CLI_WRONG, "%.40s: more than %d words after %s; leave some out", word, CLI_MAX_OPERANDS,
                    p->verb->name);
  p->options->operand[p->options->operands++] = word;
  return CLI_DONE;
}

static bool is_help(const char *word) {
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int parse_words(parser *p) {
  bool only_operands = false;
  int status = CLI_DONE;
  for (; p->at < p->count && status == CLI_DONE; p->at++) {
    const char *word = p->words[p->at];
    const bool is_option = !only_operands && word[0] == '-' && word[1];
    if (is_option && strcmp(word, "--") == 0)
      only_operands = true;
    else if (is_option && is_help(word))
      return CLI_HELP;
    else
      status = !is_option ? add_operand(p, word) : word[1] == '-' ? parse_long(p) : parse_letters(p);
  }
  return status;
}

int cli_options_parse(int count, char **words, const cli_verb *verb, cli_options *options) {
  *options = (cli_options){.verb = verb->bit,
                           .alpha = 1,
                           .answer = NAN,
                           .cval = NAN,
                           .out_type = -1,
                           .retype = -1,
                           .max_workspace = -1,
                           .seconds = -1,
                           .count = -1};
  parser p = {count, words, 0, verb, options};
  const int status = parse_words(&p);
  if (status != CLI_DONE) return status;
  options->has_cval = !isnan(options->cval);
  if (!(verb->bit & CLI_FILTERS) || !options->output || options->operands == 0) return CLI_DONE;
  return add_operand(&p, options->output);
}
