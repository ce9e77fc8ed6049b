// Separable filters of images, and sums of them, by 2.5D blocking: a warp owns a strip of columns, V neighbouring
// columns a lane, and loops over the rows. It prefetches lines to shared memory. Each lane filters its window along the
// line, adds the output to the accumulators of all R output rows that the line belongs to, and stores the complete one.

// A warp reads each line once; register tiles read it several times. The output of the row pass never leaves the
// registers. The accumulators move to the next row by the destination registers of the multiply-adds.

// Elements beyond the ends of a row are loaded into registers a line ahead of their use, and put into shared memory
// when the rest of their line has arrived: a warp at the end of a row never waits for a load of its own.

// Compile-time parameters, in addition to those of cuda_direct.cu (TAPS_T, strides and dilations are 1):
//   THREAD                    columns of a lane: one word of 4, 8 or 16 bytes, or several of 16
//   COPY_X                    bytes of an asynchronous copy
//   WARPS                     of a block
//   AHEAD                     lines in flight

#include "async.cuh"
#include "places.cuh"

typedef long long i64;
typedef falt_cuda_tile_args Args;

constexpr int R = TAPS_R, S = TAPS_S, V = THREAD, WARP = 32;
constexpr int TERM = 1 + R + S;  // taps of a separable term
constexpr int WORD = V * sizeof(X) < 16 ? V * sizeof(X) : 16;
constexpr int VECTOR = WORD / sizeof(X), OWN = V / VECTOR;                  // elements of a word; a lane's words
constexpr int COPY = COPY_X / sizeof(X);                                    // elements of an asynchronous copy
constexpr int BEFORE = ((-PAD_S * PIXEL) % COPY + COPY) % COPY;             // staged before the warp's first window
constexpr int FIRST = BEFORE / VECTOR, SHIFT = BEFORE % VECTOR;             // word, and element in it, of that window
constexpr int LOADS = (SHIFT + V + (S - 1) * PIXEL + VECTOR - 1) / VECTOR;  // words of a window
constexpr int STAGED = (FIRST + (WARP - 1) * OWN + LOADS) * VECTOR;         // elements of a line
constexpr int COPIES = (STAGED + COPY - 1) / COPY;
constexpr int LINES = AHEAD + 1;  // in shared memory
constexpr int MOST_ROUNDS = 3;    // of a warp's copies of a line that are unrolled
constexpr int GHOSTS = 2;         // ghost elements of a lane in registers
constexpr int BATCH = 4;          // loads in flight of the others

typedef Word<WORD>::type Unit;

enum { PLANE, ROW, COLUMN };

__device__ constexpr bool constants(int before, int after) {
  return before == CONSTANT || after == CONSTANT;
}

constexpr bool FILLS = constants(AXIS_R);  // whole lines

struct Taps {
  ACC value[TERMS * TERM];
};

// The slot of word w of the warp: the words of neighbouring lanes start an odd number of words apart. One word a lane
// has its place in order, so a copy may fill several.
__device__ constexpr int slot(int w) {
  return w / OWN * (OWN | 1) + w % OWN;
}

constexpr int SLOTS = ((slot((COPIES * COPY - 1) / VECTOR) + 1) * WORD + 15) / 16;  // 16 bytes each

// ---- lines

// Shared memory of a warp. Staged elements are numbered from Lane::column on.
struct Ring {
  uint4 line[LINES][SLOTS];
  int low, high;          // elements [low, high) arrive by copies, the others before `end` are ghosts
  int end;                // elements from here on belong to no output
  int at[GHOSTS * WARP];  // positions of the first ghosts in the row; negative: the constant
};

// Loop invariants of the lines.
struct Lane {
  int lane, column;
};

// The line that continues a plane at `row`; null: the constant.
__device__ inline const X *line_at(const Args &a, const X *plane, int row) {
  const int folded = fold<int, FAR>(AXIS_R, a.in[ROW], row);
  if (FILLS && folded < 0) return nullptr;
  return plane + max(0, min(folded, a.in[ROW] - 1)) * a.x_row;
}

// The same; inside the image it follows the line `before`.
__device__ inline const X *next_line(const Args &a, const X *plane, const X *before, int row) {
  return row > 0 && row < a.in[ROW] ? before + a.x_row : line_at(a, plane, row);
}

__device__ inline X *staged(uint4 *line, int element) {
  return (X *)((Unit *)line + slot(element / VECTOR)) + element % VECTOR;
}

__device__ inline X filling(const Args &a) {
  X fill;
  store<double>(&fill, TYPE_X, 0, a.fill);
  return fill;
}

// Copies what the row has of elements [low, high), BYTES at a time.
template <int BYTES>
__device__ inline void copy_part(uint4 *line, const Ring &ring, const Lane &me, const X *row) {
  constexpr int each = BYTES / sizeof(X), unrolled = COPIES * COPY <= MOST_ROUNDS * WARP * each ? MOST_ROUNDS : 1;
#pragma unroll unrolled
  for (int c = 0; c < COPIES * COPY; c += WARP * each) {
    const int i = c + me.lane * each;
    if (i >= ring.low && i < ring.high)
      copy_async<BYTES>(shared_address(staged(line, i)), row + me.column + i,
                        min(each, ring.high - i) * (int)sizeof(X));
  }
}

// INSIDE, here and below: all staged elements are inside the row, in whole copies. The votes tell the compiler that the
// lanes of a warp stay together: only then it keeps the taps in uniform registers over the loop.
template <bool INSIDE>
__device__ inline void stage(uint4 *line, const Ring &ring, const Args &a, const Lane &me, const X *row) {
  if (FILLS && !row) {
    for (int i = me.lane; i < STAGED; i += WARP) *staged(line, i) = filling(a);
  } else if (INSIDE) {
    constexpr int unrolled = COPIES <= MOST_ROUNDS * WARP ? MOST_ROUNDS : 1;
    row += me.column + me.lane * COPY;
#pragma unroll unrolled
    for (int c = 0; c < COPIES; c += WARP)
      if (me.lane + c < COPIES)
        copy_async<COPY_X>(shared_address(staged(line, (me.lane + c) * COPY)), row + c * COPY, COPY_X);
  } else if (a.aligned) {
    copy_part<COPY_X>(line, ring, me, row);
  } else if constexpr (sizeof(X) >= 4) {
    copy_part<sizeof(X)>(line, ring, me, row);
  }
}

// ---- ghost elements: those that no copy brings, of which there are two runs

__device__ inline int ghost_count(const Ring &ring) {
  return ring.low + max(0, ring.end - ring.high);
}

__device__ inline int ghost(const Ring &ring, int g) {
  return g < ring.low ? g : g - ring.low + ring.high;
}

// Elements before the first window may have no position: any one will do.
__device__ inline int ghost_place(const Args &a, const Ring &ring, const Lane &me, int g) {
  const int at = place(a, me.column + ghost(ring, g));
  return constants(AXIS_S) ? at : max(at, 0);
}

__device__ inline X ghost_value(const Args &a, const X *row, int at) {
  return (constants(AXIS_S) && at < 0) || (FILLS && !row) ? filling(a) : row[at];
}

__device__ inline void load_ghosts(X values[GHOSTS], const Args &a, const Ring &ring, const Lane &me, const X *row) {
#pragma unroll
  for (int k = 0; k < GHOSTS; k++)
    if (k * WARP + me.lane < ghost_count(ring)) values[k] = ghost_value(a, row, ring.at[k * WARP + me.lane]);
}

// The first ghosts are in registers; the rest, of lines with far ends or of unaligned rows, are loaded now.
__device__ inline void put_ghosts(uint4 *line, const Args &a, const Ring &ring, const Lane &me, const X values[GHOSTS],
                                  const X *x, int row) {
  const int count = ghost_count(ring);
#pragma unroll
  for (int k = 0; k < GHOSTS; k++)
    if (k * WARP + me.lane < count) *staged(line, ghost(ring, k * WARP + me.lane)) = values[k];
  if (__all_sync(~0u, count <= GHOSTS * WARP)) return;
  const X *from = line_at(a, x, row);
#pragma unroll 1
  for (int g = GHOSTS * WARP + me.lane; g < count; g += BATCH * WARP) {
    X more[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; k++)
      more[k] = ghost_value(a, from, ghost_place(a, ring, me, min(g + k * WARP, count - 1)));
#pragma unroll
    for (int k = 0; k < BATCH; k++)
      if (g + k * WARP < count) *staged(line, ghost(ring, g + k * WARP)) = more[k];
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
__device__ inline void add_line(ACC sum[R][V], const Taps &taps, const Unit *words) {
  ACC along[TERMS][V] = {};
#pragma unroll
  for (int w = 0; w < LOADS; w++) {
    Raw<Unit, VECTOR> raw;
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
    store_results<VECTOR_Y, V>(y, result);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) y[v] = to_y(result[v]);
  }
}

// ---- the loop over rows

template <bool INSIDE>
__device__ inline void blocked(const Args &a, const Taps &taps, Ring &ring, const X *x, Y *y, int begin, int end,
                               const Lane &me, int count) {
  ACC sum[R][V] = {};
  X ghosts[GHOSTS];
  int row = begin - PAD_R;
  const int last = end - PAD_R + R - 1;
  if (!INSIDE) load_ghosts(ghosts, a, ring, me, line_at(a, x, row));
  const X *line = x + (row - 1) * a.x_row;
#pragma unroll
  for (int i = 0; i < AHEAD; i++, row++) {
    line = next_line(a, x, line, row);
    if (row < last) stage<INSIDE>(ring.line[i], ring, a, me, line);
    end_batch();
  }
  int used = AHEAD, now = 0;
#pragma unroll 1
  for (int i = begin - R + 1; i < end; i++, row++) {
    await_batches<AHEAD - 1>();
    __syncwarp();  // the line has arrived, and all have read the previous one, whose slot is reused
    line = next_line(a, x, line, row);
    if (row < last) stage<INSIDE>(ring.line[used], ring, a, me, line);
    end_batch();
    if (!INSIDE) {
      put_ghosts(ring.line[now], a, ring, me, ghosts, x, row - AHEAD);
      load_ghosts(ghosts, a, ring, me, line_at(a, x, row - AHEAD + 1));
      __syncwarp();
    }
    add_line(sum, taps, (const Unit *)ring.line[now] + slot(FIRST + me.lane * OWN));
    if (i >= begin) {
      store_row(a, y, sum[0], count);
      y += a.y_row;
    }
    advance(sum);
    used = now;
    now = now + 1 < LINES ? now + 1 : 0;
  }
}

// Unaligned rows of narrow elements are ghosts.
__device__ inline void set_ghosts(Ring &ring, const Args &a, const Lane &me, int column) {
  const bool copies = a.aligned || sizeof(X) >= 4;
  if (me.lane == 0) {
    ring.end = BEFORE + min(WARP * V, a.out[COLUMN] - column) + (S - 1) * PIXEL;
    ring.low = copies ? max(0, min(-me.column, ring.end)) : 0;
    ring.high = copies ? max(ring.low, min(a.in[COLUMN] - me.column, ring.end)) : 0;
  }
  __syncwarp();
#pragma unroll
  for (int g = me.lane; g < GHOSTS * WARP; g += WARP)
    if (g < ghost_count(ring)) ring.at[g] = ghost_place(a, ring, me, g);
}

extern "C" __global__ void __launch_bounds__(WARP *WARPS, BLOCKS)
    falt_separable_25d(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  __shared__ Ring rings[WARPS];
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
  me.column = column - PAD_S * PIXEL - BEFORE;
  const int mine = column + me.lane * V;
  if (__all_sync(~0u, a.aligned && me.column >= 0 && me.column + COPIES * COPY <= a.in[COLUMN])) {
    blocked<true>(a, taps, rings[warp], x, y + mine, begin, end, me, a.out[COLUMN] - mine);
  } else {
    set_ghosts(rings[warp], a, me, column);
    blocked<false>(a, taps, rings[warp], x, y + mine, begin, end, me, a.out[COLUMN] - mine);
  }
}
