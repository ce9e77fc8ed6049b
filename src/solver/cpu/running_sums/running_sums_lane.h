/* Kernels for box filters in one lane: running_sums_kernels.h says what they compute. Define FALT_LANE_BITS and
 * FALT_RUNNING_LANE, the table's name without its level, before. */
#include "core/memory.h"
#include "cpu/vector.h"

typedef lane element;
#include "solver/cpu/running_sums/running_sums_along.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

FALT_INLINE void add_vector(lane *out, const lane *sums, vec row, vec weight) {
  vec_store(out, sums ? vec_madd(vec_load(sums), row, weight) : row * weight);
}

static void add(void *out, const void *sums, const void *row, double weight, int64_t n) {
  lane *to = out;
  const lane *before = sums, *from = row;
  const vec by = vec_all((lane)weight);
  int64_t e = 0;
  if (before)
    for (; e + VEC <= n; e += VEC) add_vector(to + e, before + e, vec_load(from + e), by);
  else
    for (; e + VEC <= n; e += VEC) add_vector(to + e, NULL, vec_load(from + e), by);
  if (e < n) add_vector(to + e, before ? before + e : NULL, vec_load_part(from + e, (int)(n - e)), by);
}

static void slide_row(void *out, void *sums, const void *end, const void *row, double weight, int64_t n) {
  lane *to = out, *before = sums;
  const lane *from = row, *ends = end;
  const vec by = vec_all((lane)weight);
  for (int64_t e = 0; e < n; e += VEC) {
    const vec x = e + VEC <= n ? vec_load(from + e) : vec_load_part(from + e, (int)(n - e));
    const vec sum = vec_madd(vec_load(before + e), x, by);
    vec_store(before + e, sum);
    vec_store(to + e, vec_load(ends + e) + sum);
  }
}

static void along(const falt_running_along *call) {
  along_by_blocks(call);
}

extern const falt_running_kernels JOIN(FALT_RUNNING_LANE, FALT_ISA_SUFFIX);
const falt_running_kernels JOIN(FALT_RUNNING_LANE, FALT_ISA_SUFFIX) = {.along = along, .add = add, .slide = slide_row};
