// Gradients of pooling: each input element adds the gradients of its windows. Part of cuda_pooling.cu.
#pragma once

__device__ constexpr int floor_of(int a, int b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// Along one axis: the elements of a cell; the pad modulo the stride; the windows that reach the cell, counted
// backwards; the position of the windows' first element relative to the cell, and the number of elements that they
// read.
template <int TAPS, int STRIDE, int DILATE, int PAD, int CELLS>
struct Along {
  static constexpr int SIZE = CELLS * STRIDE, SHIFT = PAD - floor_of(PAD, STRIDE) * STRIDE;
  static constexpr int NEAR = -((SHIFT + SIZE - 1) / STRIDE), FAR = floor_of((TAPS - 1) * DILATE - SHIFT, STRIDE);
  static constexpr int BEFORE = FAR * STRIDE + SHIFT, SEEN = (FAR - NEAR) * STRIDE + (TAPS - 1) * DILATE + 1;
  // The position of tap j of window d, relative to the cell.
  static __device__ constexpr int at(int d, int j) { return j * DILATE - d * STRIDE - SHIFT; }
};
typedef Along<TAPS_R, STRIDE_H, DILATE_R, PAD_R, 1> Down;
typedef Along<TAPS_S, STRIDE_W, DILATE_S, PAD_S, COLUMNS> Across;

struct Cell {
  Values of[Down::SIZE][Across::SIZE];
};

// The elements that the windows of a cell read, as words of one float or two halves (of a single one the upper is
// zero).
constexpr int WORDS = (WIDTH * sizeof(X) + 3) / 4;

union Words {
  unsigned of[WORDS];
  Pack<X> pack;
};

struct Seen {
  Words of[Down::SEEN][Across::SEEN];
  unsigned row[Down::SEEN], column[Across::SEEN];  // exists: all bits
};

// One row of it. Of a row of single elements the cell's own are a vector.
template <bool ALIGNED>
__device__ inline void look_along_row(const Args &a, const X *x, int column, unsigned row, Seen &seen, int i) {
  Pack<X, Across::SIZE> pack;
#pragma unroll
  for (int j = 0; j < Across::SIZE; j++) pack.of[j] = filler();
  if (COLUMNS > 1 && ALIGNED && row) pack = *(const Pack<X, Across::SIZE> *)(x + column);
#pragma unroll
  for (int j = 0; j < Across::SEEN; j++) {
    const int at = j - Across::BEFORE;
    seen.of[i][j].of[0] = 0;
    if (COLUMNS > 1 && ALIGNED && at >= 0 && at < Across::SIZE)
      seen.of[i][j].pack.of[0] = pack.of[at];
    else
      seen.of[i][j].pack = load_x<ALIGNED>(a, x + (column + at) * a.x.stride[W], row & seen.column[j]);
  }
}

template <bool ALIGNED>
__device__ inline void look(const Args &a, const X *x, int row, int column, Seen &seen) {
#pragma unroll
  for (int j = 0; j < Across::SEEN; j++) {
    const int at = column - Across::BEFORE + j;
    seen.column[j] = at >= 0 && at < a.x.size[W] ? ~0u : 0;
  }
#pragma unroll
  for (int i = 0; i < Down::SEEN; i++) {
    const int at = row - Down::BEFORE + i;
    seen.row[i] = at >= 0 && at < a.x.size[H] ? ~0u : 0;
    look_along_row<ALIGNED>(a, x + at * a.x.stride[H], column, seen.row[i], seen, i);
  }
}

// A mask of the equal elements of two words; NaN is equal to nothing.
__device__ inline unsigned equal(unsigned a, unsigned b) {
  unsigned mask = 0;
#if __CUDA_ARCH__ >= 900
  if (TYPE_X == BF16) asm("set.eq.u32.bf16x2 %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
#else
  if (TYPE_X == BF16)
    mask = (from_bf16(a) == from_bf16(b) ? 0xffff : 0) | (from_bf16(a >> 16) == from_bf16(b >> 16) ? 0xffff0000 : 0);
#endif
  if (TYPE_X == F16) asm("set.eq.u32.f16x2 %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
  if (TYPE_X == F32) mask = __uint_as_float(a) == __uint_as_float(b) ? ~0u : 0;
  return mask;
}

// The element that tap (r, s) of window (dh, dw) reads.
__device__ inline unsigned word_at(const Seen &seen, int dh, int dw, int r, int s, int word) {
  return seen.of[Down::BEFORE + Down::at(dh, r)][Across::BEFORE + Across::at(dw, s)].of[word];
}

// The largest of a window.
__device__ inline unsigned largest(const Seen &seen, int dh, int dw, int word) {
  unsigned top = word_at(seen, dh, dw, 0, 0, word);
#pragma unroll
  for (int r = 0; r < TAPS_R; r++)
#pragma unroll
    for (int s = r == 0; s < TAPS_S; s++) top = larger_word(top, word_at(seen, dh, dw, r, s, word));
  return top;
}

__device__ inline bool in_cell(int h, int w) {
  return h >= 0 && h < Down::SIZE && w >= 0 && w < Across::SIZE;
}

// Adds the window's gradient to its first maximum, if that is in the cell.
__device__ inline void give_first(Cell &cell, const Seen &seen, const Words &dy, int dh, int dw) {
#pragma unroll
  for (int word = 0; word < WORDS; word++) {
    const unsigned top = largest(seen, dh, dw, word);
    unsigned found = 0;
#pragma unroll
    for (int r = 0; r < TAPS_R; r++)
#pragma unroll
      for (int s = 0; s < TAPS_S; s++) {
        const int h = Down::at(dh, r), w = Across::at(dw, s);
        const unsigned x = word_at(seen, dh, dw, r, s, word);
        const unsigned exists = seen.row[Down::BEFORE + h] & seen.column[Across::BEFORE + w];
        const unsigned hit = (equal(x, top) | ~equal(x, x)) & exists;  // if any is NaN, top is
        Words first;
        first.of[0] = dy.of[word] & hit & ~found;
        found |= hit;
        if (!in_cell(h, w)) continue;
#pragma unroll
        for (int c = 0; c < 4 / (int)sizeof(X) && c < WIDTH; c++)
          cell.of[h][w].of[word * 4 / sizeof(X) + c] += from_x(first.pack.of[c]);
      }
  }
}

// The gradient of an output; zero if there is none.
union Given {
  Words words;
  Pack<Y> pack;
};

template <bool ALIGNED>
__device__ inline Given take(const Args &a, const Y *y, int oh, int ow) {
  Given given;
#pragma unroll
  for (int c = 0; c < WIDTH; c++) given.pack.of[c] = 0;
  if (MAXIMA && WIDTH == 1) given.words.of[0] = 0;
  const bool exists = (oh >= 0) & (oh < a.y.size[H]) & (ow >= 0) & (ow < a.y.size[W]);
  if (exists) load_pack<ALIGNED>(given.pack, y + oh * a.y.stride[H] + ow * a.y.stride[W], a.y.stride[G]);
  return given;
}

// Of the elements of a window, and of one that does not exist any number.
__device__ inline float share_of(const Args &a, int oh, int ow) {
  return 1 / fmaxf(window_count(a, oh, ow), 1);
}

// Adds the window's gradient over its count to its elements.
__device__ inline void give_shares(Cell &cell, const Pack<Y> &dy, float share, int dh, int dw) {
#pragma unroll
  for (int r = 0; r < TAPS_R; r++)
#pragma unroll
    for (int s = 0; s < TAPS_S; s++) {
      const int h = Down::at(dh, r), w = Across::at(dw, s);
      if (!in_cell(h, w)) continue;
#pragma unroll
      for (int c = 0; c < WIDTH; c++) cell.of[h][w].of[c] += from_y(dy.of[c]) * share;
    }
}

// A row of the cell, as a vector where it is one.
template <bool ALIGNED>
__device__ inline void store_cell(const Args &a, X *to, const Values (&row)[Across::SIZE], int column) {
  Pack<X, Across::SIZE * WIDTH> pack;
#pragma unroll
  for (int i = 0; i < Across::SIZE * WIDTH; i++) store<float>(&pack.of[i], TYPE_X, 0, row[i / WIDTH].of[i % WIDTH]);
  if constexpr (COLUMNS > 1 && ALIGNED) {
    *(Pack<X, Across::SIZE * WIDTH> *)to = pack;
  } else {
#pragma unroll
    for (int j = 0; j < Across::SIZE; j++)
      if (column + j < a.x.size[W])
        store_pack<ALIGNED>(to + j * a.x.stride[W], a.x.stride[G], ((const Pack<X> *)&pack)[j]);
  }
}

template <bool ALIGNED>
__device__ inline void backward(const Args &a, const Place &p) {
  const int h = p.row * Down::SIZE, w = p.column * Across::SIZE;
  const int row = p.row + floor_of(PAD_R, STRIDE_H), column = p.column * COLUMNS + floor_of(PAD_S, STRIDE_W);
  const Y *y = (const Y *)a.y.data + p.n * a.y.stride[N] + p.channel * a.y.stride[G];
  const i64 at = p.n * a.x.stride[N] + p.channel * a.x.stride[G];
  Cell cell = {};
  Seen seen;
  if (MAXIMA) look<ALIGNED>(a, (const X *)a.x.data + at, h, w, seen);
  Given given[Down::FAR - Down::NEAR + 1][Across::FAR - Across::NEAR + 1];
#pragma unroll
  for (int dh = Down::NEAR; dh <= Down::FAR; dh++)
#pragma unroll
    for (int dw = Across::NEAR; dw <= Across::FAR; dw++)
      given[dh - Down::NEAR][dw - Across::NEAR] = take<ALIGNED>(a, y, row - dh, column - dw);
#pragma unroll
  for (int dh = Down::NEAR; dh <= Down::FAR; dh++)
#pragma unroll
    for (int dw = Across::NEAR; dw <= Across::FAR; dw++) {
      const Given &dy = given[dh - Down::NEAR][dw - Across::NEAR];
      if constexpr (MAXIMA)
        give_first(cell, seen, dy.words, dh, dw);
      else
        give_shares(cell, dy.pack, share_of(a, row - dh, column - dw), dh, dw);
    }
#pragma unroll
  for (int i = 0; i < Down::SIZE; i++)
    if (h + i < a.x.size[H])
      store_cell<ALIGNED>(a, (X *)a.to + at + (h + i) * a.x.stride[H] + w * a.x.stride[W], cell.of[i], w);
}
