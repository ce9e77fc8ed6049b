/* Help as text, and the tables that the manual page shares with it. */
#include "help.h"

#include <string.h>

static const cli_help_row statuses[] = {
    {"0", "done"},
    {"1", "ran, and a check failed"},
    {"2", "the command line or a file is wrong"},
    {"3", "not possible within the budget or on this machine"},
    {"4", "an internal error"},
    {"128+N", "ended by signal N, such as 130 by Ctrl-C"},
};

static const cli_help_row variables[] = {
    {"FALTUNG_CACHE", "directory of measured limits, wisdom and compiled kernels"},
    {"FALTUNG_THREADS", "threads, where --threads is not given"},
    {"FALTUNG_ISA", "the highest instruction set to use"},
    {"FALTUNG_DEVICE", "the device, where --device is not given"},
    {"FALTUNG_CUDA_PATH", "the first place to look for libcuda and libnvrtc"},
    {"FALTUNG_BLAS", "the BLAS library of --method im2col"},
    {"FALTUNG_CUDNN", "the cuDNN library of --method cudnn"},
    {"FALTUNG_CUBLAS", "the cuBLAS library of --method cuda-im2col"},
    {"FALTUNG_VERBOSE", "plan,time: a line on standard error for each plan or execution"},
};

static bool row_at(const cli_help_row *rows, int count, int i, cli_help_row *row) {
  if (i >= 0 && i < count) *row = rows[i];
  return i >= 0 && i < count;
}

bool cli_help_status(int i, cli_help_row *row) {
  return row_at(statuses, sizeof statuses / sizeof *statuses, i, row);
}

bool cli_help_variable(int i, cli_help_row *row) {
  return row_at(variables, sizeof variables / sizeof *variables, i, row);
}

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

void cli_help_all(FILE *file) {
  const cli_verb *verb;
  cli_help_row row;
  fputs(
      "usage: faltung VERB ... [options]\n"
      "       faltung help VERB\n"
      "       faltung -h, --help | -V, --version\n"
      "\n"
      "Convolution on images, signals, volumes and layers.\n"
      "\n",
      file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) fprintf(file, "  %-10s %s\n", verb->name, verb->summary);
  fputs("\nExit status:\n", file);
  for (int i = 0; cli_help_status(i, &row); i++) fprintf(file, "  %s  %s\n", row.name, row.meaning);
}

void cli_help_verb(FILE *file, const cli_verb *verb) {
  enum { LEFT = 28 };
  cli_option_note note;
  fprintf(file, "usage: faltung %s%s%s [options]\n\n%s: %s.\n\n%s%sOptions:\n", verb->name, *verb->operands ? " " : "",
          verb->operands, verb->name, verb->summary, verb->details, *verb->details ? "\n" : "");
  for (int i = 0; cli_option_at(i, &note); i++) {
    if (!(note.verbs & verb->bit)) continue;
    char head[64];
    cli_option_head(&note, head);
    fprintf(file, "  %*s%-*s", note.letter ? 0 : 4, "", note.letter ? LEFT - 2 : LEFT - 6, head);
    print_wrapped(file, note.help, LEFT);
  }
}

const char *cli_help_verbs(unsigned verbs, char *text, size_t size) {
  const cli_verb *verb;
  size_t at = 0;
  unsigned all = 0;
  text[0] = '\0';
  for (int i = 0; (verb = cli_verb_at(i)); i++) {
    all |= verb->bit;
    if (verb->bit & verbs && at < size)
      at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", verb->name);
  }
  if (verbs == all) snprintf(text, size, "every verb");
  if (verbs == (all & ~(unsigned)CLI_LIST)) snprintf(text, size, "every verb but list");
  return text;
}

/* A vertical bar would end the cell. */
static void print_cell(FILE *file, const char *text) {
  for (; *text; text++) fprintf(file, *text == '|' ? "\\|" : "%c", *text);
}

void cli_help_options(FILE *file) {
  cli_option_note note;
  char head[64], verbs[160];
  fputs("| option | verbs | meaning |\n|---|---|---|\n", file);
  for (int i = 0; cli_option_at(i, &note); i++) {
    fprintf(file, "| `%s` | %s | ", cli_option_head(&note, head), cli_help_verbs(note.verbs, verbs, sizeof verbs));
    print_cell(file, note.help);
    fputs(" |\n", file);
  }
}
