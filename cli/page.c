#include "page.h"

#include <stdlib.h>

#include "report.h"

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
