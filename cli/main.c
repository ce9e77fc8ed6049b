/* The command `faltung`: finds the verb and runs it. Exit status: 0 done; 1 a check failed; 2 the command line or a
 * file is wrong; 3 not possible within the budget or on this machine; 4 an internal error. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "help.h"
#include "interrupt.h"
#include "report.h"
#include "verbs.h"

static const cli_verb *find_verb(const char *name) {
  const cli_verb *verb;
  for (int i = 0; (verb = cli_verb_at(i)); i++)
    if (strcmp(verb->name, name) == 0) return verb;
  return NULL;
}

/* Closing standard output shows errors that buffering hid, such as a full disk. */
static int finish(int status) {
  errno = 0;
  if ((ferror(stdout) | fflush(stdout)) == 0 || status != CLI_DONE) return status;
  return cli_fail(CLI_WRONG, "standard output: %s; nothing more can be written to it", strerror(errno ? errno : EIO));
}

static int print_help(void) {
  cli_help_all(stdout);
  return finish(CLI_DONE);
}

static int print_verb_help(const cli_verb *verb) {
  cli_help_verb(stdout, verb);
  return finish(CLI_DONE);
}

static int print_version(void) {
  printf("faltung %s\n", falt_version());
  return finish(CLI_DONE);
}

static int fail_verb(const char *name) {
  enum { MOST_VERBS = 32 };
  const char *names[MOST_VERBS];
  int count = 0;
  for (const cli_verb *verb; count < MOST_VERBS && (verb = cli_verb_at(count)); count++) names[count] = verb->name;
  char hint[192];
  cli_suggestion(name, names, count, hint, sizeof hint);
  return cli_fail(CLI_WRONG, "%.40s: unknown verb%s", name, hint);
}

static int print_completion(int count, char **words) {
  io_error error;
  if (count == 0) return cli_fail(CLI_WRONG, "--completion: no shell given; write bash, zsh or fish");
  const int shell = cli_choice_find(cli_choice_shell, words[0], "shell", &error);
  if (shell < 0) return cli_fail(CLI_WRONG, "--completion %s", error.text);
  cli_completion_print[shell](stdout);
  return finish(CLI_DONE);
}

/* Also for packaging: the manual page, completions, the table of options in docs/guide/options.md. */
static int run_help(int count, char **words) {
  if (count == 0) return print_help();
  const cli_verb *verb = find_verb(words[0]);
  if (verb) return print_verb_help(verb);
  if (strcmp(words[0], "--completion") == 0) return print_completion(count - 1, words + 1);
  const bool is_manual = strcmp(words[0], "--man") == 0;
  if (!is_manual && strcmp(words[0], "--options") != 0) return fail_verb(words[0]);
  (is_manual ? cli_manual_print : cli_help_options)(stdout);
  return finish(CLI_DONE);
}

static int run_verb(const cli_verb *verb, int count, char **words) {
  cli_options options;
  int status = cli_options_parse(count, words, verb, &options);
  if (status == CLI_HELP) return print_verb_help(verb);
  if (status == CLI_DONE) status = finish(verb->run(&options));
  if (cli_interrupted()) cli_interrupts_die(); /* everything is cleaned up */
  return status;
}

int main(int count, char **words) {
  cli_interrupts_catch();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with its own line, and the output is cleaned up */
  if (count < 2) return cli_fail(CLI_WRONG, "no verb given: nothing to do; `faltung --help` lists the verbs");
  const char *first = words[1];
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) return print_help();
  if (strcmp(first, "help") == 0) return run_help(count - 2, words + 2);
  if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) return print_version();
  if (first[0] == '-')
    return cli_fail(CLI_WRONG, "%.40s: options come after the verb; `faltung --help` lists the verbs", first);
  const cli_verb *verb = find_verb(first);
  return verb ? run_verb(verb, count - 2, words + 2) : fail_verb(first);
}
