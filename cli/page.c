/* Writes a page or a picture beside the answer: to a temporary file that is renamed when complete. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --ink: #1b1f24; --soft: #6b7280; --paper: #fff; --line: #e5e7eb;\n"
    "  --ours: #0f766e; --theirs: #94a3b8; --wrong: #b91c1c; --halo: #fde68a; --ghost: #e5e7eb; --tile: #99f6e4 }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --soft: #9ca3af; --paper: #14171a;\n"
    "  --line: #2b3036; --ours: #2dd4bf; --theirs: #64748b; --wrong: #f87171; --halo: #78550f; --ghost: #30363d;\n"
    "  --tile: #115e59 } }\n"
    "body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;\n"
    "  margin: 2rem auto; padding: 0 1rem }\n"
    "h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem } p, .soft { color: var(--soft) }\n"
    "table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }\n"
    "td, th { padding: .15rem .6rem .15rem 0; vertical-align: middle }\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }\n"
    "tbody { border-top: 1px solid var(--line) } tbody tr:first-child td { padding-top: .5rem }\n"
    "tbody tr:last-child td { padding-bottom: .5rem } code { font-size: .85em; color: var(--soft) }\n"
    "rect { fill: var(--theirs) } .ours rect { fill: var(--ours) } .ours { font-weight: 600 }\n"
    ".wrong { color: var(--wrong) }\n"
    "svg text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: var(--ink) } svg .faint { fill: var(--soft) }\n"
    "svg .grid { stroke: var(--line) } svg .roof { stroke: var(--ink); stroke-width: 2; fill: none }\n"
    "svg .mark { stroke: var(--soft); stroke-dasharray: 4 3 } svg .lead { stroke: var(--line) }\n"
    "svg .dot { fill: var(--theirs) } svg .chosen { fill: var(--ours) } svg rect.tile { fill: var(--tile) }\n"
    "svg rect.halo { fill: var(--halo) } svg rect.ghost { fill: var(--ghost) } svg .cell { stroke: var(--paper) }\n"
    "svg rect.window { fill: none; stroke: var(--wrong); stroke-width: 2 }\n"
    "</style>\n";

void cli_page_head(FILE *file) {
  fputs(head, file);
}

void cli_page_text(FILE *file, const char *text) {
  static const char special[] = "<>&\"";
  static const char *const entity[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
  for (; *text; text++) {
    const char *found = strchr(special, *text);
    if (found)
      fputs(entity[found - special], file);
    else
      fputc(*text, file);
  }
}

void cli_page_cell(FILE *file, const char *kind, const char *text) {
  fprintf(file, "<td class=\"%s\">", kind);
  cli_page_text(file, text);
  fputs("</td>", file);
}

int cli_page_write(io_output *output, const char *option, void (*put)(FILE *file, const void *context),
                   const void *context) {
  io_error error = {"out of memory; ask for less"};
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (memory) put(memory, context);
  bool done = memory && fclose(memory) == 0 && text && io_output_write(output, text, (int64_t)size, &error);
  if (done)
    done = io_output_commit(output, &error);
  else
    io_output_discard(output);
  free(text);
  return done ? CLI_DONE : cli_fail(CLI_WRONG, "%s %s", option, error.text);
}
