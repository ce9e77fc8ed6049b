/* ladder --list and --show: the names of the steps with their sections of the textbook, and the source of one. */
#include <string.h>

#include "ladder.h"
#include "report.h"

/* Is `name` one of the words of `names`? NULL is any. */
static bool is_named(const char *names, const char *name) {
  const char *found = name ? strstr(names, name) : names;
  return found && (!name || found[strlen(name)] == ' ' || found[strlen(name)] == '\0');
}

static bool is_asked_for(const cli_options *options, const ladder_track *track) {
  const char *device = options->device;
  if (device && strcmp(device, "auto") != 0 && (strcmp(device, "cpu") == 0) == track->on_gpu) return false;
  return is_named(track->names, options->operands ? options->operand[0] : NULL);
}

static void list_step(bool json, const ladder_track *track, const ladder_step *step) {
  const char *device = track->on_gpu ? "cuda" : "cpu", *book = step->book ? step->book : "";
  if (!json) {
    printf("%-8s  %-4s  %-12s  %-24s  %s\n", track->names, device, step->name, book, step->idea);
    return;
  }
  cli_json out = cli_json_open(stdout);
  cli_json_text(&out, "ladder", track->names);
  cli_json_text(&out, "device", device);
  cli_json_text(&out, "step", step->name);
  cli_json_text(&out, "book", book);
  cli_json_text(&out, "idea", step->idea);
  cli_json_close(&out);
}

void cli_ladder_list(const cli_options *options) {
  if (!options->json) printf("%-8s  %-4s  %-12s  %-24s  %s\n", "ladder", "on", "step", "textbook", "what is new");
  for (const ladder_track *track = ladder_tracks; track->names; track++)
    for (const ladder_step *step = track->steps; step->name && is_asked_for(options, track); step++)
      list_step(options->json, track, step);
  if (options->json || options->operands) return;
  putchar('\n');
  cli_exercises_list();
}

static const char *solver_about(const char *name) {
  for (int i = 0; falt_solver_name(i); i++)
    if (strcmp(falt_solver_name(i), name) == 0) return falt_solver_about(i);
  return "";
}

static void show_step(const ladder_track *track, const ladder_step *step) {
  const char *file = ladder_source_name(track, step);
  if (!file) {
    printf("// %s, %s: the library's solver %s: %s\n", track->names, step->name, step->solver,
           solver_about(step->solver));
    return;
  }
  printf("// %s, %s: %s; ladder/%s%s\n\n", track->names, step->name, step->idea, track->on_gpu ? "kernels/" : "", file);
  ladder_print_source(stdout, track, step);
}

int cli_ladder_show(const cli_options *options) {
  int shown = 0;
  for (const ladder_track *track = ladder_tracks; track->names; track++)
    for (const ladder_step *step = track->steps; step->name && is_asked_for(options, track); step++)
      if (strcmp(step->name, options->show) == 0) {
        if (shown++) putchar('\n');
        show_step(track, step);
      }
  if (shown) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--show %.40s: no such step; `faltung ladder --list` names them all", options->show);
}
