/* Kernels for box filters of integers, compiled once per instruction set: running_sums_kernels.h says what they
 * compute. Sums are modulo 2^32, so the order of additions and subtractions does not matter. */
#define FALT_LANE_BITS 32
#include "core/memory.h"
#include "cpu/vector.h"

typedef uint32_t element;
#include "solver/cpu/running_sums/running_sums_along.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* Loops that compilers turn into vectors. */
#define MOVE(type)                                                                                                 \
  static void move_##type(uint32_t *restrict sums, const type##_t *restrict enter, const type##_t *restrict leave, \
                          int64_t n) {                                                                             \
    if (!leave)                                                                                                    \
      for (int64_t e = 0; e < n; e++) sums[e] += (uint32_t)enter[e];                                               \
    else if (!enter)                                                                                               \
      for (int64_t e = 0; e < n; e++) sums[e] -= (uint32_t)leave[e];                                               \
    else                                                                                                           \
      for (int64_t e = 0; e < n; e++) sums[e] += (uint32_t)enter[e] - (uint32_t)leave[e];                          \
  }
MOVE(uint8)
MOVE(int8)
MOVE(uint16)
MOVE(int16)
MOVE(int32)

/* A case for each type, like other switches over types: each has a loop of its own. */
static void move(void *sums, const void *enter, const void *leave, falt_type type, int64_t n) {
  switch (type) {
    case FALT_U8:
      move_uint8(sums, enter, leave, n);
      break;
    case FALT_S8:
      move_int8(sums, enter, leave, n);
      break;
    case FALT_U16:
      move_uint16(sums, enter, leave, n);
      break;
    case FALT_S16:
      move_int16(sums, enter, leave, n);
      break;
    default:
      move_int32(sums, enter, leave, n);
  }
}

static void scale_f32(void *out, const void *sums, int64_t stride, double weight, int64_t n) {
  const int32_t *restrict from = sums;
  float *restrict to = out;
  const float by = (float)weight;
  if (stride == 1)
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i] * by;
  else
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i * stride] * by;
}

static void scale_f64(void *out, const void *sums, int64_t stride, double weight, int64_t n) {
  const int32_t *restrict from = sums;
  double *restrict to = out;
  for (int64_t i = 0; i < n; i++) to[i] = from[i * stride] * weight;
}

/* Integers may be subtracted: windows 16 apart differ by two sums of 16. */
static void along(const falt_running_along *call) {
  const int64_t group = SIXTEEN * call->step, n = call->n, next = call->taps * call->step;
  const uint32_t *sixteens = call->sixteens;
  const rest tail = rest_of(call);
  uint32_t *out = call->out;
  if (call->taps < SIXTEEN) {
    along_by_blocks(call);
    return;
  }
  sum_neighbours(call);
  for (int64_t first = 0; first < falt_min(group, n); first += ELEMENTS) {
    elements sum = rest_at(&tail, first);
    for (int64_t i = 0; i < call->taps / SIXTEEN; i++) sum += at(sixteens + first + i * group);
    put(out + first, sum);
    for (int64_t e = first; e + group < n; e += group) {
      sum += at(sixteens + e + next) - at(sixteens + e);
      put(out + e + group, sum);
    }
  }
}

extern const falt_running_kernels JOIN(falt_running_u32_, FALT_ISA_SUFFIX);
const falt_running_kernels JOIN(falt_running_u32_, FALT_ISA_SUFFIX) = {
    .along = along, .move = move, .scale = {[FALT_LANE_F32] = scale_f32, [FALT_LANE_F64] = scale_f64}};
