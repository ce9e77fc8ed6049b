// Filters along rows with many taps: a warp computes a part of one row, THREAD neighbouring outputs a lane. It copies
// the input of this part to shared memory in coalesced words. Each lane reads its window from there, word by word, and
// adds each element to all accumulators that it belongs to. Taps are read from the constant bank.

// Outputs are transposed in the same shared memory, so the warp stores coalesced words.
//
// The words of neighbouring lanes start an odd number of words apart in shared memory, so eight lanes read from all
// banks.

// Compile-time parameters, in addition to those of cuda_direct.cu (TAPS_T, TAPS_R, PIXEL, strides and
// dilations are 1):
//   THREAD                    outputs of a lane
//   WARPS                     of a block

#include "async.cuh"
#include "partial.cuh"
#include "places.cuh"

typedef long long i64;
typedef falt_cuda_tile_args Args;

constexpr int S = TAPS_S, V = THREAD, WARP = 32;
constexpr int VECTOR = 16 / sizeof(X), VECTOR_OUT = 16 / sizeof(Y);  // elements of a word
constexpr int OWN = V / VECTOR, OWN_OUT = V / VECTOR_OUT;            // words of a lane
constexpr int SHIFT = (-PAD_S % VECTOR + VECTOR) % VECTOR;           // loaded before a window to be aligned
constexpr int LOADS = (SHIFT + V + S - 1 + VECTOR - 1) / VECTOR;     // words of a window
constexpr int WORDS = (WARP - 1) * OWN + LOADS;
constexpr bool APART = in_blocks<ACC>(S, 128);  // costs next to nothing here

enum { PLANE, ROW, COLUMN };

struct Taps {
  ACC value[S];
};

// The slot of word w of the warp if each lane has `own` words; `own` divides 32, so slot(w + 32) is slot(w) + slot(32).
__device__ constexpr int slot(int w, int own) {
  return w / own * (own | 1) + w % own;
}

constexpr int SLOTS_IN = slot(WORDS - 1, OWN) + 1, SLOTS_OUT = slot(WARP * OWN_OUT - 1, OWN_OUT) + 1;
constexpr int SLOTS = SLOTS_IN > SLOTS_OUT ? SLOTS_IN : SLOTS_OUT;

// ---- into shared memory

// A word of the row from `at` on that is not wholly inside.
__device__ inline uint4 word_at(const Args &a, const X *row, int at) {
  union {
    uint4 word;
    X x[VECTOR];
  } raw;
  X fill;
  store<double>(&fill, TYPE_X, 0, a.fill);
#pragma unroll
  for (int i = 0; i < VECTOR; i++) {
    const int from = row ? place(a, at + i) : -1;
    raw.x[i] = from < 0 ? fill : row[from];
  }
  return raw.word;
}

// The words of the row from `column` on.
__device__ inline void stage(const Args &a, uint4 *words, const X *row, int column, int lane) {
  const bool inside = row && a.aligned && column >= 0 && column + WORDS * VECTOR <= a.in[COLUMN];
  words += slot(lane, OWN);
  column += lane * VECTOR;
  if (inside) {
    row += column;
#pragma unroll
    for (int w = 0; w < WORDS; w += WARP)
      if (lane + w < WORDS) copy_async<16>(shared_address(words + slot(w, OWN)), row + w * VECTOR, 16);
  } else {
#pragma unroll 1
    for (int w = lane; w < WORDS; w += WARP, words += slot(WARP, OWN), column += WARP * VECTOR) {
      if (row && a.aligned && column >= 0 && column + VECTOR <= a.in[COLUMN])
        copy_async<16>(shared_address(words), row + column, 16);
      else
        *words = word_at(a, row, column);
    }
  }
  end_batch();
  await_batches<0>();
}

// ---- sums

// Adds element i of a window to the outputs that it belongs to. With many taps each block starts a partial sum.
__device__ inline void add_element(ACC sum[V], ACC part[V], const Taps &taps, ACC x, int i) {
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int s = i - v;
    if (s < 0 || s >= S) continue;
    if (APART && s % BLOCK_TERMS == 0) sum[v] += part[v], part[v] = 0;
    part[v] += taps.value[s] * x;
  }
}

__device__ inline void add_window(ACC sum[V], const Taps &taps, const uint4 *words) {
  ACC part[V] = {};
#pragma unroll
  for (int w = 0; w < LOADS; w++) {
    Raw<uint4, VECTOR> raw;
    raw.word[0] = words[slot(w, OWN)];
#pragma unroll
    for (int i = 0; i < VECTOR; i++) add_element(sum, part, taps, element(raw, i), w * VECTOR + i - SHIFT);
  }
#pragma unroll
  for (int v = 0; v < V; v++) sum[v] = APART ? sum[v] + part[v] : part[v];
}

// ---- outputs

__device__ inline void transpose_results(const Args &a, uint4 *words, const ACC sum[V]) {
  union {
    uint4 word[OWN_OUT];
    Y y[V];
  } raw;
#pragma unroll
  for (int v = 0; v < V; v++) raw.y[v] = to_y(SCALED ? (ACC)a.alpha * sum[v] + (ACC)a.beta : sum[v]);
#pragma unroll
  for (int k = 0; k < OWN_OUT; k++) words[k] = raw.word[k];
}

__device__ inline void store_transposed(const Args &a, Y *y, const uint4 *words, int column, int lane) {
  y += column;
  if (a.aligned && column + WARP * V <= a.out[COLUMN]) {
    words += slot(lane, OWN_OUT);
#pragma unroll
    for (int w = 0; w < WARP * OWN_OUT; w += WARP) __stcs((uint4 *)y + lane + w, words[slot(w, OWN_OUT)]);
  } else {
#pragma unroll 4
    for (int i = lane; i < WARP * V; i += WARP)
      if (column + i < a.out[COLUMN]) y[i] = ((const Y *)(words + slot(i / VECTOR_OUT, OWN_OUT)))[i % VECTOR_OUT];
  }
}

extern "C" __global__ void __launch_bounds__(WARP *WARPS, BLOCKS)
    falt_row(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  __shared__ uint4 shared[WARPS][SLOTS];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int column = (blockIdx.x * WARPS + warp) * (WARP * V);
  const unsigned line = blockIdx.z * gridDim.y + blockIdx.y;
  const X *x = (const X *)a.x;
  Y *y = (Y *)a.y;
  int row = line, plane = 0;
  if (column >= a.out[COLUMN] || line >= a.lines) return;
  if (line >= a.out[ROW]) {  // one plane, as most images have, takes no divisions
    const unsigned image = line / a.out[ROW] / a.out[PLANE], inner = image % a.batch, outer = image / a.batch;
    row = line % a.out[ROW];
    plane = line / a.out[ROW] % a.out[PLANE];
    x += outer * a.x_batch[0] + inner * a.x_batch[1];
    y += outer * a.y_batch[0] + inner * a.y_batch[1];
  }
  y += plane * a.y_plane + row * a.y_row;
  uint4 *words = shared[warp];

  ACC sum[V] = {};
  stage(a, words, row_at(a, x, plane - PAD_T, row - PAD_R), column - PAD_S - SHIFT, lane);
  __syncwarp();
  add_window(sum, taps, words + lane * (OWN | 1));
  __syncwarp();
  transpose_results(a, words + lane * (OWN_OUT | 1), sum);
  __syncwarp();
  store_transposed(a, y, words, column, lane);
}
