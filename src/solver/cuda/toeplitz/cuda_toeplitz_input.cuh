// Input of cuda_toeplitz.cu: loads the words of a window into a lane's registers, applies the boundary, and separates
// interleaved channels. Part of cuda_toeplitz.cu, whose compile-time parameters it uses.
#pragma once

// The address of the row that continues the image at `row`; NULL: the constant.
__device__ inline const X *line_at(const Args &a, const X *plane, int row) {
  if (LINEAR) return plane;
  row = fold<int, FAR>(AXIS_R, a.in_rows, row);
  return plane && row >= 0 ? plane + min(row, a.in_rows - 1) * a.x_row : nullptr;
}

// The column that continues a row at `column`: always an existing one, or -1 for the constant.
__device__ inline int place(int columns, int column) {
  const int pixel = floor_div(column, PIXEL), pixels = columns / PIXEL, folded = fold<int, FAR>(AXIS_S, pixels, pixel);
  return folded < 0 ? -1 : min(folded, pixels - 1) * PIXEL + column - pixel * PIXEL;
}

__device__ inline X element(const X *line, int columns, unsigned fill, int column) {
  const int from = place(columns, column);
  return line && from >= 0 ? __ldg(line + from) : (X)fill;
}

// One word of neighbours, some of which are outside. Not inlined: it is rare, and there are many words.
__device__ __noinline__ unsigned word_outside(const X *line, int columns, unsigned fill, int column) {
  unsigned word = 0;
#pragma unroll
  for (int e = PER_WORD - 1; e >= 0; e--)
    word = word << 32 / PER_WORD % 32 | (unsigned)element(line, columns, fill, column + e);
  return word;
}

// A lane's words at the end of a row or in an unaligned row: whole words where possible, shifted, then words that touch
// the outside.
__device__ inline void fetch_careful(unsigned raw[RAW], const Args &a, const X *line, int column) {
  const unsigned off = (unsigned)(size_t)(line + column) & 3;
  const int begin = column + FIRST * PER_WORD, margin = off ? PER_WORD : 0;
  const unsigned *from = (const unsigned *)((const char *)(line + begin) - off);
  unsigned next = 0;
#pragma unroll
  for (int i = RAW; i >= 0; i--) {
    const int at = begin + i * PER_WORD;
    const unsigned word = line && at - margin >= 0 && at + PER_WORD <= a.in_columns ? __ldg(from + i) : 0;
    if (i < RAW) raw[i] = __funnelshift_r(word, next, 8 * off);
    next = word;
  }
#pragma unroll
  for (int i = 0; i < RAW; i++) {
    const int at = begin + i * PER_WORD;
    if (!line || at - margin < 0 || at + PER_WORD + margin > a.in_columns)
      raw[i] = word_outside(line, a.in_columns, a.fill, at);
  }
}

// Words FIRST... of the lane's row, by the widest loads that take no more than a word in vain.
__device__ inline void fetch_words(unsigned raw[RAW], const unsigned *from) {
#pragma unroll
  for (int v = VECTOR_BEGIN; v < VECTOR_END; v++) {
    const int low = FIRST > 4 * v ? FIRST - 4 * v : 0, end = FIRST + RAW - 4 * v, high = end < 4 ? end : 4;
    const int to = 4 * v - FIRST;
    if (high - low == 1) {
      raw[to + low] = __ldg(from + 4 * v + low);
    } else if (low >= 2 || high <= 2) {
      const int half = low >= 2 ? 2 : 0;
      const uint2 two = __ldg((const uint2 *)(from + 4 * v + half));
      raw[to + half] = two.x, raw[to + half + 1] = two.y;
    } else {
      const uint4 four = __ldg((const uint4 *)(from + 4 * v));
      if (low <= 0) raw[to] = four.x;
      if (low <= 1) raw[to + 1] = four.y;
      raw[to + 2] = four.z;
      if (high > 3) raw[to + 3] = four.w;
    }
  }
}

// Prefetches rows far ahead to L2, so no register waits for them. One lane requests each line.
__device__ inline void prefetch(const X *row, const Place &at) {
  constexpr int line = 128 / (int)sizeof(X);
  if (at.g * line < WIDTH) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at.g * line));
}

// The lane's words of the block of four rows that starts at `row`.
__device__ inline void fetch(unsigned raw[RAW], const Args &a, const Place &at, const X *plane, int row) {
  const X *line = line_at(a, plane, row + at.t);
  const int column = LINEAR ? at.column + (row + at.t) * (int)a.x_row : at.column;
  const bool inside = column + 4 * VECTOR_BEGIN * PER_WORD >= 0 && column + 4 * VECTOR_END * PER_WORD <= a.in_columns;
  if (line && a.aligned_x && inside)
    fetch_words(raw, (const unsigned *)(line + column));
  else
    fetch_careful(raw, a, line, column);
}

// A vector that is not aligned, from words that are.
__device__ inline uint4 realigned(const void *from) {
  const unsigned off = (unsigned)(size_t)from & 3, *word = (const unsigned *)((const char *)from - off);
  unsigned part[5];
#pragma unroll
  for (int i = 0; i < 5; i++) part[i] = word[i];
  return make_uint4(__funnelshift_r(part[0], part[1], 8 * off), __funnelshift_r(part[1], part[2], 8 * off),
                    __funnelshift_r(part[2], part[3], 8 * off), __funnelshift_r(part[3], part[4], 8 * off));
}

// Collects the word of four bytes, `step` apart, that starts at byte `first`: one byte permutation for each word after
// the first two. `again`: ends with a permutation that the compiler does not merge, so the word has its own register.
__device__ inline unsigned collect(const unsigned raw[RAW], int first, int step, bool again = false) {
  const int low = first / 4, high = (first + 3 * step) / 4;
  unsigned word = raw[low];
#pragma unroll
  for (int w = low + 1; w <= high; w++) {
    unsigned selector = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int byte = first + i * step, from = byte / 4;
      selector |= (from == w ? 4 + byte % 4 : w == low + 1 ? byte % 4 : i) << 4 * i;
    }
    word = again && w == high ? __byte_perm(raw[w], word, selector ^ 0x4444) : __byte_perm(word, raw[w], selector);
  }
  return word;
}

__device__ inline void unpack(unsigned window[CHANNELS][WINDOW], const unsigned raw[RAW]) {
#pragma unroll
  for (int c = 0; c < CHANNELS; c++)
#pragma unroll
    for (int i = 0; i < WINDOW; i++) window[c][i] = collect(raw, OFF + 4 * i * CHANNELS + c, CHANNELS);
}
