// Filters by 2.5D blocking, unit strides: a thread owns V neighbouring columns of ROWS rows and loops over the planes
// (over the rows for images). It loads each line of a plane once, adds it to the accumulators of all T output planes
// that the line belongs to, and stores the complete one. P. Micikevicius, "3D finite difference computation on GPUs
// using CUDA", 2009, with accumulators instead of input planes in registers.

// The same line of the next plane is loaded into the registers of a line as soon as the line is used. So the loads of a
// whole plane are in flight. There is no shared memory and no barrier.
//
// The neighbouring elements of a window, at most V at either side, come from other lanes by shuffles. At the ends of a
// warp and of a row they are loaded one by one, at the position that the boundary gives. So no output is a special
// case. If V does not divide a row, its last thread is moved inwards and recomputes a few outputs of its neighbour.

// Compile-time parameters, in addition to those of cuda_direct.cu with the same name:
//   LEFT                      elements of a window before a thread's own: the pad less SHIFT
//   SHIFT                     from an output's column to the thread's own elements; a multiple of V
//   BOTH                      1: there are threads with two ends, one that was moved inwards or is alone in its group
//   ROWS                      rows of a thread
//   AHEAD                     lines in flight

#include "args.h"
#include "boundary.cuh"
#include "elements.cuh"
#include "partial.cuh"

typedef long long i64;
typedef falt_cuda_tile_args Args;

constexpr int T = TAPS_T, R = TAPS_R, S = TAPS_S, V = THREAD;
constexpr int TERM = T + R + S;  // taps of a separable term
constexpr int LINES = ROWS + R - 1, WINDOW = V + S - 1;
constexpr bool APART = in_blocks<ACC>(TERMS ? S : T * R * S);  // tap rows have accumulators of their own
constexpr int RIGHT = S - 1 - LEFT, MOST = LEFT > RIGHT ? LEFT : RIGHT;
constexpr int RIGHT_AT = BOTH ? LEFT : 0;  // of the elements beyond an end, the first on the right
constexpr int ENDS = BOTH ? S - 1 : MOST;
constexpr int CYCLE = (AHEAD + LINES - 1) / LINES;  // planes of an iteration, each with its own registers
constexpr int GROUP = BLOCK_X < 32 ? BLOCK_X : 32;  // threads of a row that shuffle

enum { PLANE, ROW, COLUMN };

struct Taps {
  ACC value[TERMS ? TERMS * TERM : T * R * S];
};

__device__ constexpr bool constants(int before, int after) {
  return before == CONSTANT || after == CONSTANT;
}

constexpr bool FILLS = constants(AXIS_T) || constants(AXIS_R);  // whole lines

// A line's elements that a thread loads.
template <int VECTOR>
struct Line {
  Raw<typename Word<VECTOR * sizeof(X)>::type, V> own;
  X end[ENDS > 0 ? ENDS : 1];
};

// Loop invariants of the planes. Positions are those of existing elements, for any boundary.
struct Thread {
  int line[LINES];  // of the thread's own elements in a plane
  int end[ENDS > 0 ? ENDS : 1];
  unsigned outside;  // bits of the lines, then of the ends, that are the constant
  bool first, last;  // has an end of the group or of the row
};

// ---- lines

struct Found {
  int at;
  bool outside;
};

__device__ inline Found find(int before, int after, int size, int at) {
  const int folded = fold<int, FAR>(before, after, size, at);
  return {max(0, min(folded, size - 1)), folded < 0};
}

template <int VECTOR>
__device__ inline void load_line(Line<VECTOR> &line, const Thread &me, const X *plane, int r) {
  const X *from = plane + me.line[r];
  typedef typename Word<VECTOR * sizeof(X)>::type Vector;
#pragma unroll
  for (int i = 0; i < V / VECTOR; i++) line.own.word[i] = __ldg((const Vector *)(from + i * VECTOR));
#pragma unroll
  for (int e = 0; e < ENDS; e++) line.end[e] = __ldg(from + me.end[e]);
}

__device__ inline ACC end_of(const X *end, const Args &a, const Thread &me, int e) {
  return constants(AXIS_S) && (me.outside >> (LINES + e) & 1) ? constant(a.fill) : from_x(end[e]);
}

template <int VECTOR>
__device__ inline void open_window(ACC window[WINDOW], const Line<VECTOR> &line, const Args &a, const Thread &me,
                                   bool outside) {
#pragma unroll
  for (int v = 0; v < V; v++) window[LEFT + v] = element(line.own, v);
#pragma unroll
  for (int e = 0; e < LEFT; e++) {
    const ACC other = __shfl_up_sync(~0u, window[V + e], 1, GROUP);
    window[e] = me.first ? end_of(line.end, a, me, e) : other;
  }
#pragma unroll
  for (int e = 0; e < RIGHT; e++) {
    const ACC other = __shfl_down_sync(~0u, window[LEFT + e], 1, GROUP);
    window[LEFT + V + e] = me.last ? end_of(line.end, a, me, RIGHT_AT + e) : other;
  }
#pragma unroll
  for (int i = 0; i < WINDOW; i++) window[i] = FILLS && outside ? constant(a.fill) : window[i];
}

// ---- the filter

// Line r goes to the outputs of rows r - R + 1 to r, in all planes; sum[k] takes tap T - 1 - k.
__device__ inline void add_line(ACC sum[T][ROWS][V], const Taps &taps, const ACC window[WINDOW], int r) {
#pragma unroll
  for (int k = 0; k < T; k++)
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
      if (q > r || q + R <= r) continue;
      add_terms<APART, S, V>(sum[k][q], [&](ACC *part, int s) {
#pragma unroll
        for (int v = 0; v < V; v++)
          part[v] += taps.value[TERMS ? 0 : ((T - 1 - k) * R + r - q) * S + s] * window[v + s];
      });
    }
}

// The same for a separable term, along the line and across the lines. `of`: the term's taps.
__device__ inline void add_passed(ACC across[ROWS][V], const ACC *of, const ACC window[WINDOW], int r) {
  ACC along[V] = {};
  add_terms<APART, S, V>(along, [&](ACC *part, int s) {
#pragma unroll
    for (int v = 0; v < V; v++) part[v] += of[T + R + s] * window[v + s];
  });
#pragma unroll
  for (int q = 0; q < ROWS; q++) {
    if (q > r || q + R <= r) continue;
#pragma unroll
    for (int v = 0; v < V; v++) across[q][v] += of[T + r - q] * along[v];
  }
}

__device__ inline void add_across(ACC sum[T][ROWS][V], const ACC *of, const ACC across[ROWS][V]) {
#pragma unroll
  for (int k = 0; k < T; k++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) sum[k][q][v] += of[T - 1 - k] * across[q][v];
}

// The sums of a plane's outputs are complete: the next one's take their place.
__device__ inline void advance(ACC sum[T][ROWS][V]) {
#pragma unroll
  for (int k = 0; k < T; k++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) sum[k][q][v] = k + 1 < T ? sum[k + 1 < T ? k + 1 : k][q][v] : 0;
}

template <int VECTOR>
__device__ inline void store_rows(const Args &a, Y *y, const ACC sum[ROWS][V], int rows) {
#pragma unroll
  for (int q = 0; q < ROWS; q++) {
    ACC result[V];
#pragma unroll
    for (int v = 0; v < V; v++) result[v] = SCALED ? (ACC)a.alpha * sum[q][v] + (ACC)a.beta : sum[q][v];
    if (q < rows) store_results<VECTOR, V>(y + q * a.y_row, result);
  }
}

// ---- the loop over planes

__device__ inline void set_places(Thread &me, const Args &a, int row, int column, int lane) {
  const int own = column + SHIFT, group = me.first ? own : own - lane * V;
#pragma unroll
  for (int r = 0; r < LINES; r++) {
    const Found found = find(AXIS_R, a.in[ROW], row + r - PAD_R);
    me.line[r] = found.at * (int)a.x_row + own;
    me.outside |= (unsigned)found.outside << r;
  }
  // threads that have no end load their group's: all at one address
#pragma unroll
  for (int e = 0; e < ENDS; e++) {
    const bool right = BOTH ? e >= LEFT : me.last;
    const Found found =
        find(AXIS_S, a.in[COLUMN], right ? (me.last ? own + V + e - RIGHT_AT : group) : group + e - LEFT);
    me.end[e] = found.at - own;
    me.outside |= (unsigned)found.outside << (LINES + e);
  }
}

template <int IN, int OUT>
__device__ inline void filter_block(const Args &a, const Taps &taps) {
  unsigned block = blockIdx.x;
  const int wanted = (block % a.blocks[COLUMN] * BLOCK_X + threadIdx.x) * V, column = min(wanted, a.out[COLUMN] - V);
  block /= a.blocks[COLUMN];
  const int row = (block % a.blocks[ROW] * BLOCK_Y + threadIdx.y) * ROWS;
  block /= a.blocks[ROW];
  const int begin = block % a.blocks[PLANE] * a.planes, end = min(begin + a.planes, a.out[PLANE]);
  block /= a.blocks[PLANE];
  const i64 inner = block % a.batch, outer = block / a.batch;
  const X *x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1]);
  Y *y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1] + begin * a.y_plane + row * a.y_row + column);
  const int rows = wanted - column < V ? a.out[ROW] - row : 0;  // to store

  Thread me;
  const int lane = threadIdx.x % GROUP;
  me.first = lane == 0 || wanted > column;
  me.last = lane == GROUP - 1 || wanted + 2 * V > a.out[COLUMN];
  me.outside = 0;
  set_places(me, a, row, column, lane);

  ACC sum[T][ROWS][V] = {};
  Line<IN> line[CYCLE * LINES];
  const int steps = end - begin + T - 1;
  const auto plane_at = [&](int step) { return find(AXIS_T, a.in[PLANE], begin - PAD_T + min(step, steps - 1)); };
#pragma unroll
  for (int j = 0; j < AHEAD; j++) load_line(line[j], me, x + plane_at(j / LINES).at * a.x_plane, j % LINES);
  const X *next = x + plane_at(AHEAD / LINES).at * a.x_plane;
#pragma unroll 1
  for (int i = 0; i < steps; i += CYCLE) {
#pragma unroll
    for (int d = 0; d < CYCLE; d++) {
      const bool outside = constants(AXIS_T) && plane_at(i + d).outside;
      ACC across[TERMS ? TERMS : 1][ROWS][V] = {};
#pragma unroll
      for (int r = 0; r < LINES; r++) {
        const int ahead = d * LINES + r + AHEAD, j = ahead % (CYCLE * LINES);
        ACC window[WINDOW];
        open_window(window, line[d * LINES + r], a, me, outside || (me.outside >> r & 1));
        load_line(line[j], me, next, j % LINES);
        if (j % LINES == LINES - 1) next = x + plane_at(i + ahead / LINES + 1).at * a.x_plane;
#pragma unroll
        for (int k = 0; k < TERMS; k++) add_passed(across[k], taps.value + k * TERM, window, r);
        if (!TERMS) add_line(sum, taps, window, r);
      }
#pragma unroll
      for (int k = 0; k < TERMS; k++) add_across(sum, taps.value + k * TERM, across[k]);
      if (i + d >= T - 1 && i + d < steps) {
        store_rows<OUT>(a, y, sum[0], rows);
        y += a.y_plane;
      }
      advance(sum);
    }
  }
}

// Pointers that allow no vectors: element by element.
extern "C" __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y, BLOCKS)
    falt_25d(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  if (VECTOR_X * VECTOR_Y == 1 || a.aligned)
    filter_block<VECTOR_X, VECTOR_Y>(a, taps);
  else
    filter_block<1, 1>(a, taps);
}
