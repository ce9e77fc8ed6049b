// Parts of cuda_running_sums.cu, which names their compile-time parameters: elements, outputs, and sums along a row.
#pragma once
#include "boundary.cuh"
#include "convert.cuh"
#include "cuda_running_sums_args.h"
#include "words.cuh"

typedef ELEMENT_X X;
typedef ELEMENT_Y Y;
typedef SUM ACC;
typedef falt_cuda_running_args Args;

constexpr int V = VECTOR, WARP = 32, B = CHUNK_R, C = CHUNK_S;
constexpr int K = TAPS_R - 2 * ENDS_R, Q = K / B, REST = K % B;  // down: the inner box
constexpr int QUEUE = REST ? Q : Q - 1;                          // whole chunks
constexpr int KS = TAPS_S - 2 * ENDS_S, QS = KS / C, REST_S = KS % C;
constexpr int SHIFT = ((-PAD_S * PIXEL) % V + V) % V;  // loaded before a strip to be aligned
constexpr bool WHOLE = (REAL)0.5 == 0;                 // sums of integers between passes
constexpr int LEFT = STEP == 1 ? SHIFT : 0;            // outputs are so far before their elements in shared memory

enum { PLANE, ROW, COLUMN };

__device__ constexpr int divided(int a, int b) {
  return (a + b - 1) / b;
}

// ---- elements

// VECTOR columns of the input.
struct Columns {
  bool inside;   // they are neighbours in the input, in a whole word
  int place[V];  // negative: the constant
};

// Their sums: a word of 16 bytes in shared memory.
struct alignas(16) Sums {
  ACC v[V];
};

__device__ inline Sums sums_of(const ACC *from) {
  return *(const Sums *)from;
}

__device__ inline void put(ACC *to, const Sums &sums) {
  *(Sums *)to = sums;
}

__device__ inline ACC weighted(const Args &a, ACC value) {
  return WEIGHTED ? value * (ACC)a.weight : value;
}

__device__ inline int place(const Args &a, int at) {
  const int size = a.in[COLUMN] / PIXEL, pixel = at >= 0 ? at / PIXEL : -((PIXEL - 1 - at) / PIXEL);
  const int folded = fold<int, FAR>(AXIS_S, size, pixel);
  return folded < 0 ? -1 : min(folded, size - 1) * PIXEL + (at - pixel * PIXEL);
}

__device__ inline Columns columns_at(const Args &a, int at) {
  Columns c;
  c.inside = a.x_aligned && at >= 0 && at + V <= a.in[COLUMN];
#pragma unroll
  for (int v = 0; v < V; v++) c.place[v] = c.inside ? at + v : place(a, at + v);
  return c;
}

// The place of a row, which may be beyond the ends; negative: the constant.
__device__ inline int row_place(const Args &a, int row) {
  const int folded = fold<int, FAR>(AXIS_R, a.in[ROW], row);
  return folded < 0 ? -1 : min(folded, a.in[ROW] - 1);
}

__device__ inline Sums load_word(const Args &a, const X *from) {
  union {
    typename Word<V * sizeof(X)>::type word;
    X x[V];
  } raw;
  Sums sums;
  raw.word = __ldg((const typename Word<V * sizeof(X)>::type *)from);
#pragma unroll
  for (int v = 0; v < V; v++) sums.v[v] = weighted(a, load<ACC>(&raw.x[v], TYPE_X, 0));
  return sums;
}

// Element by element; `row` negative: the constant. Without branches, so that loads need not wait for each other.
__device__ inline Sums load_each(const Args &a, const X *plane, int row, const Columns &c) {
  const X *from = plane + max(row, 0) * a.x_row;
  Sums sums;
#pragma unroll
  for (int v = 0; v < V; v++) {
    const ACC x = load<ACC>(from, TYPE_X, max(c.place[v], 0));
    sums.v[v] = weighted(a, row >= 0 && c.place[v] >= 0 ? x : (ACC)a.fill);
  }
  return sums;
}

__device__ inline void add(Sums &to, const Sums &from) {
#pragma unroll
  for (int v = 0; v < V; v++) to.v[v] += from.v[v];
}

__device__ inline void add_end(Sums &to, const Sums &from, double end) {
#pragma unroll
  for (int v = 0; v < V; v++) to.v[v] += (ACC)end * from.v[v];
}

// ---- outputs

__device__ inline Y finished(const Args &a, ACC sum) {
  if constexpr (WHOLE) {
    return (Y)sum;
  } else {
    Y y;
    store<REAL>(&y, TYPE_Y, 0, (REAL)sum * (REAL)a.scale + (REAL)a.offset);
    return y;
  }
}

// The first `count` of VECTOR outputs.
__device__ inline void store_columns(const Args &a, Y *to, const Sums &sums, int count) {
  union {
    typename Word<V * sizeof(Y)>::type word;
    Y y[V];
  } raw;
#pragma unroll
  for (int v = 0; v < V; v++) raw.y[v] = finished(a, sums.v[v]);
  if (a.y_aligned && count >= V) {
    *(typename Word<V * sizeof(Y)>::type *)to = raw.word;
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) to[v] = raw.y[v];
  }
}

// ---- along a row, by a warp

// Chunks of a row of `outputs` elements, STEP interleaved chains of them; item i is chunk i / STEP of chain i % STEP.
__device__ inline int items_of(int outputs) {
  return divided(divided(outputs, STEP), C) * STEP;
}

// The first element of an item's chunk.
__device__ inline int begin_of(int item) {
  return item / STEP * (C * STEP) + item % STEP;
}

// Sums of the QS - 1 chunks behind items lane, lane + 32, ... below `items`, from the totals of `all` items, which are
// lost.
template <int ROUNDS>
__device__ inline void add_whole(ACC whole[ROUNDS], ACC *totals, int items, int all, int lane) {
  constexpr int MANY = QS > 1 ? QS - 1 : 0;
  int behind = STEP;  // from an item to the first that it has not added
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) whole[k] = 0;
#pragma unroll
  for (int bit = 1; bit <= MANY; bit *= 2) {
    if (MANY & bit) {
#pragma unroll
      for (int k = 0; k < ROUNDS; k++)
        if (lane + k * WARP < items) whole[k] += totals[lane + k * WARP + behind];
      behind += bit * STEP;
    }
    if (2 * bit > MANY) break;
    for (int i = lane; i - lane < all; i += WARP) {
      const bool adds = i + bit * STEP < all;
      const ACC next = adds ? totals[i + bit * STEP] : 0;
      __syncwarp();
      if (adds) totals[i] += next;
      __syncwarp();
    }
  }
}

// Sums of the windows of one item, from the elements of the row.
__device__ inline void sum_item(ACC sums[C], const Args &a, const ACC *from, ACC whole) {
  const ACC *box = from + ENDS_S * STEP;
  ACC end = 0, ahead = 0;
#pragma unroll
  for (int j = C - 1; j >= 0; j--) {
    end += box[j * STEP];
    sums[j] = ENDS_S ? end + (ACC)a.end[1] * from[j * STEP] : end;
  }
#pragma unroll
  for (int t = 0; t + 1 < REST_S; t++) ahead += box[(QS * C + t) * STEP];
#pragma unroll
  for (int j = 0; j < C; j++) {
    const int t = j + REST_S - 1;  // the element that enters, of chunk QS on
    if (t == C) whole += ahead, ahead = 0;
    if (t >= 0) ahead += box[(QS * C + t) * STEP];
    sums[j] += whole + ahead;
    if (ENDS_S) sums[j] += (ACC)a.end[1] * box[(j + KS) * STEP];
  }
}

// The windows' sums replace the elements that begin them, LEFT before; totals is scratch. A window begins where no
// later round reads: chains keep to their own elements, and with LEFT there is one.
__device__ inline void sum_row(const Args &a, ACC *row, ACC *totals, int outputs, int lane) {
  constexpr int ROUNDS = divided(TOTALS + 1, WARP);
  const int items = items_of(outputs), all = items + QS * STEP;
  ACC whole[ROUNDS];
  for (int i = lane; i < all; i += WARP) {
    const ACC *from = row + ENDS_S * STEP + begin_of(i);
    ACC total = 0;
#pragma unroll
    for (int j = 0; j < C; j++) total += from[j * STEP];
    totals[i] = total;
  }
  __syncwarp();
  add_whole<ROUNDS>(whole, totals, items, all, lane);
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) {
    const int item = lane + k * WARP, begin = begin_of(item);
    ACC sums[C];
    if (item < items) sum_item(sums, a, row + begin, whole[k]);
    __syncwarp();
    if (item < items) {
#pragma unroll
      for (int j = 0; j < C; j++) (row - LEFT)[begin + j * STEP] = sums[j];
    }
    __syncwarp();
  }
}

// Stores `count` elements of an output's row from a row of sums.
__device__ inline void store_row(const Args &a, Y *y, const ACC *sums, int count, int lane) {
  for (int i = lane * V; i < count; i += WARP * V) {
    Sums s;
    if (STRIDE_S == 1 && (TAPS_S > 1 ? LEFT == SHIFT : SHIFT == 0)) {  // whole words
      s = sums_of(sums + i);
    } else {
#pragma unroll
      for (int k = 0; k < V; k++) {
        const int at = min(i + k, count - 1);
        s.v[k] = sums[at / PIXEL * (STRIDE_S * PIXEL) + at % PIXEL];
      }
    }
    store_columns(a, y + i, s, count - i);
  }
}

// One row, staged in shared memory, to the output. TAPS_S may be 1.
__device__ inline void finish_row(const Args &a, Y *y, ACC *row, ACC *totals, int count, int lane) {
  const int outputs = ((count / PIXEL - 1) * STRIDE_S + 1) * PIXEL;
  if (TAPS_S > 1) sum_row(a, row + SHIFT, totals, outputs, lane);
  store_row(a, y, row + SHIFT - (TAPS_S > 1 ? LEFT : 0), count, lane);
}
