/* The manual page faltung(1), from the tables of verbs and options. */
#include <string.h>

#include "help.h"

/* Text with roff's requests and escapes quoted. */
static void print_text(FILE *file, const char *text) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", file);
    if (*text == '\\')
      fputs("\\e", file);
    else if (*text == '-')
      fputs("\\-", file);
    else
      fputc(*text, file);
    begins = *text == '\n';
  }
}

static void print_item(FILE *file, const char *head, const char *text) {
  fputs(".TP\n.B ", file);
  print_text(file, head);
  fputc('\n', file);
  print_text(file, text);
  fputc('\n', file);
}

static void print_verb(FILE *file, const cli_verb *verb) {
  char head[128];
  snprintf(head, sizeof head, "faltung %s %s", verb->name, verb->operands);
  fputs(".SS ", file);
  print_text(file, head);
  fputs("\n", file);
  print_text(file, verb->summary);
  fputs(".\n", file);
  if (!*verb->details) return;
  fputs(".PP\n.nf\n", file);
  print_text(file, verb->details);
  fputs(".fi\n", file);
}

static void print_option(FILE *file, const cli_option_note *note) {
  char head[64], verbs[160], text[512];
  snprintf(text, sizeof text, "%s\n(%s)", note->help, cli_help_verbs(note->verbs, verbs, sizeof verbs));
  print_item(file, cli_option_head(note, head), text);
}

static void print_rows(FILE *file, const char *title, bool (*at)(int, cli_help_row *)) {
  cli_help_row row;
  fprintf(file, ".SH %s\n", title);
  for (int i = 0; at(i, &row); i++) print_item(file, row.name, row.meaning);
}

void cli_manual_print(FILE *file) {
  const cli_verb *verb;
  cli_option_note note;
  fprintf(file, ".TH FALTUNG 1 \"\" \"faltung %s\" \"User Commands\"\n", falt_version());
  fputs(
      ".SH NAME\nfaltung \\- convolution on images, signals, volumes and network layers\n"
      ".SH SYNOPSIS\n.B faltung\n.I VERB\n\\&...\n.RI [ options ]\n.br\n.B faltung help\n.I VERB\n.br\n"
      ".B faltung \\-\\-version\n"
      ".SH DESCRIPTION\n"
      "Options stand anywhere after the verb: \\-\\-name value, \\-\\-name=value, \\-k value or \\-kvalue; flags of "
      "one\n"
      "letter may stand together, as in \\-qk value; \\-\\- ends the options.\n"
      "An error is one line on standard error: what, why, and what to do.\n"
      ".SH VERBS\n",
      file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) print_verb(file, verb);
  fputs(".SH OPTIONS\n", file);
  for (int i = 0; cli_option_at(i, &note); i++) print_option(file, &note);
  print_rows(file, "EXIT STATUS", cli_help_status);
  print_rows(file, "ENVIRONMENT", cli_help_variable);
  fputs(
      ".SH EXAMPLES\n.nf\n"
      "faltung convolve in.jpg out.png \\-\\-kernel gaussian:2\n"
      "faltung correlate in.jpg \\-o edges.png \\-qk laplace\n"
      "faltung explain correlate h=1024 w=1024 r=5 s=5 boundary=symmetric\n"
      ".fi\n",
      file);
}
