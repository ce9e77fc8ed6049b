/* Generic kernels of one instruction set: the lanes of generic_lane.h and their table. Compiled once per level. */
#include "solver/generic/generic_kernels.h"

#include <stdbool.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if FALT_VECTOR_BYTES == 64
enum { COLUMN_VECTORS = 4, ROWS = 6 }; /* 24 sums and 4 columns in 32 registers */
#else
enum { COLUMN_VECTORS = 2, ROWS = 4 }; /* 8 sums and 2 columns in 16 registers */
#endif

typedef float f32_vector __attribute__((vector_size(FALT_VECTOR_BYTES), aligned(4), may_alias));
typedef double f64_vector __attribute__((vector_size(FALT_VECTOR_BYTES), aligned(8), may_alias));

#define LANE(name) JOIN(f32_, name)
#define LANE_ELEMENT float
#define LANE_SUM float
#define LANE_VECTOR f32_vector
#define LANE_LOAD(address) (*(const f32_vector *)(address))
#define LANE_WIDTH (FALT_VECTOR_BYTES / 4)
#define LANE_IS_NAN(x) ((x) != (x))
#include "solver/generic/generic_lane.h"

#define LANE(name) JOIN(f64_, name)
#define LANE_ELEMENT double
#define LANE_SUM double
#define LANE_VECTOR f64_vector
#define LANE_LOAD(address) (*(const f64_vector *)(address))
#define LANE_WIDTH (FALT_VECTOR_BYTES / 8)
#define LANE_IS_NAN(x) ((x) != (x))
#include "solver/generic/generic_lane.h"

#define LANE(name) JOIN(wide_, name)
#define LANE_ELEMENT int64_t
#define LANE_SUM __int128
#define LANE_VECTOR __int128
#define LANE_LOAD(address) ((__int128)*(const int64_t *)(address))
#define LANE_WIDTH 1
#define LANE_IS_NAN(x) false
#include "solver/generic/generic_lane.h"

extern const falt_generic_kernels JOIN(falt_generic_kernels_, FALT_ISA_SUFFIX);
const falt_generic_kernels JOIN(falt_generic_kernels_, FALT_ISA_SUFFIX) = {
    .lane = {&f32_lane, &f64_lane, &wide_lane},
};
