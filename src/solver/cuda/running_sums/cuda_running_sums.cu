// Box filters by sums that do not depend on the window's size in work. Elements are only added (M. van Herk, 1992; J.
// Gil and M. Werman, 1993), so NaN and infinity stay in their windows and nothing cancels. Boxes may have other weights
// at both ends (P. Gwosdek et al., 2011).

// Along an axis, elements are cut into chunks of B. A window of Q chunks and R more elements is the end of the chunk in
// which it begins, the whole chunks behind it, and the beginning of the chunk in which it ends:
//
//     window(i) = end(i) + whole(i / B) + beginning(i + K - 1)
//
// Down the columns: a thread owns VECTOR neighbouring columns. The ends of a chunk are in registers; the rows that they
// are made of are read a second time, mostly from the cache. The whole chunks are a queue in shared memory: sums from
// each chunk to the queue's end, which are made once for every round of the queue, and a sum of the later ones.
//
// Along the rows: a warp owns a row of columns' sums in shared memory, and a lane a chunk. The sums of whole chunks are
// made by doubling. The chunks' length is odd, so neighbouring lanes read from all banks. Outputs replace the row's
// elements from left to right and are then stored by whole words.

// Compile-time parameters:
//   TAPS_R TAPS_S      taps down, along; of a box with other ends they include these
//   ENDS_R ENDS_S      1: the first and the last tap have a weight of their own
//   STRIDE_R STRIDE_S, PAD_R PAD_S, AXIS_R AXIS_S    the axes' strides, pads before, boundaries before and after
//   FAR                1: pads reach farther than an image is long
//   PIXEL STEP         interleaved channels; elements from a tap to the next along a row
//   ELEMENT_X ELEMENT_Y, TYPE_X TYPE_Y    C types of elements in and out, and their numbers of falt_type
//   SUM REAL           types of sums; of outputs before they are stored
//   WEIGHTED           1: elements are multiplied by the weight before they are added
//   VECTOR             elements of a load
//   CHUNK_R CHUNK_S    B of both axes; if TAPS_R is 1, CHUNK_R is 1
//   COLUMNS PITCH      elements of a row that a block or a warp stages; and their place in shared memory
//   TOTALS             chunks of a row
//   WARPS BLOCKS       of a block; blocks that should fit on a multiprocessor
//   ROWS               1: sums along rows, by way of shared memory; 0: down only

#include "cuda_running_sums_row.cuh"

// ---- down the columns, by a thread

// Sums of whole chunks: of those that the last round has left, from the first one on, and of later ones.
struct Queue {
  Sums front, back;
  int top, pushed;
};

__device__ inline void push(Queue &q, ACC *ring, const Sums &chunk) {
  if (QUEUE > 1) put(ring + q.pushed * COLUMNS, chunk);
  q.pushed++;
  add(q.back, chunk);
}

// Drops the first chunk. The queue then holds QUEUE - 1.
__device__ inline void drop(Queue &q, ACC *ring) {
  if (q.top == QUEUE) {
    Sums end = {};
    for (int k = QUEUE - 1; k > 0; k--) {
      add(end, sums_of(ring + k * COLUMNS));
      put(ring + k * COLUMNS, end);
    }
    q.back = {};
    q.top = q.pushed = 0;
  }
  q.top++;
  q.front = {};
  if (QUEUE > 1 && q.top < QUEUE) q.front = sums_of(ring + q.top * COLUMNS);
}

// The rows that a band reads: row v of the inner boxes, counted from that of its first output.
struct Band {
  const X *x;
  bool exists;      // the plane; if not, all is the constant
  int first, last;  // positions of row 0, and of the last that is needed
  Columns columns;
};

// Whether rows v to v + count - 1, and the columns, are in the image.
__device__ inline bool is_inside(const Args &a, const Band &b, int v, int count) {
  return b.exists && b.columns.inside && b.first + v >= 0 && b.first + v + count <= a.in[ROW];
}

// Keeps loads of further rows behind this place, where their addresses take many registers.
template <bool INSIDE>
__device__ inline void bound_loads(int row) {
  if (!INSIDE && row % 4 == 3) asm volatile("" ::: "memory");
}

// Row v; INSIDE: as is_inside says.
template <bool INSIDE>
__device__ inline Sums load_row(const Args &a, const Band &b, int v) {
  if (INSIDE) return load_word(a, b.x + (b.first + v) * a.x_row + b.columns.place[0]);
  return load_each(a, b.x, b.exists ? row_place(a, min(b.first + v, b.last)) : -1, b.columns);
}

// Adds `COUNT` rows from row v on.
template <int COUNT, bool INSIDE>
__device__ inline void add_rows(Sums &to, const Args &a, const Band &b, int v) {
#pragma unroll
  for (int j = 0; j < COUNT; j++) {
    add(to, load_row<INSIDE>(a, b, v + j));
    bound_loads<INSIDE>(j);
  }
}

template <int COUNT>
__device__ inline Sums sum_rows(const Args &a, const Band &b, int v) {
  Sums sums = {};
  if (is_inside(a, b, v, COUNT))
    add_rows<COUNT, true>(sums, a, b, v);
  else
    add_rows<COUNT, false>(sums, a, b, v);
  return sums;
}

// The chunks behind the first one that are whole before the first window, and the beginning of the next.
__device__ inline void fill_queue(const Args &a, const Band &b, Queue &q, ACC *ring, Sums &ahead) {
  q = {};
  q.top = QUEUE;
  ahead = {};
#pragma unroll 1
  for (int chunk = 1; chunk < QUEUE; chunk++) push(q, ring, sum_rows<B>(a, b, chunk * B));
  if (QUEUE > 0) ahead = sum_rows<(REST + B - 1) % B>(a, b, (REST ? Q : Q - 1) * B);
}

// The ends of the chunk at row v, from each of its rows on; with ENDS_R also the first taps of the windows.
template <bool INSIDE>
__device__ inline void load_ends(Sums ends[B], const Args &a, const Band &b, int v) {
  Sums before = {}, end = {};
  if (ENDS_R) before = load_row<INSIDE>(a, b, v - 1);
#pragma unroll
  for (int j = 0; j < B; j++) {
    ends[j] = load_row<INSIDE>(a, b, v + j);
    bound_loads<INSIDE>(j);
  }
#pragma unroll
  for (int j = B - 1; j >= 0; j--) {
    add(end, ends[j]);
    const Sums first = j > 0 ? ends[j > 0 ? j - 1 : 0] : before;
    ends[j] = end;
    if (ENDS_R) add_end(ends[j], first, a.end[0]);
  }
}

// The windows of a chunk of rows, one after the other, to `take(j, sums)`.
template <bool INSIDE, typename TAKE>
__device__ inline void sum_chunk(const Args &a, const Band &b, int v, Queue &q, ACC *ring, Sums &ahead, TAKE take) {
  Sums ends[B], enter = {};
  load_ends<INSIDE>(ends, a, b, v);
  if (ENDS_R || QUEUE > 0 || REST > 0) enter = load_row<INSIDE>(a, b, v + K - 1);
#pragma unroll
  for (int j = 0; j < B; j++) {
    const int t = j + REST - 1;  // enters chunk Q; -1: the last of the chunk before
    Sums next = {};
    if (ENDS_R || j + 1 < B) next = load_row<INSIDE>(a, b, v + K + j);
    if (t >= 0 || QUEUE > 0) add(ahead, enter);
    if (QUEUE > 0 && (t == -1 || t == B - 1)) push(q, ring, ahead);
    if (t == -1 || t == B - 1) ahead = {};
    Sums sums = ends[j];
    add(sums, q.front);
    add(sums, q.back);
    add(sums, ahead);
    if (ENDS_R) add_end(sums, next, a.end[0]);
    take(j, sums);
    enter = next;
    bound_loads<INSIDE>(j);
  }
}

template <typename TAKE>
__device__ inline void sum_windows(const Args &a, const Band &b, int v, Queue &q, ACC *ring, Sums &ahead, TAKE take) {
  if (is_inside(a, b, v - ENDS_R, K + B + 2 * ENDS_R - 1))
    sum_chunk<true>(a, b, v, q, ring, ahead, take);
  else
    sum_chunk<false>(a, b, v, q, ring, ahead, take);
  if (QUEUE > 0) drop(q, ring);
}

// ---- blocks

// The outputs of a block or a warp.
struct Task {
  const X *x;   // the plane
  bool exists;  // if not, all of it is the constant
  Y *y;         // the first row
  int column, row, rows, count;
};

__device__ inline Task task_of(const Args &a, unsigned item) {
  Task t;
  t.column = item % a.strips * a.strip;
  t.count = min(a.strip, a.out[COLUMN] - t.column);
  item /= a.strips;
  t.row = item % a.bands * a.band;
  t.rows = min(a.band, a.out[ROW] - t.row);
  item /= a.bands;
  const int plane = item % a.out[PLANE];
  item /= a.out[PLANE];
  const long long inner = item % a.batch, outer = item / a.batch;
  const int from =
      fold<int>(a.plane_boundary[0], a.plane_boundary[1], a.in[PLANE], plane * a.plane_stride - a.plane_pad);
  t.exists = from >= 0;
  t.x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1] + max(from, 0) * a.x_plane);
  t.y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1] + plane * a.y_plane + t.row * a.y_row + t.column);
  return t;
}

// The input's column under the first that a strip stages.
__device__ inline int first_column(const Task &t) {
  return t.column / PIXEL * (STRIDE_S * PIXEL) - PAD_S * PIXEL - SHIFT;
}

extern "C" __global__ void __launch_bounds__(WARP *WARPS, BLOCKS) falt_running_sums(const __grid_constant__ Args a) {
  extern __shared__ uint4 shared[];
  ACC *memory = (ACC *)shared;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

  if constexpr (TAPS_R == 1) {  // a warp a row
    ACC *row = memory + warp * (PITCH + TOTALS), *totals = row + PITCH;
    const unsigned item = blockIdx.x * WARPS + warp;
    if (item >= a.tasks) return;
    const Task t = task_of(a, item);
    const int from = t.exists ? row_place(a, t.row * STRIDE_R - PAD_R) : -1, first = first_column(t);
    if (from >= 0 && a.x_aligned && first >= 0 && first + COLUMNS <= a.in[COLUMN]) {
      const X *x = t.x + (from * a.x_row + first);
#pragma unroll 8
      for (int i = lane * V; i < COLUMNS; i += WARP * V) put(row + i, load_word(a, x + i));
    } else {
      for (int i = lane * V; i < COLUMNS; i += WARP * V)
        put(row + i, load_each(a, t.x, from, columns_at(a, first + i)));
    }
    __syncwarp();
    finish_row(a, t.y, row, totals, t.count, lane);
  } else {
    ACC *rows = memory, *totals = rows + (ROWS ? B * PITCH : 0), *ring = totals + (ROWS ? WARPS * TOTALS : 0);
    const Task t = task_of(a, blockIdx.x);
    const int column = threadIdx.x * V;
    const int windows = (t.rows - 1) * STRIDE_R + 1, first = t.row * STRIDE_R - PAD_R;
    const Band b = {t.x, t.exists, first + ENDS_R, first + windows + TAPS_R - 2,
                    columns_at(a, first_column(t) + column)};
    Queue q;
    Sums ahead;
    ring += column;
    fill_queue(a, b, q, ring, ahead);
#pragma unroll 1
    for (int v = 0; v < windows; v += B) {
      sum_windows(a, b, v, q, ring, ahead, [&](int j, const Sums &sums) {
        if (ROWS)
          put(rows + j * PITCH + column, sums);
        else if (v + j < windows && (v + j) % STRIDE_R == 0 && column < t.count)
          store_columns(a, t.y + (v + j) / STRIDE_R * a.y_row + column, sums, t.count - column);
      });
      if (!ROWS) continue;
      __syncthreads();
      for (int j = warp; j < B && v + j < windows; j += WARPS)
        if ((v + j) % STRIDE_R == 0)
          finish_row(a, t.y + (v + j) / STRIDE_R * a.y_row, rows + j * PITCH, totals + warp * TOTALS, t.count, lane);
      __syncthreads();
    }
  }
}
