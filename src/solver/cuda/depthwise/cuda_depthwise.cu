// Depthwise fprop and dgrad by direct convolution in registers: each channel is correlated with its own filter. A
// thread computes ROWS x COLS outputs of UNIT contiguous channels (NHWC) or of one channel with contiguous columns
// (NCHW).

// Source lines pass through registers; AHEAD lines are in flight while one is multiplied. Each element is converted
// once and is used for all taps of all outputs that read it. The tap pattern is known at compile time, so no zero of a
// stride is multiplied, in dgrad either. The accumulators stay in registers over all planes. Filters with more taps
// than registers can hold are loaded in PARTS groups of tap rows.

// Compile-time parameters, in addition to those of cuda_depthwise.cuh, whose AXIS_R has the taps of one part:
//   PARTS        of the taps along rows
//   ALL_TAPS_R   in all parts
//   Y_R Y_S      elements of the output from row to row, from column to column
//   UNIT_Y       columns of a word of the output if INNER is 0
//   W_WORDS      1: taps of neighbouring channels are contiguous and aligned
//   AHEAD        lines in flight
//   FINISH       1: scale, bias, residual or activation
//   TYPE_R       number of falt_type: the residual's; -1: none
//   ACTIVATION   number of falt_activation
//   EARLY        0: no programmatic dependent launch; 1: blocks launch early and wait for the preceding kernel; 2: they
//                load the plan's own taps before they wait
//   THREADS BLOCKS

#include "cuda_depthwise.cuh"
#include "epilogue.cuh"
#include "partial.cuh"
#include "ptx/early.cuh"

constexpr int OUTER = Planes::taps * PARTS * (BACKWARD ? MULTIPLE : 1);
constexpr bool SURE = PARTS == 1 && (Planes::inside || (OUTER > 1 && !FILL && Planes::constant));
constexpr bool APART =
    in_blocks<SUM>((long long)OUTER * Rows::taps * Columns::taps);  // rows have accumulators of their own
constexpr bool RAGGED = PARTS > 1 && ALL_TAPS_R % Rows::taps != 0;  // the last part has fewer rows
constexpr bool TAPS_LAST = OUTER > 1 || FINISH;                     // loaded by a thread before its first lines
static_assert(!BACKWARD || PARTS == 1 || Rows::step == 1, "parts are shifts");

struct Tile {
  int image, group, member, plane, row, column;  // row and column: of tiles
};

__device__ inline Tile find_tile(unsigned rest) {
  Tile t;
  const unsigned vectors = CHANNELS / VEC;
  unsigned channel = 0;
  if (INNER) channel = rest % vectors * VEC, rest /= vectors;
  t.column = rest % Columns::tiles, rest /= Columns::tiles;
  t.row = rest % Rows::tiles, rest /= Rows::tiles;
  t.plane = rest % Planes::results, rest /= Planes::results;
  if (!INNER) channel = rest % vectors, rest /= vectors;
  t.image = rest;
  t.group = BACKWARD ? channel : channel / MULTIPLE;
  t.member = BACKWARD ? 0 : channel % MULTIPLE;
  return t;
}

struct Taps {
  SUM w[Rows::taps][Columns::taps][VEC];

  // `rows`: those of a ragged part; memory behind them must not be read.
  __device__ inline void load_taps(const Args &p, i64 from, int rows) {
#pragma unroll
    for (int r = 0; r < Rows::taps; r++)
#pragma unroll
      for (int s = 0; s < Columns::taps; s++)
        if (RAGGED && r >= rows)
#pragma unroll
          for (int c = 0; c < VEC; c++) w[r][s][c] = 0;
        else
          load_channels(p, w[r][s], from + r * p.w_axis[1] + s * p.w_axis[2]);
  }

  __device__ static inline void load_channels(const Args &p, SUM to[VEC], i64 at) {
    if constexpr (W_WORDS && VEC > 1)
      load_words(to, (const Bits<TYPE_W>::type *)p.w + at);
    else
#pragma unroll
      for (int c = 0; c < VEC; c++) to[c] = load<SUM>(p.w, TYPE_W, at + c * p.w_channel);
  }

  __device__ static inline void load_words(SUM to[VEC], const Bits<TYPE_W>::type *from) {
    constexpr int SIZE = sizeof(Bits<TYPE_W>::type), COUNT = VEC * SIZE > 16 ? 16 / SIZE : VEC;
    typedef Word<COUNT * SIZE>::type WORD;
    union {
      WORD word[VEC / COUNT];
      Bits<TYPE_W>::type element[VEC];
    } raw;
#pragma unroll
    for (int k = 0; k < VEC / COUNT; k++) raw.word[k] = ((const WORD *)from)[k];
#pragma unroll
    for (int c = 0; c < VEC; c++) to[c] = value_of<TYPE_W>(raw.element[c]);
  }
};

typedef SUM Sums[ROWS][COLS][VEC];

// Adds the products of source row `position` to all outputs; `rows`: tap rows of a ragged part.
__device__ inline void multiply_line(Sums sum, const Taps &taps, const Source &line, int position, int rows) {
  SUM x[Columns::span][VEC];
#pragma unroll
  for (int j = 0; j < Columns::span; j++)
#pragma unroll
    for (int c = 0; c < VEC; c++) x[j][c] = line.value(j, c);
#pragma unroll
  for (int a = 0; a < ROWS; a++) {
    const int r = Rows::tap(a, position);
    if (r == NONE || (RAGGED && r >= rows)) continue;
    add_terms<APART, Columns::taps, COLS * VEC>(&sum[a][0][0], [&](SUM *part, int s) {
#pragma unroll
      for (int b = 0; b < COLS; b++) {
        const int at = Columns::met(b, s);
        if (at == NONE || is_zero(at)) continue;
#pragma unroll
        for (int c = 0; c < VEC; c++) part[b * VEC + c] += taps.w[r][s][c] * x[at - Columns::low][c];
      }
    });
  }
}

struct Results {
  typedef Bits<TYPE_Y>::type Y;
  Y *first;  // of the tile
  i64 residual;
  int row, column;  // of the tile's first output
#if FINISH
  Linear<SUM> linear[VEC];
#endif

  __device__ inline void begin(const Args &p, const Tile &t) {
    const i64 column_of = (i64)t.column * COLS, row_of = (i64)t.row * ROWS;
    row = row_of, column = column_of;
    first = (Y *)p.y + (t.image * p.y_image + t.group * p.y_channel + t.member * p.y_next + t.plane * p.y_plane +
                        row_of * Y_R + column_of * Y_S);
#if FINISH
    residual = t.image * p.r_image + t.group * p.r_channel + t.member * p.r_next + t.plane * p.r_axis[0] +
               row_of * p.r_axis[1] + column_of * p.r_axis[2];
#pragma unroll
    for (int c = 0; c < VEC; c++) {
      falt_cuda_epilogue e = p.epilogue;
      e.vector_type = TYPE_Y == F64 ? F64 : F32;
      linear[c] = linear_of<SUM>(e, (i64)t.group * (BACKWARD ? 1 : MULTIPLE) + t.member + c);
    }
#endif
  }

  __device__ inline SUM finished(const Args &p, SUM sum, int a, int b, int c) const {
#if FINISH
    SUM value = sum * linear[c].scale + linear[c].offset;
    if (TYPE_R >= 0)
      value += load<SUM>(p.residual, TYPE_R, residual + a * p.r_axis[1] + b * p.r_axis[2] + c * p.r_channel);
    falt_cuda_epilogue e = p.epilogue;
    e.activation = ACTIVATION;
    return activate<SUM>(e, value);
#else
    return sum;
#endif
  }

  // COUNT outputs that are contiguous.
  template <int COUNT>
  __device__ static inline void store_word(Y *to, const SUM value[COUNT]) {
    union {
      typename Word<COUNT * sizeof(Y)>::type word;
      unsigned pair[(COUNT + 1) / 2];
      Y y[COUNT];
    } raw;
    if constexpr (sizeof(Y) == 2 && sizeof(SUM) == 4 && COUNT % 2 == 0) {
#pragma unroll
      for (int k = 0; k < COUNT; k += 2) raw.pair[k / 2] = pack<TYPE_Y>((float)value[k], (float)value[k + 1]);
    } else {
#pragma unroll
      for (int k = 0; k < COUNT; k++) store<SUM>(&raw.y[k], TYPE_Y, 0, value[k]);
    }
    *(typename Word<COUNT * sizeof(Y)>::type *)to = raw.word;
  }

  __device__ inline void put_row(const Args &p, const SUM sum[COLS][VEC], int a) const {
    constexpr int PER = INNER ? 1 : UNIT_Y;
    if (!Rows::whole && row + a >= Rows::results) return;
#pragma unroll
    for (int b = 0; b < COLS; b += PER) {
      SUM value[PER * VEC];
      if (!Columns::whole && column + b >= Columns::results) continue;
#pragma unroll
      for (int k = 0; k < PER * VEC; k++) {
        const int column_of = INNER ? b : b + k, c = INNER ? k : 0;
        value[k] = finished(p, sum[column_of][c], a, column_of, c);
      }
      store_word<PER * VEC>(first + a * (i64)Y_R + b * (i64)Y_S, value);
    }
  }
};

// One plane's taps, or a part of their rows. When these are all, rows of outputs leave as soon as they are complete.
__device__ inline void add_part(Sums sum, const Args &p, const Taps &taps, int rows, const Source::X *first, int row,
                                int column, const Results &results) {
  const Source::X fill = FILL ? element_of<TYPE_X>(p.fill) : (Source::X)0;
  constexpr int SPAN = Rows::span;
  Source line[AHEAD + 1];
#pragma unroll
  for (int i = 0; i < AHEAD && i < SPAN; i++) load_row<SURE>(line[i], first, Rows::low + i, row, column, fill);
#pragma unroll
  for (int i = 0; i < SPAN; i++) {
    if (i + AHEAD < SPAN)
      load_row<SURE>(line[(i + AHEAD) % (AHEAD + 1)], first, Rows::low + i + AHEAD, row, column, fill);
    if (SURE || !is_nothing<SURE>(row, Rows::low + i))
      multiply_line(sum, taps, line[i % (AHEAD + 1)], Rows::low + i, rows);
    if (OUTER == 1)
#pragma unroll
      for (int a = 0; a < ROWS; a++)
        if (Rows::last(a) == Rows::low + i) results.put_row(p, sum[a], a);
  }
}

// The plane of the source that a tap reads, NONE if its products are all zero, or -1: a plane of the constant.
__device__ inline int met_plane(int plane, int tap) {
  const int position = Planes::met(plane, tap);
  if (position == NONE) return NONE;
  const int at = fold<int>(Planes::before, Planes::after, Planes::size, position);
  return at < 0 && !FILL ? NONE : at;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_depthwise(const __grid_constant__ Args p) {
  const unsigned index = blockIdx.x * THREADS + threadIdx.x;
  if (index >= p.tiles) return;
  const Tile t = find_tile(index);
  const int column = t.column * Columns::advance;
  Results results;
  Sums sum = {};
  if (EARLY == 1 || (EARLY == 2 && TAPS_LAST)) await_stream();
  results.begin(p, t);
#pragma unroll 1
  for (int i = 0; i < OUTER; i++) {
    const int part = i % PARTS, plane_tap = i / PARTS % Planes::taps,
              member = BACKWARD ? i / PARTS / Planes::taps : t.member;
    const int plane = met_plane(t.plane, plane_tap), shift = part * Rows::taps * Rows::dilation;
    const int row = t.row * Rows::advance + (BACKWARD ? -shift : shift), rows = ALL_TAPS_R - part * Rows::taps;
    const i64 source = t.image * p.x_image + t.group * p.x_channel + (BACKWARD ? member * p.x_next : 0);
    Taps taps;
    if (plane == NONE && OUTER > 1) continue;
    taps.load_taps(
        p, t.group * p.w_channel + member * p.w_next + plane_tap * p.w_axis[0] + part * Rows::taps * p.w_axis[1], rows);
    if (EARLY == 2 && !TAPS_LAST) await_stream();
    // In a plane of the constant every row is outside.
    add_part(
        sum, p, taps, rows,
        (const Source::X *)p.x + (source + (plane < 0 ? 0 : plane) * p.x_plane + row * (i64)X_R + column * (i64)X_S),
        plane < 0 ? NONE : row, column, results);
  }
  if (OUTER > 1)
#pragma unroll
    for (int a = 0; a < ROWS; a++) results.put_row(p, sum[a], a);
}
