/* Completions for bash, zsh and fish, from the tables of verbs and options. */
#include <string.h>

#include "help.h"

/* Verbs whose operands have names. The others take files. */
static const struct {
  unsigned bit;
  cli_choice choice;
} operands[] = {{CLI_LADDER, cli_choice_ladder}, {CLI_LIST, cli_choice_list}};

static cli_choice operand_choice(const cli_verb *verb) {
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
    if (operands[i].bit == verb->bit) return operands[i].choice;
  }
  return NULL;
}

static const char *verb_name(int i) {
  const cli_verb *verb = cli_verb_at(i);
  return verb ? verb->name : NULL;
}

static void print_choices(FILE *file, cli_choice choice) {
  const char *name;
  for (int i = 0; choice && (name = choice(i)); i++) fprintf(file, "%s%s", i ? " " : "", name);
}

/* "--kernel|-k" */
static void print_pattern(FILE *file, const cli_option_note *note) {
  fprintf(file, "--%s", note->name);
  if (note->letter) fprintf(file, "|-%c", note->letter);
}

/* Within single quotes of any of the three shells. */
static void print_quoted(FILE *file, const char *text) {
  for (; *text; text++) fputs(*text == '\'' ? "'\\''" : (char[2]){*text, '\0'}, file);
}

/* ---- bash */

static void print_bash_values(FILE *file) {
  cli_option_note note;
  fputs("  case $before in\n", file);
  for (int i = 0; cli_option_at(i, &note); i++) {
    if (!note.value) continue;
    fputs("    ", file);
    print_pattern(file, &note);
    fputs(") words='", file);
    print_choices(file, note.choice);
    fprintf(file, "'%s; value=1 ;;\n", note.is_file ? " files=1" : "");
  }
  fputs("  esac\n", file);
}

static void print_bash_verbs(FILE *file) {
  const cli_verb *verb;
  cli_option_note note;
  fputs("  [ $value ] || case $verb in\n", file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) {
    const cli_choice choice = operand_choice(verb);
    fprintf(file, "    %s) words='", verb->name);
    print_choices(file, choice);
    fprintf(file, "'%s options='--help", choice ? "" : " files=1");
    for (int j = 0; cli_option_at(j, &note); j++) {
      if (note.verbs & verb->bit) fprintf(file, " --%s", note.name);
    }
    fputs("' ;;\n", file);
  }
  fputs("    help) words='", file);
  print_choices(file, verb_name);
  fputs("' ;;\n    *) words='help --help --version ", file);
  print_choices(file, verb_name);
  fputs("' ;;\n  esac\n", file);
}

static void print_bash(FILE *file) {
  fputs(
      "# bash completion of faltung\n"
      "_faltung() {\n"
      "  local at=$2 before=$3 verb= words= options= files= value=\n"
      "  COMPREPLY=()\n"
      "  ((COMP_CWORD > 1)) && verb=${COMP_WORDS[1]}\n"
      "  [[ $at == = ]] && at=\n"
      "  [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n",
      file);
  print_bash_values(file);
  print_bash_verbs(file);
  fputs(
      "  [[ $at == -* && $options ]] && words=$options files=\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$at\"; [ $files ] && compgen -f -- \"$at\")\n"
      "}\n"
      "complete -o filenames -F _faltung faltung\n",
      file);
}

/* ---- zsh */

/* Brackets and colons end a description in _arguments. */
static void print_zsh_text(FILE *file, const char *text) {
  for (; *text; text++) {
    if (strchr("[]:\\", *text)) fputc('\\', file);
    print_quoted(file, (char[2]){*text, '\0'});
  }
}

/* The completion of a value: names, files, or both. */
static void print_zsh_action(FILE *file, const cli_option_note *note) {
  const bool both = note->choice && note->is_file;
  if (note->choice) {
    fputs(both ? "{_faltung_name_or_file " : "(", file);
    print_choices(file, note->choice);
    fputs(both ? "}" : ")", file);
  } else if (note->is_file) {
    fputs("_files", file);
  }
}

/* A value may follow as the next word, behind "=" or behind the letter. */
static void print_zsh_option(FILE *file, const cli_option_note *note) {
  const char *plus = note->value ? "+" : "", *equals = note->value ? "=" : "";
  fputs("        ", file);
  if (note->letter)
    fprintf(file, "'(-%c --%s)'{-%c%s,--%s%s}", note->letter, note->name, note->letter, plus, note->name, equals);
  else
    fprintf(file, "--%s%s", note->name, equals);
  fputs("'[", file);
  print_zsh_text(file, note->help);
  fputc(']', file);
  if (note->value) {
    fputc(':', file);
    print_zsh_text(file, note->value);
    fputc(':', file);
    print_zsh_action(file, note);
  }
  fputs("' \\\n", file);
}

static void print_zsh_verb(FILE *file, const cli_verb *verb) {
  cli_option_note note;
  const cli_choice choice = operand_choice(verb);
  fprintf(file, "    %s)\n      _arguments -s -S \\\n", verb->name);
  fputs("        '(-h --help)'{-h,--help}'[the options of the verb]' \\\n", file);
  for (int i = 0; cli_option_at(i, &note); i++) {
    if (note.verbs & verb->bit) print_zsh_option(file, &note);
  }
  fputs("        '*:operand:", file);
  if (choice) {
    fputc('(', file);
    print_choices(file, choice);
    fputs(")' ;;\n", file);
  } else {
    fputs("_files' ;;\n", file);
  }
}

static void print_zsh(FILE *file) {
  const cli_verb *verb;
  fputs(
      "#compdef faltung\n"
      "_faltung_name_or_file() { _alternative \"name:name:($*)\" 'file:file:_files'; }\n"
      "_faltung() {\n"
      "  local -a verbs\n"
      "  verbs=(\n    'help:the options of a verb'\n",
      file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) {
    fprintf(file, "    '%s:", verb->name);
    print_quoted(file, verb->summary);
    fputs("'\n", file);
  }
  fputs(
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    [[ $words[2] == -* ]] && compadd -- -h --help -V --version || _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  local verb=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $verb in\n",
      file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) print_zsh_verb(file, verb);
  fputs("    help) _describe verb verbs ;;\n  esac\n}\n_faltung \"$@\"\n", file);
}

/* ---- fish */

static void print_fish_text(FILE *file, const char *text) {
  for (; *text; text++) fputs(*text == '\'' ? "\\'" : *text == '\\' ? "\\\\" : (char[2]){*text, '\0'}, file);
}

static void print_fish_option(FILE *file, const cli_option_note *note) {
  const cli_verb *verb;
  fputs("complete -c faltung -n '__fish_seen_subcommand_from", file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) {
    if (verb->bit & note->verbs) fprintf(file, " %s", verb->name);
  }
  fprintf(file, "' -l %s", note->name);
  if (note->letter) fprintf(file, " -s %c", note->letter);
  if (note->value) fprintf(file, note->is_file ? " -r" : " -x");
  if (note->choice) {
    fputs(" -a '", file);
    print_choices(file, note->choice);
    fputc('\'', file);
  }
  fputs(" -d '", file);
  print_fish_text(file, note->help);
  fputs("'\n", file);
}

static void print_fish(FILE *file) {
  const cli_verb *verb;
  cli_option_note note;
  fputs(
      "# fish completion of faltung\n"
      "complete -c faltung -n __fish_use_subcommand -f -a help -d 'the options of a verb'\n"
      "complete -c faltung -n __fish_use_subcommand -f -l version -s V -d 'the version'\n"
      "complete -c faltung -f -l help -s h -d 'the verbs, or the options of a verb'\n",
      file);
  for (int i = 0; (verb = cli_verb_at(i)); i++) {
    fprintf(file, "complete -c faltung -n __fish_use_subcommand -f -a %s -d '", verb->name);
    print_fish_text(file, verb->summary);
    fputs("'\n", file);
    if (!operand_choice(verb)) continue;
    fprintf(file, "complete -c faltung -n '__fish_seen_subcommand_from %s' -f -a '", verb->name);
    print_choices(file, operand_choice(verb));
    fputs("'\n", file);
  }
  fputs("complete -c faltung -n '__fish_seen_subcommand_from help' -f -a '", file);
  print_choices(file, verb_name);
  fputs("'\n", file);
  for (int i = 0; cli_option_at(i, &note); i++) print_fish_option(file, &note);
}

void (*const cli_completion_print[])(FILE *file) = {print_bash, print_zsh, print_fish};
