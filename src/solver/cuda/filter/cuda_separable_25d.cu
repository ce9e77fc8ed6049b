// Separable filters of images, and sums of them, by 2.5D blocking: a warp owns a strip of columns, V neighbouring
// columns a lane, and loops over the rows. It prefetches lines to shared memory. Each lane filters its window along the
// line, adds the output to the accumulators of all R output rows that the line belongs to, and stores the complete one.

// A warp reads each line once; register tiles read it several times. The output of the row pass never leaves the
// registers. The accumulators move to the next row by the destination registers of the multiply-adds.

// Compile-time parameters, in addition to those of cuda_direct.cu (TAPS_T, strides and dilations are 1):
//   THREAD                    columns of a lane: a word of 16 bytes, or several
//   WARPS                     of a block
//   AHEAD                     lines in flight

#include "async.cuh"
#include "places.cuh"

typedef long long i64;
typedef falt_cuda_tile_args Args;

constexpr int R = TAPS_R, S = TAPS_S, V = THREAD, WARP = 32;
constexpr int TERM = 1 + R + S;                                             // taps of a separable term
constexpr int VECTOR = 16 / sizeof(X), OWN = V / VECTOR;                    // elements of a word; a lane's words
constexpr int SHIFT = ((-PAD_S * PIXEL) % VECTOR + VECTOR) % VECTOR;        // loaded before a window to be aligned
constexpr int LOADS = (SHIFT + V + (S - 1) * PIXEL + VECTOR - 1) / VECTOR;  // words of a window
constexpr int WORDS = (WARP - 1) * OWN + LOADS, ROUNDS = (WORDS * VECTOR + WARP - 1) / WARP;
constexpr int LINES = AHEAD + 1;  // in shared memory

enum { PLANE, ROW, COLUMN };

__device__ constexpr bool constants(int before, int after) {
  return before == CONSTANT || after == CONSTANT;
}

constexpr bool FILLS = constants(AXIS_R);  // whole lines

struct Taps {
  ACC value[TERMS * TERM];
};

// The slot of word w of the warp: the words of neighbouring lanes start an odd number of words apart.
__device__ constexpr int slot(int w) {
  return w / OWN * (OWN | 1) + w % OWN;
}

constexpr int SLOTS = slot(WORDS - 1) + 1;

// ---- lines

// Loop invariants of the lines.
struct Lane {
  int lane, column;  // the first element that the warp stages
  bool inside;       // all staged elements are inside the row, in whole words
  int *place;        // else: of elements lane, lane + 32, ..., 32 apart; negative: the constant
};

__device__ inline void put(uint4 *line, int element, X value) {
  ((X *)(line + slot(element / VECTOR)))[element % VECTOR] = value;
}

__device__ inline X filling(const Args &a) {
  X fill;
  store<double>(&fill, TYPE_X, 0, a.fill);
  return fill;
}

__device__ inline void stage(uint4 *line, const Args &a, const Lane &me, const X *row) {
  if (me.inside && (!FILLS || row)) {
    const unsigned to = shared_address(line + slot(me.lane));
    row += me.column + me.lane * VECTOR;
#pragma unroll
    for (int w = 0; w < WORDS; w += WARP)
      if (me.lane + w < WORDS) copy_async<16>(to + sizeof(uint4) * slot(w), row + w * VECTOR, 16);
  } else {
#pragma unroll
    for (int k = 0; k < ROUNDS; k++) {
      const int i = k * WARP + me.lane;
      if (i >= WORDS * VECTOR) continue;
      const int at = me.place[k * WARP];
      if (at >= 0 && (!FILLS || row))
        copy_async<sizeof(X)>(shared_address(line + slot(i / VECTOR)) + i % VECTOR * sizeof(X), row + at, sizeof(X));
      else
        put(line, i, filling(a));
    }
  }
}

// ---- sums

// Adds element i of a window to the outputs along the line that it belongs to. `of`: a term's taps along it.
__device__ inline void add_element(ACC along[V], const ACC *of, ACC x, int i) {
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int from = i - v;
    if (from >= 0 && from % PIXEL == 0 && from / PIXEL < S) along[v] += of[from / PIXEL] * x;
  }
}

// Adds a line to all R outputs; sum[k] takes tap R - 1 - k.
__device__ inline void add_line(ACC sum[R][V], const Taps &taps, const uint4 *words) {
  ACC along[TERMS][V] = {};
#pragma unroll
  for (int w = 0; w < LOADS; w++) {
    Raw<uint4, VECTOR> raw;
    raw.word[0] = words[slot(w)];
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
#pragma unroll
      for (int k = 0; k < TERMS; k++)
        add_element(along[k], taps.value + k * TERM + 1 + R, element(raw, i), w * VECTOR + i - SHIFT);
  }
#pragma unroll
  for (int t = 0; t < TERMS; t++)
#pragma unroll
    for (int k = 0; k < R; k++)
#pragma unroll
      for (int v = 0; v < V; v++) sum[k][v] += taps.value[t * TERM + R - k] * along[t][v];
}

// The sums of a row's outputs are complete: the next one's take their place.
__device__ inline void advance(ACC sum[R][V]) {
#pragma unroll
  for (int k = 0; k < R; k++)
#pragma unroll
    for (int v = 0; v < V; v++) sum[k][v] = k + 1 < R ? sum[k + 1 < R ? k + 1 : k][v] : 0;
}

__device__ inline void store_row(const Args &a, Y *y, const ACC sum[V], int count) {
  ACC result[V];
#pragma unroll
  for (int v = 0; v < V; v++) result[v] = SCALED ? (ACC)a.alpha * sum[v] + (ACC)a.beta : sum[v];
  if (a.aligned && count >= V) {
    store_results<V * sizeof(Y) <= 16 ? V : 16 / sizeof(Y), V>(y, result);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) y[v] = to_y(result[v]);
  }
}

// ---- the loop over rows

// The line that continues a plane at `row`; null: the constant. Inside the image it follows the line `before`.
__device__ inline const X *next_line(const Args &a, const X *plane, const X *before, int row) {
  if (row > 0 && row < a.in[ROW]) return before + a.x_row;
  const int folded = fold<int, FAR>(AXIS_R, a.in[ROW], row);
  if (FILLS && folded < 0) return nullptr;
  return plane + max(0, min(folded, a.in[ROW] - 1)) * a.x_row;
}

__device__ inline void blocked(const Args &a, const Taps &taps, uint4 (*ring)[SLOTS], const X *x, Y *y, int begin,
                               int end, const Lane &me, int count) {
  ACC sum[R][V] = {};
  int row = begin - PAD_R;
  const int last = end - PAD_R + R - 1;
  const X *line = x + (row - 1) * a.x_row;
#pragma unroll
  for (int i = 0; i < AHEAD; i++, row++) {
    line = next_line(a, x, line, row);
    if (row < last) stage(ring[i], a, me, line);
    end_batch();
  }
  int used = AHEAD, now = 0;
#pragma unroll 1
  for (int i = begin - R + 1; i < end; i++, row++) {
    await_batches<AHEAD - 1>();
    __syncwarp();  // the line has arrived, and all have read the previous one, whose slot is reused
    line = next_line(a, x, line, row);
    if (row < last) stage(ring[used], a, me, line);
    end_batch();
    add_line(sum, taps, ring[now] + me.lane * (OWN | 1));
    if (i >= begin) {
      store_row(a, y, sum[0], count);
      y += a.y_row;
    }
    advance(sum);
    used = now;
    now = now + 1 < LINES ? now + 1 : 0;
  }
}

extern "C" __global__ void __launch_bounds__(WARP *WARPS, BLOCKS)
    falt_separable_25d(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  __shared__ uint4 rings[WARPS][LINES][SLOTS];
  __shared__ int places[WARPS][ROUNDS * WARP];
  const int warp = threadIdx.x / WARP;
  unsigned item = blockIdx.x * WARPS + warp;
  const int column = item % a.blocks[COLUMN] * (WARP * V);
  item /= a.blocks[COLUMN];
  const int begin = item % a.blocks[ROW] * a.planes, end = min(begin + a.planes, a.out[ROW]);
  item /= a.blocks[ROW];
  const int plane = item % a.out[PLANE];
  item /= a.out[PLANE];
  const unsigned inner = item % a.batch, outer = item / a.batch;
  if (item >= a.lines) return;
  const X *x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1] + plane * a.x_plane);
  Y *y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1] + plane * a.y_plane + begin * a.y_row);

  Lane me;
  me.lane = threadIdx.x % WARP;
  me.place = places[warp] + me.lane;
  me.column = column - PAD_S * PIXEL - SHIFT;
  me.inside = a.aligned && me.column >= 0 && me.column + WORDS * VECTOR <= a.in[COLUMN];
#pragma unroll
  for (int k = 0; k < ROUNDS && !me.inside; k++) me.place[k * WARP] = place(a, me.column + k * WARP + me.lane);
  const int mine = column + me.lane * V;
  blocked(a, taps, rings[warp], x, y + mine, begin, end, me, a.out[COLUMN] - mine);
}
