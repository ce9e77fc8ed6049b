/* The values of a kernel from every source: memory, checks, and the weights that a problem takes. */
#include <math.h>
#include <stdlib.h>

#include "kernel.h"
#include "report.h"

bool cli_kernel_allocate(const int64_t size[3], cli_kernel *kernel, io_error *error) {
  int64_t count = 1;
  for (int axis = 0; axis < 3; axis++) {
    if (size[axis] < 1)
      return cli_wrong(error, "--kernel: a size of %lld; every size is at least 1", (long long)size[axis]);
    if (size[axis] > CLI_MOST_TAPS / count) {
      return cli_wrong(error, "--kernel: more than %d taps; make it smaller", CLI_MOST_TAPS);
    }
    count *= size[axis];
  }
  *kernel = (cli_kernel){.size = {size[0], size[1], size[2]}};
  kernel->value = calloc((size_t)count, sizeof *kernel->value);
  return kernel->value || cli_wrong(error, "--kernel: out of memory; make it smaller");
}

void cli_kernel_free(cli_kernel *kernel) {
  free(kernel->value);
  kernel->value = NULL;
}

bool cli_kernel_check(const cli_kernel *kernel, int space, io_error *error) {
  const int64_t *size = kernel->size;
  int axes = size[0] > 1 ? 3 : size[1] > 1 ? 2 : 1;
  if (axes > space) {
    return cli_wrong(error, "--kernel: it has %d axes and the data has %d; give a kernel of at most as many", axes,
                     space);
  }
  for (int64_t i = 0; i < cli_kernel_count(kernel); i++) {
    if (isfinite(kernel->value[i])) continue;
    if (kernel->factors) return cli_wrong(error, "--kernel: a tap is not finite; give finite numbers");
    return cli_wrong(error, "--kernel: tap %lld,%lld,%lld (z,y,x) is %s; give finite numbers",
                     (long long)(i / size[2] / size[1]), (long long)(i / size[2] % size[1]), (long long)(i % size[2]),
                     isnan(kernel->value[i]) ? "not a number" : "infinite");
  }
  return true;
}

/* Sums of a term's lines multiply. */
double cli_kernel_sum(const cli_kernel *kernel, double *magnitudes) {
  const int64_t *size = kernel->size, taps = cli_kernel_count(kernel);
  const double *value = kernel->value;
  double sum = 0;
  *magnitudes = 0;
  for (int64_t i = 0; i < taps && !kernel->factors; i++) sum += value[i], *magnitudes += fabs(value[i]);
  for (int term = 0; term < kernel->factors; term++) {
    double product = 1, most = 1;
    for (int axis = 0; axis < 3; value += size[axis++]) {
      double line = 0, magnitude = 0;
      for (int64_t i = 0; i < size[axis]; i++) line += value[i], magnitude += fabs(value[i]);
      product *= line;
      most *= magnitude;
    }
    sum += product;
    *magnitudes += most;
  }
  return sum;
}

bool cli_kernel_normalize(cli_kernel *kernel, io_error *error) {
  double size;
  const double sum = cli_kernel_sum(kernel, &size);
  const int64_t lines = kernel->factors ? kernel->size[0] + kernel->size[1] + kernel->size[2] : 0;
  if (!(fabs(sum) > 1e-12 * size)) return cli_wrong(error, "--normalize: the kernel's sum is 0; leave it out");
  for (int64_t i = 0; i < cli_kernel_count(kernel); i++)
    if (!lines || i % lines >= lines - kernel->size[2]) kernel->value[i] /= sum; /* of each term its last line */
  return true;
}

/* ---- weights */

bool cli_type_is_integer(falt_type type) {
  static const bool is_integer[FALT_TYPE_COUNT] = {
      [FALT_U8] = true, [FALT_S8] = true, [FALT_U16] = true, [FALT_S16] = true, [FALT_S32] = true};
  return is_integer[type];
}

falt_type cli_kernel_type(const cli_kernel *kernel, falt_type input) {
  double low = 0, high = 0;
  bool whole = cli_type_is_integer(input) && !kernel->factors;
  for (int64_t i = 0; whole && i < cli_kernel_count(kernel); i++) {
    double value = kernel->value[i];
    whole = value == rint(value);
    low = fmin(low, value);
    high = fmax(high, value);
  }
  if (whole && low >= INT8_MIN && high <= INT8_MAX) return FALT_S8;
  if (whole && low >= INT16_MIN && high <= INT16_MAX) return FALT_S16;
  if (whole && low >= INT32_MIN && high <= INT32_MAX) return FALT_S32;
  return input == FALT_F64 || input == FALT_S32 ? FALT_F64 : FALT_F32;
}

void *cli_kernel_pack(const cli_kernel *kernel, falt_type type, io_error *error) {
  int64_t count = cli_kernel_count(kernel);
  size_t bytes = ((size_t)count * falt_type_size(type) + 63) / 64 * 64;
  void *data = aligned_alloc(64, bytes);
  if (!data) {
    cli_wrong(error, "--kernel: out of memory; make it smaller");
    return NULL;
  }
  for (int64_t i = 0; i < count; i++) {
    double value = kernel->value[i];
    if (type == FALT_S8) ((int8_t *)data)[i] = (int8_t)value;
    if (type == FALT_S16) ((int16_t *)data)[i] = (int16_t)value;
    if (type == FALT_S32) ((int32_t *)data)[i] = (int32_t)value;
    if (type == FALT_F32) ((float *)data)[i] = (float)value;
    if (type == FALT_F64) ((double *)data)[i] = value;
    if (type == FALT_F32 && isinf((float)value)) {
      cli_wrong(error, "--kernel: a tap of %g does not fit in f32; scale the kernel down and use --alpha", value);
      free(data);
      return NULL;
    }
  }
  return data;
}
