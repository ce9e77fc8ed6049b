/* TMA descriptors (im2col mode) and compile-time parameters of cuda_igemm_sm90.cu. */
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_tiles.h"

#include <string.h>

/* TMA visits the pixels of a box in its tensor, from a lower to an upper corner by a stride. At each pixel it reads at
 * a nonnegative offset and returns zeros beyond the tensor. So a forward layer's box starts at -pad, and the offsets
 * are those of the taps. In dgrad, outputs i with the same i mod stride have the same taps, every (stride/g)-th, g =
 * gcd(stride, dilation). Their tap j reads dy at (i + pad - j*dilation)/stride, which decreases with j, so the box
 * starts where the last tap reads. */

enum { MOST_STRIDE = 8, MOST_PIXELS = INT32_MAX - 4096 };

/* Corners are in [-2^(n-1), 2^(n-1)), offsets in [0, 2^n), for 16, 8 and 5 bits. */
static int64_t range_of(int axes) {
  static const int bits[] = {16, 8, 5};
  return INT64_C(1) << bits[axes - 1];
}

static bool corner_fits(int64_t corner, int axes) {
  return corner >= -range_of(axes) / 2 && corner < range_of(axes) / 2;
}

/* The box for `count` pixels of an axis of `size`; false if it does not fit. */
static bool make_box(falt_cuda_igemm_sm90_axis *a, int *last, int64_t corner, int64_t stride, int64_t count,
                     int64_t size, int axes) {
  const int64_t upper = corner + (count - 1) * stride - (size - 1);
  const int64_t reach = a->offset + (int64_t)(a->taps > 0 ? a->taps - 1 : 0) * a->offset_step;
  a->corner = (int)corner;
  a->stride = (int)stride;
  a->pixels = (int)count;
  *last = (int)upper;
  return corner_fits(corner, axes) && corner_fits(upper, axes) && reach >= 0 && reach < range_of(axes) &&
         a->offset < range_of(axes);
}

static bool forward_axis(const falt_igemm_sm90_axis *a, int axes, falt_igemm_sm90_polyphase *p, int i) {
  falt_cuda_igemm_sm90_axis *made = &p->axis[i];
  if ((a->taps - 1) * a->dilation >= range_of(axes) || a->stride > MOST_STRIDE) return false;
  *made = (falt_cuda_igemm_sm90_axis){.taps = (int)a->taps, .step = 1, .offset_step = (int)a->dilation};
  p->first[i] = 0;
  p->pace[i] = 1;
  return make_box(made, &p->last[i], -a->pad, a->stride, a->out, a->in, axes);
}

static int64_t modulo(int64_t a, int64_t b) {
  return (a % b + b) % b;
}

/* The taps of output `first` of an axis and of the outputs a stride apart. */
static bool gradient_axis(const falt_igemm_sm90_axis *a, int axes, int64_t first, falt_igemm_sm90_polyphase *p, int i) {
  falt_cuda_igemm_sm90_axis *made = &p->axis[i];
  int64_t tap = 0, step = 1, taps = 0, corner = 0;
  while (tap < a->taps && tap < a->stride && modulo(first + a->pad - tap * a->dilation, a->stride)) tap++;
  while (step * a->dilation % a->stride) step++;
  if (tap < a->taps && modulo(first + a->pad - tap * a->dilation, a->stride) == 0)
    taps = (a->taps - 1 - tap) / step + 1;
  const int64_t fall = step * a->dilation / a->stride;
  if (taps * fall >= INT32_MAX) return false;
  *made = (falt_cuda_igemm_sm90_axis){.taps = (int)taps, .step = (int)step};
  if (taps > 0) {
    made->first = (int)tap;
    made->offset = (int)((taps - 1) * fall);
    made->offset_step = (int)-fall;
    corner = (first + a->pad - tap * a->dilation) / a->stride - made->offset;
  }
  p->first[i] = first;
  p->pace[i] = a->stride;
  return make_box(made, &p->last[i], corner, 1, (a->in - first + a->stride - 1) / a->stride, a->out, axes);
}

static int taps_of(const falt_igemm_sm90_polyphase *p) {
  return p->axis[0].taps * p->axis[1].taps * p->axis[2].taps;
}

static void insert(falt_igemm_sm90_polyphase *polyphases, int count, const falt_igemm_sm90_polyphase *made) {
  while (count > 0 && taps_of(&polyphases[count - 1]) < taps_of(made)) {
    polyphases[count] = polyphases[count - 1];
    count--;
  }
  polyphases[count] = *made;
}

static const char far[] = "a tap or a pad is farther away than TMA reaches";

static const char *gradient_polyphases(const falt_igemm_sm90_problem *p, falt_igemm_sm90_polyphase *polyphases,
                                       int *count) {
  const falt_igemm_sm90_axis *a = p->axis;
  for (int i = 0; i < 3; i++)
    if (a[i].stride > MOST_STRIDE) return "the stride has more polyphase parts than one launch takes";
  for (int64_t d = 0; d < a[0].stride && d < a[0].in; d++)
    for (int64_t h = 0; h < a[1].stride && h < a[1].in; h++)
      for (int64_t w = 0; w < a[2].stride && w < a[2].in; w++) {
        falt_igemm_sm90_polyphase made;
        memset(&made, 0, sizeof made);
        if (*count == FALT_IGEMM_SM90_POLYPHASES) return "the stride has more polyphase parts than one launch takes";
        if (!gradient_axis(&a[0], p->axes, d, &made, 0) || !gradient_axis(&a[1], p->axes, h, &made, 1) ||
            !gradient_axis(&a[2], p->axes, w, &made, 2))
          return far;
        insert(polyphases, (*count)++, &made);
      }
  return NULL;
}

static bool countable(const falt_igemm_sm90_problem *p) {
  double x = (double)p->batch, y = (double)p->batch;
  for (int i = 0; i < 3; i++) {
    const falt_igemm_sm90_axis *a = &p->axis[i];
    if (a->in > MOST_PIXELS || a->out > MOST_PIXELS || a->dilation > MOST_PIXELS || a->taps > MOST_PIXELS ||
        a->pad > MOST_PIXELS || a->pad < -MOST_PIXELS)
      return false;
    x *= (double)a->in;
    y *= (double)a->out;
  }
  return x < MOST_PIXELS && y < MOST_PIXELS && p->channels < MOST_PIXELS && p->results < MOST_PIXELS;
}

const char *falt_igemm_sm90_polyphases(const falt_igemm_sm90_problem *p,
                                       falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES], int *count) {
  *count = 0;
  if (!countable(p)) return "it has more than 2^31 pixels or channels";
  if (p->operation == FALT_IGEMM_SM90_DATA) return gradient_polyphases(p, polyphases, count);
  memset(polyphases, 0, sizeof *polyphases);
  for (int i = 0; i < 3; i++)
    if (!forward_axis(&p->axis[i], p->axes, polyphases, i)) return far;
  *count = 1;
  return NULL;
}
