/* The command `faltung`: finds the verb and hands over. Exit statuses: 0 done; 1 a check failed; 2 the command line or
 * a file is wrong; 3 not possible within the budget or on this machine; 4 an internal error. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "band.h"
#include "report.h"
#include "verbs.h"

static const char filter_details[] =
    "INPUT and OUTPUT are images, .npy arrays, audio or volumes, told apart by extension; - is standard input or\n"
    "output for .npy. Every channel is filtered by itself, alpha too. The output has the input's type unless "
    "--out-type\n"
    "says otherwise; results are rounded to the nearest even integer and saturated.\n"
    "\n"
    "Kernels, in as many dimensions as the input has where that has a meaning:\n"
    "  gaussian:SIGMA[,TRUNCATE]  box:N box:5x5 box:3x3x3  laplace  log:SIGMA[,TRUNCATE]  sharpen\n"
    "  unsharp:SIGMA,AMOUNT  sobel:x|y|z  prewitt:x|y|z  scharr:x|y|z  identity\n"
    "  emboss  motion:LENGTH,ANGLE (images)\n"
    "  \"1 2 1; 2 4 2; 1 2 1\"  rows by ; planes by ;; or / with a blank before it, fractions as 1/16\n"
    "  FILE.npy, or any other file with one row a line and an empty line between planes\n";

/* Verbs that exist, in the order of the help. */
static const cli_verb verbs[] = {
    {"convolve", CLI_CONVOLVE, "INPUT OUTPUT --kernel K",
     "filter a file with the kernel flipped (scipy.ndimage, numpy)", filter_details, falt_verb_convolve},
    {"correlate", CLI_CORRELATE, "INPUT OUTPUT --kernel K",
     "filter a file with the kernel as it stands (OpenCV filter2D, layers)", filter_details, falt_verb_correlate},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static const cli_verb *find_verb(const char *name) {
  for (int i = 0; i < VERBS; i++) {
    if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
  }
  return NULL;
}

/* Closing standard output shows what buffering hid, such as a full disk. */
static int finish(int status) {
  errno = 0;
  if ((ferror(stdout) | fflush(stdout)) == 0 || status != CLI_DONE) return status;
  return cli_fail(CLI_WRONG, "standard output: %s; nothing more can be written to it", strerror(errno ? errno : EIO));
}

static int print_help(FILE *file) {
  fputs(
      "usage: faltung VERB ... [options]\n"
      "       faltung help VERB\n"
      "       faltung --help | --version\n"
      "\n"
      "Convolution on images, signals, volumes and layers.\n"
      "\n",
      file);
  for (int i = 0; i < VERBS; i++) fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
  fputs(
      "\nExit status: 0 done; 1 a check failed; 2 the command line or a file is wrong; 3 not possible within the "
      "budget\n"
      "or on this machine; 4 an internal error.\n",
      file);
  return finish(CLI_DONE);
}

static int print_verb_help(const cli_verb *verb) {
  printf("usage: faltung %s %s [options]\n\n%s: %s.\n\n%s\nOptions:\n", verb->name, verb->operands, verb->name,
         verb->summary, verb->details);
  cli_options_help(stdout, verb);
  return finish(CLI_DONE);
}

static int fail_verb(const char *name) {
  const char *names[VERBS];
  for (int i = 0; i < VERBS; i++) names[i] = verbs[i].name;
  char hint[192];
  cli_suggestion(name, names, VERBS, hint, sizeof hint);
  return cli_fail(CLI_WRONG, "%.40s: unknown verb%s", name, hint);
}

static int run_help(int count, char **words) {
  if (count == 0) return print_help(stdout);
  const cli_verb *verb = find_verb(words[0]);
  return verb ? print_verb_help(verb) : fail_verb(words[0]);
}

static int run_verb(const cli_verb *verb, int count, char **words) {
  cli_options options;
  int status = cli_options_parse(count, words, verb, &options);
  if (status == CLI_HELP) return print_verb_help(verb);
  if (status == CLI_DONE) status = finish(verb->run(&options));
  if (cli_band_interrupted()) raise(cli_band_interrupted()); /* cleaned up; now die of it, as the shell expects */
  return status;
}

int main(int count, char **words) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with its own line, and the output is cleaned up */
  if (count < 2) return cli_fail(CLI_WRONG, "no verb given: nothing to do; `faltung --help` lists the verbs");
  const char *first = words[1];
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) return print_help(stdout);
  if (strcmp(first, "help") == 0) return run_help(count - 2, words + 2);
  if (strcmp(first, "--version") == 0) {
    printf("faltung %s\n", falt_version());
    return finish(CLI_DONE);
  }
  if (first[0] == '-')
    return cli_fail(CLI_WRONG, "%.40s: options come after the verb; `faltung --help` lists the verbs", first);
  const cli_verb *verb = find_verb(first);
  return verb ? run_verb(verb, count - 2, words + 2) : fail_verb(first);
}
