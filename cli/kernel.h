/* Kernels from the command line: names, literals and files. Values are correlation taps: `correlate` applies them as
 * they stand, `convolve` flips them. */
#ifndef FALT_CLI_KERNEL_H
#define FALT_CLI_KERNEL_H

#include "io/io.h"

enum { CLI_MOST_TAPS = 1 << 24 };

typedef struct cli_kernel {
  int64_t size[3]; /* z, y, x; 1 where absent */
  int factors;     /* terms of one line an axis, which value then holds as falt_kernel does; 0: taps */
  double *value;   /* taps: row-major */
  double rate;     /* samples per second of an impulse response, else 0 */
  int rank;        /* 1: known to be a product of one line an axis; 0: not known */
} cli_kernel;

/* Makes the kernel that text describes, for data with `space` axes; `dense` where its taps are wanted, however many
 * there are. cli_kernel_free afterwards. */
bool cli_kernel_make(const char *text, int space, bool dense, cli_kernel *kernel, io_error *error);
void cli_kernel_free(cli_kernel *kernel);
/* Whether the text describes a kernel of three axes. */
bool cli_kernel_is_volume(const char *text);

/* The three sources; cli_kernel_make tells them apart. */
bool cli_kernel_is_name(const char *text); /* whether what stands before the colon is a kernel's name */
bool cli_kernel_named(const char *text, int space, bool dense, cli_kernel *kernel, io_error *error);
bool cli_kernel_is_literal(const char *text); /* whether it begins with a number */
bool cli_kernel_literal(const char *text, cli_kernel *kernel, io_error *error);
bool cli_kernel_file(const char *path, cli_kernel *kernel, io_error *error);
/* Refuses what no data with `space` axes can be filtered with: too many axes, values that are not finite. */
bool cli_kernel_check(const cli_kernel *kernel, int space, io_error *error);
/* Divides by the sum. */
bool cli_kernel_normalize(cli_kernel *kernel, io_error *error);

/* The i-th kernel that has a name, from 0; NULL after the last. *form is how it is written, *about what it is. */
const char *cli_kernel_name(int i, const char **form, const char **about);
/* The nearest kernel name, or the list, as cli_suggestion writes it. */
const char *cli_kernel_suggestion(const char *text, char *hint, size_t size);

/* A zeroed kernel of this size, and how many values it has. */
bool cli_kernel_allocate(const int64_t size[3], cli_kernel *kernel, io_error *error);
static inline int64_t cli_kernel_count(const cli_kernel *kernel) {
  const int64_t *size = kernel->size;
  return kernel->factors ? kernel->factors * (size[0] + size[1] + size[2]) : size[0] * size[1] * size[2];
}
/* The sum of all taps, and of their magnitudes, or a bound of it. */
double cli_kernel_sum(const cli_kernel *kernel, double *magnitudes);

bool cli_type_is_integer(falt_type type);
/* The weight type for this input: the smallest of s8, s16 and s32 that holds all values if they and the input are
 * integers, so that integer images come out exact; otherwise f32, or f64 beside f64 and s32. */
falt_type cli_kernel_type(const cli_kernel *kernel, falt_type input);
/* The values in that type, 64-byte aligned, to be freed by free. NULL and *error if one does not fit. */
void *cli_kernel_pack(const cli_kernel *kernel, falt_type type, io_error *error);

#endif
