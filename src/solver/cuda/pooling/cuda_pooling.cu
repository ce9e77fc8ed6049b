// Maximum and average pooling and their gradients, 1D and 2D, bound by memory. A thread computes WIDTH contiguous
// channels (NHWC), or COLUMNS neighbouring outputs of one channel, whose windows start at the elements of one vector
// (NCHW).

// Forward, a thread computes ROWS outputs along a column. It reduces each input line along its taps once and combines
// the output with every output whose window contains the line.
//
// Backward, a thread computes a cell of STRIDE_H x COLUMNS*STRIDE_W elements of the input, a vector of each row.
// Element a of cell i and tap r belong to
//
//     output o = i + pad/STRIDE_H - d   where   r*DILATE_R = d*STRIDE_H + a + pad%STRIDE_H
//
// and likewise along columns. For max pooling the thread searches the first maximum of the cell's windows again. Their
// elements are close together and are loaded once.

// Compile-time parameters:
//   OPERATION                     number of falt_operation
//   ELEMENT_X ELEMENT_Y TYPE_X TYPE_Y   C types and numbers of falt_type: of the input, of the output
//   TAPS_R TAPS_S STRIDE_H STRIDE_W DILATE_R DILATE_S
//   PAD_R PAD_S                   rows and columns before the first
//   ROWS COLUMNS WIDTH
//   LAST                          1: channels are the innermost dimension
// and the parameters of elements.cuh.

#include "args.h"
#include "elements.cuh"

typedef long long i64;
typedef falt_cuda_pooling_args Args;
enum { N, G, C, D, H, W };
enum { MAXPOOL = 3, AVGPOOL, BACKWARD_MAXPOOL, BACKWARD_AVGPOOL };

constexpr bool MAXIMA = OPERATION == MAXPOOL || OPERATION == BACKWARD_MAXPOOL;

// Aligned to the largest power of two that divides its size.
template <typename T, int COUNT = WIDTH>
struct alignas(COUNT * sizeof(T) & -(COUNT * sizeof(T))) Pack {
  T of[COUNT];
};

struct Values {
  float of[WIDTH];
};

__device__ inline float from_y(Y value) {
  if (TYPE_Y == F16) return from_f16((unsigned short)value);
  if (TYPE_Y == BF16) return from_bf16((unsigned short)value);
  return (float)value;
}

// Missing elements are neutral: the smallest number, or zero. All loads of a line start before the first wait, so none
// may be in a branch.
__device__ constexpr X filler() {
  return !MAXIMA          ? 0
         : TYPE_X == F32  ? (X)(-3.40282347e38f * 2)
         : TYPE_X == F16  ? (X)0xfc00
         : TYPE_X == BF16 ? (X)0xff80
         : TYPE_X == S8   ? (X)-128
         : TYPE_X == S16  ? (X)-32768
                          : 0;
}

template <bool ALIGNED, typename T>
__device__ inline void load_pack(Pack<T> &pack, const T *from, i64 channel) {
  if constexpr (ALIGNED) {
    pack = *(const Pack<T> *)from;
  } else {
#pragma unroll
    for (int c = 0; c < WIDTH; c++) pack.of[c] = from[c * channel];
  }
}

template <bool ALIGNED, typename T>
__device__ inline void store_pack(T *to, i64 channel, const Pack<T> &pack) {
  if constexpr (ALIGNED) {
    *(Pack<T> *)to = pack;
  } else {
#pragma unroll
    for (int c = 0; c < WIDTH; c++) to[c * channel] = pack.of[c];
  }
}

template <bool ALIGNED>
__device__ inline Pack<X> load_x(const Args &a, const X *from, bool exists) {
  Pack<X> pack;
#pragma unroll
  for (int c = 0; c < WIDTH; c++) pack.of[c] = filler();
  if (exists) load_pack<ALIGNED>(pack, from, a.x.stride[G]);
  return pack;
}

// A thread's place: its first channel, and the row and column of its first output or of its cell.
struct Place {
  i64 n;
  int channel, row, column;
};

__device__ inline Place place_of(const Args &a, unsigned rest) {
  Place p;
  if (LAST) p.channel = rest % a.channels * WIDTH, rest /= a.channels;
  p.column = rest % a.columns, rest /= a.columns;
  p.row = rest % a.rows, rest /= a.rows;
  if (!LAST) p.channel = rest % a.channels * WIDTH, rest /= a.channels;
  p.n = rest;
  return p;
}

// Of an axis's window at output o, the taps that count in an average.
template <int TAPS, int STRIDE, int DILATE>
__device__ inline int counted(const Args &a, int axis, int o, int size) {
  const int low = a.count_pad ? -max(a.pad[axis][0], 0) : 0, high = size + (a.count_pad ? max(a.pad[axis][1], 0) : 0);
  int count = 0;
#pragma unroll
  for (int j = 0; j < TAPS; j++) {
    const int u = o * STRIDE + j * DILATE - a.pad[axis][0];
    count += u >= low && u < high;
  }
  return count;
}

__device__ inline float window_count(const Args &a, int oh, int ow) {
  return (float)(counted<TAPS_R, STRIDE_H, DILATE_R>(a, 0, oh, (int)a.x.size[H]) *
                 counted<TAPS_S, STRIDE_W, DILATE_S>(a, 1, ow, (int)a.x.size[W]));
}

// ---- maxima

// The larger, NaN if one is.
template <typename T>
__device__ inline T larger_of(T a, T b) {
#if __CUDA_ARCH__ >= 800
  T r = a;
  if constexpr (sizeof(T) == 4) asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  if constexpr (sizeof(T) == 2 && TYPE_X == F16) asm("max.NaN.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  if constexpr (sizeof(T) == 2 && TYPE_X == BF16) asm("max.NaN.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  if constexpr (sizeof(T) == 4 || TYPE_X == F16 || TYPE_X == BF16) return r;
#endif
  const float x = from_x(a), y = from_x(b);
  return y > x || y != y ? b : a;
}

// The same for two words: a float, or two halves in one instruction if the GPU has it.
__device__ inline unsigned larger_word(unsigned a, unsigned b) {
  if (sizeof(X) == 4) return __float_as_uint(larger_of(__uint_as_float(a), __uint_as_float(b)));
#if __CUDA_ARCH__ >= 800
  if (TYPE_X == F16) asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  if (TYPE_X == BF16) asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
#else
  return larger_of<unsigned short>(a, b) | (unsigned)larger_of<unsigned short>(a >> 16, b >> 16) << 16;
#endif
}

// ---- forward

// The reduced elements: unconverted for maxima, f32 for sums.
template <bool>
struct Folded {
  typedef float type;
};
template <>
struct Folded<true> {
  typedef X type;
};
typedef Folded<OPERATION == MAXPOOL>::type S;
constexpr int RESULTS = COLUMNS * WIDTH;  // of a thread, of one row
typedef Pack<S, RESULTS> Line;

__device__ inline S folded(S a, S b) {
  if constexpr (OPERATION == AVGPOOL) return a + b;
  return larger_of(a, b);
}

__device__ inline void join(Line &to, const Line &line) {
  if constexpr (OPERATION == MAXPOOL && (TYPE_X == F16 || TYPE_X == BF16) && RESULTS > 1) {
    unsigned *const word = (unsigned *)&to;
#pragma unroll
    for (int c = 0; c < RESULTS / 2; c++) word[c] = larger_word(word[c], ((const unsigned *)&line)[c]);
  } else {
#pragma unroll
    for (int c = 0; c < RESULTS; c++) to.of[c] = folded(to.of[c], line.of[c]);
  }
}

__device__ inline S element_of(X value) {
  if constexpr (OPERATION == AVGPOOL) return from_x(value);
  return value;
}

__device__ inline Line line_of(const Pack<X> &pack) {
  Line line;
#pragma unroll
  for (int c = 0; c < WIDTH; c++) line.of[c] = element_of(pack.of[c]);
  return line;
}

// The input line of neighbouring outputs of one channel: a vector, and the elements that their windows read before and
// behind it.
constexpr int VECTOR = COLUMNS * STRIDE_W;
constexpr int REACH = (COLUMNS - 1) * STRIDE_W + (TAPS_S - 1) * DILATE_S + 1;

template <bool ALIGNED>
__device__ inline void look_along(const Args &a, const X *x, int u, bool exists, X (&seen)[REACH]) {
  Pack<X, VECTOR> pack;
#pragma unroll
  for (int i = 0; i < VECTOR; i++) pack.of[i] = filler();
  if (ALIGNED && exists) pack = *(const Pack<X, VECTOR> *)(x + u + PAD_S);
#pragma unroll
  for (int i = 0; i < REACH; i++) {
    seen[i] = filler();
    if (ALIGNED && i >= PAD_S && i < PAD_S + VECTOR)
      seen[i] = pack.of[i - PAD_S];
    else if (exists & (u + i >= 0) & (u + i < a.x.size[W]))
      seen[i] = x[(u + i) * a.x.stride[W]];
  }
}

template <bool ALIGNED>
__device__ inline Line fold_beside(const Args &a, const X *x, int u, bool exists) {
  X seen[REACH];
  Line line;
  look_along<ALIGNED>(a, x, u, exists, seen);
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    line.of[c] = element_of(seen[c * STRIDE_W]);
#pragma unroll
    for (int s = 1; s < TAPS_S; s++) line.of[c] = folded(line.of[c], element_of(seen[c * STRIDE_W + s * DILATE_S]));
  }
  return line;
}

// The line below the outputs of channels that are contiguous.
template <bool ALIGNED>
__device__ inline Line fold_channels(const Args &a, const X *x, int u, bool exists) {
  Pack<X> pack[TAPS_S];
#pragma unroll
  for (int s = 0; s < TAPS_S; s++) {
    const int column = u + s * DILATE_S;
    pack[s] = load_x<ALIGNED>(a, x + column * a.x.stride[W], exists && column >= 0 && column < a.x.size[W]);
  }
  Line line = line_of(pack[0]);
#pragma unroll
  for (int s = 1; s < TAPS_S; s++) join(line, line_of(pack[s]));
  return line;
}

// A line folded along the taps from column u on.
template <bool ALIGNED>
__device__ inline Line fold_line(const Args &a, const X *x, int u, bool exists) {
  if constexpr (COLUMNS > 1)
    return fold_beside<ALIGNED>(a, x, u, exists);
  else
    return fold_channels<ALIGNED>(a, x, u, exists);
}

// The tap by which line i of a thread belongs to its output q, or -1.
__device__ constexpr int tap_of(int i, int q) {
  return i >= q * STRIDE_H && (i - q * STRIDE_H) % DILATE_R == 0 && (i - q * STRIDE_H) / DILATE_R < TAPS_R
             ? (i - q * STRIDE_H) / DILATE_R
             : -1;
}

__device__ inline Y finished(const Args &a, S value, int row, int column) {
  if constexpr (OPERATION == MAXPOOL) return to_y(from_x(value));
  const float count = window_count(a, row, column);
  return to_y(TYPE_Y <= S32 ? value / count : value * (1 / count));  // integers: halves stay halves
}

template <bool ALIGNED>
__device__ inline void store_row(const Args &a, Y *y, const Line &line, int row, int column) {
  Pack<Y, RESULTS> pack;
#pragma unroll
  for (int c = 0; c < RESULTS; c++) pack.of[c] = finished(a, line.of[c], row, column + c / WIDTH);
  if (ALIGNED && column + COLUMNS <= a.y.size[W]) {
    *(Pack<Y, RESULTS> *)y = pack;
    return;
  }
#pragma unroll
  for (int c = 0; c < RESULTS; c++)
    if (column + c / WIDTH < a.y.size[W]) y[c / WIDTH * a.y.stride[W] + c % WIDTH * a.y.stride[G]] = pack.of[c];
}

template <bool ALIGNED>
__device__ inline void forward(const Args &a, const Place &p) {
  constexpr int LINES = (ROWS - 1) * STRIDE_H + (TAPS_R - 1) * DILATE_R + 1;
  const X *x = (const X *)a.x.data + p.n * a.x.stride[N] + p.channel * a.x.stride[G];
  const int first = p.row * ROWS * STRIDE_H - a.pad[0][0], column = p.column * COLUMNS, u = column * STRIDE_W - PAD_S;
  Line result[ROWS];
#pragma unroll
  for (int i = 0; i < LINES; i++) {
    bool is_read = false;
#pragma unroll
    for (int q = 0; q < ROWS; q++) is_read |= tap_of(i, q) >= 0;
    if (!is_read) continue;
    const bool exists = first + i >= 0 && first + i < a.x.size[H];
    const Line line = fold_line<ALIGNED>(a, x + (first + i) * a.x.stride[H], u, exists);
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
      if (tap_of(i, q) == 0) result[q] = line;
      if (tap_of(i, q) > 0) join(result[q], line);
    }
  }
  Y *y = (Y *)a.to + p.n * a.y.stride[N] + p.channel * a.y.stride[G] + column * a.y.stride[W];
#pragma unroll
  for (int q = 0; q < ROWS; q++)
    if (p.row * ROWS + q < a.y.size[H])
      store_row<ALIGNED>(a, y + (p.row * ROWS + q) * a.y.stride[H], result[q], p.row * ROWS + q, column);
}

// ---- backwards

#include "cuda_pooling_dgrad.cuh"

template <bool ALIGNED>
__device__ inline void pool(const Args &a, const Place &p) {
#if OPERATION == 3 || OPERATION == 4
  forward<ALIGNED>(a, p);
#else
  backward<ALIGNED>(a, p);
#endif
}

// On sm_100a NVRTC 13.0 keeps to 64 registers, for four blocks, and spills; three may have 80.
#if __CUDA_ARCH__ / 100 == 10 && (OPERATION == 3 || OPERATION == 4)
#define BOUNDS __launch_bounds__(256, 3)
#else
#define BOUNDS __launch_bounds__(256)
#endif

extern "C" __global__ void BOUNDS falt_pooling(const __grid_constant__ Args a) {
  const unsigned index = blockIdx.x * 256u + threadIdx.x;
  if (index >= a.threads) return;
  const Place p = place_of(a, index);
  constexpr bool SINGLE = WIDTH * COLUMNS == 1;
  const bool whole = COLUMNS == 1 || (p.column + 1) * COLUMNS * STRIDE_W <= a.x.size[W];  // its vector is in the line
  if (SINGLE || (a.aligned && whole))
    pool<true>(a, p);
  else
    pool<SINGLE>(a, p);
}
