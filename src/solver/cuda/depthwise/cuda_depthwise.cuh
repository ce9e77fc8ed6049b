// Shared parts of the depthwise kernels: the source positions that a tile of outputs reads, and source lines in
// registers.

// Compile-time parameters:
//   TYPE_X TYPE_Y TYPE_W  numbers of falt_type: source, output, filter
//   SUM                   float or double
//   INNER                 1: NHWC, a thread has UNIT channels; 0: NCHW, a thread has one
//   UNIT                  elements of a word of the source
//   AXIS_T AXIS_R AXIS_S  planes, rows, columns: taps, stride, dilation, pad, source's size, outputs, boundaries
//   ROWS COLS             outputs of a thread
//   X_R X_S               elements of the source from row to row, from column to column
//   CHANNELS MULTIPLE     channels of the output; of a group
//   BACKWARD              1: dgrad
//   FILL                  1: the constant beyond the ends is not 0

#pragma once
#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"
#include "words.cuh"

typedef falt_cuda_depthwise_args Args;
typedef long long i64;

constexpr int VEC = INNER ? UNIT : 1;

template <int TYPE>
struct Bits {
  typedef unsigned short type;
};
template <>
struct Bits<F32> {
  typedef float type;
};
template <>
struct Bits<F64> {
  typedef double type;
};

template <int TYPE>
__device__ inline SUM value_of(typename Bits<TYPE>::type element) {
  if constexpr (TYPE == F16)
    return from_f16(element);
  else if constexpr (TYPE == BF16)
    return from_bf16(element);
  else
    return (SUM)element;
}

constexpr int NONE = -(1 << 30);

__device__ constexpr int floor_of(int a, int b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// An axis, cut into tiles of TILE outputs. Positions count from where a tile's source begins: `advance` from tile to
// tile.
template <int TILE, int TAPS, int STEP, int DILATION, int PAD, int SIZE, int RESULTS, int BEFORE, int AFTER>
struct Cut {
  static constexpr int taps = TAPS, step = STEP, dilation = DILATION, size = SIZE, results = RESULTS;
  static constexpr int before = BEFORE, after = AFTER, tile = TILE;
  static constexpr int tiles = (RESULTS + TILE - 1) / TILE, advance = BACKWARD ? TILE / STEP : TILE * STEP;
  static constexpr int left = RESULTS - (tiles - 1) * TILE;  // outputs of the last tile
  static constexpr bool whole = RESULTS % TILE == 0, constant = BEFORE == CONSTANT && AFTER == CONSTANT;
  static_assert(!BACKWARD || TILE % STEP == 0, "tiles begin at the same polyphase part");

  // The source position of output `at` and a tap, or NONE; `at` may also be a position among all outputs.
  __device__ static constexpr int met(int at, int tap) {
    if (!BACKWARD) return at * STEP + tap * DILATION - PAD;
    const int way = at + PAD - tap * DILATION;
    return way % STEP == 0 ? way / STEP : NONE;
  }
  // The tap with which an output reads a position, or NONE.
  __device__ static constexpr int tap(int at, int position) {
    const int way = BACKWARD ? at + PAD - position * STEP : position + PAD - at * STEP;
    return way >= 0 && way % DILATION == 0 && way / DILATION < TAPS ? way / DILATION : NONE;
  }
  // The positions that a tile may read, and the last one of an output.
  static constexpr int low = BACKWARD ? floor_of(PAD - (TAPS - 1) * DILATION + STEP - 1, STEP) : -PAD;
  static constexpr int high =
      BACKWARD ? floor_of(TILE - 1 + PAD, STEP) : (TILE - 1) * STEP + (TAPS - 1) * DILATION - PAD;
  static constexpr int span = high - low + 1;
  __device__ static constexpr int last(int at) {
    const int most = BACKWARD ? floor_of(at + PAD, STEP) : at * STEP + (TAPS - 1) * DILATION - PAD;
    return most < low ? low : most;
  }
  // Whether all outputs read inside the source only.
  static constexpr bool inside = low >= 0 && (tiles - 1) * advance + high < SIZE;
};

typedef Cut<ROWS, AXIS_R> Rows;
typedef Cut<COLS, AXIS_S> Columns;
typedef Cut<1, AXIS_T> Planes;

// SPAN columns of a line of SIZE elements, STRIDE apart, starting FIRST after the tile's first, which advances by
// ADVANCE from tile to tile.
template <int TYPE, int FIRST, int SPAN, int ADVANCE, int TILES, int SIZE, int BEFORE, int AFTER, i64 STRIDE>
struct Line {
  typedef typename Bits<TYPE>::type X;
  typedef typename Word<UNIT * sizeof(X)>::type WORD;
  static constexpr int PER = INNER ? 1 : UNIT;  // columns of a word
  static constexpr int LEAD = (FIRST % PER + PER) % PER, WORDS = (LEAD + SPAN + PER - 1) / PER;
  union {
    WORD word[WORDS];
    X x[WORDS * UNIT];
  };

  // Whether columns are inside for any tile.
  __device__ static constexpr bool is_inside(int from) {
    return from >= 0 && (TILES - 1) * ADVANCE + from + PER <= SIZE;
  }

  __device__ inline void fill_word(int k, X fill) {
#pragma unroll
    for (int e = 0; e < UNIT; e++) x[k * UNIT + e] = fill;
  }

  __device__ inline void fill_all(X fill) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) fill_word(k, fill);
  }

  // `first`: element of the tile's first column, which is number `at` of the line.
  __device__ inline void load_line(const X *first, int at, X fill) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
      const int from = FIRST - LEAD + k * PER;
      if (is_inside(from)) {
        word[k] = *(const WORD *)(first + from * STRIDE);
      } else if (BEFORE == CONSTANT && AFTER == CONSTANT && SIZE % PER == 0) {
        fill_word(k, fill);
        if ((unsigned)(at + from) < (unsigned)SIZE) word[k] = *(const WORD *)(first + from * STRIDE);
      } else {
#pragma unroll
        for (int e = 0; e < PER; e++) {
          const int position = fold<int>(BEFORE, AFTER, SIZE, at + from + e);
          if (INNER) {
            fill_word(k, fill);
            if (position >= 0) word[k] = *(const WORD *)(first + (position - at) * STRIDE);
          } else {
            x[k * UNIT + e] = position < 0 ? fill : first[(position - at) * STRIDE];
          }
        }
      }
    }
  }

  __device__ inline SUM value(int column, int channel) const {
    return value_of<TYPE>(x[INNER ? column * UNIT + channel : LEAD + column]);
  }
};

typedef Line<TYPE_X, Columns::low, Columns::span, Columns::advance, Columns::tiles, Columns::size, Columns::before,
             Columns::after, X_S>
    Source;

// Whether row `position` of a tile may be beyond an end with zeros.
template <bool SURE>
__device__ inline bool is_nothing(int row, int position) {
  const bool sure = SURE && position >= 0 && (Rows::tiles - 1) * Rows::advance + position < Rows::size;
  return !sure && !FILL && Rows::constant && (unsigned)(row + position) >= (unsigned)Rows::size;
}

// Whether a column is beyond an end with zeros, at compile time.
__device__ constexpr bool is_zero(int column) {
  return Columns::tiles == 1 && Columns::constant && !FILL && (column < 0 || column >= Columns::size);
}

// A row of the source, counted from the tile's first, of which `first` is the element of the tile's first column. `row`
// numbers the tile's first, or is NONE: all is beyond an end. SURE: it exists where every tile's does.
template <bool SURE>
__device__ inline void load_row(Source &line, const Source::X *first, int position, int row, int column,
                                Source::X fill) {
  const int number = row + position;
  const bool inside = SURE && position >= 0 && (Rows::tiles - 1) * Rows::advance + position < Rows::size;
  if (inside || (unsigned)number < (unsigned)Rows::size) {
    line.load_line(first + position * (i64)X_R, column, fill);
  } else if (Rows::constant || row == NONE) {
    line.fill_all(fill);
  } else {
    const int from = fold<int>(Rows::before, Rows::after, Rows::size, number);
    if (from < 0)
      line.fill_all(fill);
    else
      line.load_line(first + (from - row) * (i64)X_R, column, fill);
  }
}

template <int TYPE>
__device__ inline typename Bits<TYPE>::type element_of(double value) {
  typename Bits<TYPE>::type element;
  store<double>(&element, TYPE, 0, value);
  return element;
}

// Two outputs as a word of 16-bit floats.
template <int TYPE>
__device__ inline unsigned pack(float low, float high) {
  unsigned word;
  if (TYPE == F16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
