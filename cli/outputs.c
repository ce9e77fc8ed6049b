/* The output paths of convolve and correlate: the last operand, or the inputs' names in it if it is a directory. */
#include "outputs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/format.h"
#include "report.h"

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool cli_outputs_check(const cli_options *options, bool *directory, io_error *error) {
  struct stat status;
  const char *last = options->operand[options->operands - 1];
  *directory = stat(last, &status) == 0 && S_ISDIR(status.st_mode);
  return *directory || options->operands == 2 ||
         cli_wrong(error,
                   "%.200s: is no directory, which the results of %d files need; make it first, or give one input",
                   last, options->operands - 1);
}

static bool is_same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The path in the directory: the input's name, with the extension of --format if that is given. False if too long. */
static bool name_in(const cli_options *options, const char *input, const char *directory, char path[PATH_MAX]) {
  char file[PATH_MAX], extension[32] = "";
  io_split(input, file);
  const char *base = base_of(file), *format = options->format ? options->format : "";
  const size_t length = strlen(directory);
  const char *slash = length && directory[length - 1] == '/' ? "" : "/";
  if (options->format) io_extension(base, extension, sizeof extension);
  const int kept = (int)(strlen(base) - strlen(extension));
  return snprintf(path, PATH_MAX, "%s%s%.*s%s%s", directory, slash, kept, base, *format ? "." : "", format) < PATH_MAX;
}

bool cli_outputs_name(const cli_options *options, int i, bool directory, char path[PATH_MAX], io_error *error) {
  char file[PATH_MAX], other[PATH_MAX];
  const char *input = options->operand[i], *last = options->operand[options->operands - 1];
  if (!directory)
    return snprintf(path, PATH_MAX, "%s", last) < PATH_MAX || cli_wrong(error, "%.200s: is too long", last);
  if (strcmp(input, "-") == 0)
    return cli_wrong(error, "-: standard input gives its result no name in %.200s; name the output file", last);
  if (!name_in(options, input, last, path))
    return cli_wrong(error, "%.200s: is too long a name in %.200s; shorten it", input, last);
  for (int j = 0; j < i; j++)
    if (name_in(options, options->operand[j], last, other) && strcmp(path, other) == 0)
      return cli_wrong(error, "%.200s: its output %.200s is that of %.200s; filter them into two directories", input,
                       path, options->operand[j]);
  for (int j = 0; j + 1 < options->operands; j++) {
    io_split(options->operand[j], file);
    if (is_same_file(file, path))
      return cli_wrong(error, "%.200s: its output would replace the input %.200s; choose another directory", input,
                       options->operand[j]);
  }
  return true;
}
