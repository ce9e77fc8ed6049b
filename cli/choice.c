/* Named values, such as types and modes, for options, completions and the verb list. */
#include "choice.h"

#include "axes.h"
#include "kernel.h"
#include "report.h"

#define PICK(names, i) ((i) >= 0 && (i) < (int)(sizeof(names) / sizeof *(names)) ? (names)[i] : NULL)

const char *cli_choice_type(int i) {
  return i >= 0 && i < FALT_TYPE_COUNT ? falt_type_name((falt_type)i) : NULL;
}

const char *cli_choice_mode(int i) {
  static const char *const names[] = {"same", "valid", "full"};
  return PICK(names, i);
}

const char *cli_choice_dialect(int i) {
  return i >= 0 && i + 1 < CLI_DIALECT_COUNT ? cli_dialect_names[i + 1] : NULL;
}

const char *cli_choice_boundary(int i) {
  return cli_boundary_name(i);
}

const char *cli_choice_kernel(int i) {
  return cli_kernel_name(i, NULL, NULL);
}

const char *cli_choice_method(int i) {
  return i == 0 ? "auto" : falt_solver_name(i - 1);
}

const char *cli_choice_device(int i) {
  static const char *const names[] = {"auto", "cpu", "cuda"};
  return PICK(names, i);
}

const char *cli_choice_ladder(int i) {
  static const char *const names[] = {"1d", "2d", "3d", "layer", "fft"};
  return PICK(names, i);
}

const char *cli_choice_format(int i) {
  static const char *const names[] = {"npy",  "npz", "png", "jpg", "tif", "webp", "gif", "bmp",
                                      "ppm",  "pgm", "jp2", "jxl", "hdr", "fits", "v",   "wav",
                                      "flac", "ogg", "aif", "au",  "caf", "w64",  "nii", "nii.gz"};
  return PICK(names, i);
}

const char *cli_choice_page(int i) {
  static const char *const names[] = {"all", "1"};
  return PICK(names, i);
}

const char *cli_choice_list(int i) {
  static const char *const names[] = {"kernels", "solvers", "formats", "devices"};
  return PICK(names, i);
}

const char *cli_choice_shell(int i) {
  static const char *const names[] = {"bash", "zsh", "fish"};
  return PICK(names, i);
}

int cli_choice_find(cli_choice choice, const char *text, const char *kind, io_error *error) {
  enum { MOST = 256 };
  const char *names[MOST];
  int count = 0;
  while (count < MOST && (names[count] = choice(count))) count++;
  const int found = cli_find_name(text, names, count);
  char hint[384];
  if (found < 0)
    cli_wrong(error, "%.40s: unknown %s%s", text, kind, cli_suggestion(text, names, count, hint, sizeof hint));
  return found;
}
