// Output of cuda_igemm_sm90.cu: converts accumulators one line of shared memory at a time and stores them by TMA: NHWC,
// transposed, NCHW, or as split-K sums. Also stores zeros for outputs without a tap. Part of cuda_igemm_sm90.cu.

// What two neighbouring channels' sums, where SWAPPED one channel's, are multiplied with, and what is added.
struct Columns {
  float2 scale, offset;
};

__device__ inline Columns columns_at(const Args &a, float alpha, float beta, int column) {
  Columns made = {{alpha, alpha}, {beta, beta}};
  if (column >= a.columns) return made;
  const float *scale = (const float *)a.epilogue.scale + column, *bias = (const float *)a.epilogue.bias + column;
  if (SCALED) made.scale.x *= __ldg(scale), made.scale.y *= __ldg(scale + !SWAPPED);
  if (BIASED) made.offset.x += __ldg(bias), made.offset.y += __ldg(bias + !SWAPPED);
  return made;
}

// Two neighbouring sums of a row as outputs; `residual` is added before the activation.
__device__ inline float2 finish(const Args &a, const Columns &c, float x, float y, float2 residual) {
  falt_cuda_epilogue e = a.epilogue;
  e.activation = ACTIVATION;
  return {activate<float>(e, x * c.scale.x + c.offset.x + residual.x),
          activate<float>(e, y * c.scale.y + c.offset.y + residual.y)};
}

// The epilogue state that all pieces of a warpgroup share.
struct Finish {
  const Args &a;
  float alpha, beta;
};

// The address of a lane's row of four matrices in a buffer of 64 lines, swizzled as TMA expects. Lines are the rows of
// the accumulators, or their columns if the store transposes. `j`: the piece's 16 columns.
constexpr bool TRANSPOSED_OUT = SWAPPED != (PLANAR > 0);

__device__ inline unsigned matrix_place(unsigned to, int j, int warp, int lane) {
  const int line = TRANSPOSED_OUT ? 16 * j + lane / 16 * 8 + lane % 8 : warp * 16 + lane % 16;
  const int chunk = TRANSPOSED_OUT ? 2 * warp + lane / 8 % 2 : 2 * j + lane / 16;
  return to + line * LINE + (chunk ^ line % 8) * 16;
}

__device__ inline void load_piece(unsigned (&word)[4], unsigned place) {
  if (TRANSPOSED_OUT)
    load_matrices_transposed(word, place);
  else
    load_matrices(word, place);
}

__device__ inline void store_piece(unsigned place, const unsigned (&word)[4]) {
  if (TRANSPOSED_OUT)
    store_matrices_transposed(place, word);
  else
    store_matrices(place, word);
}

// A warp's 16 pixels of 16 channels as outputs. `word`: the residual, or zeros; `column`: the first channel.
__device__ inline void finish_halves(const Finish &f, unsigned (&word)[4], const float *sums, int column, int lane) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const Columns c = columns_at(f.a, f.alpha, f.beta, column + 4 * i + lane % 4 * 2);
    const float *sum = sums + 2 * i;
    word[i] = pack(finish(f.a, c, sum[0], sum[1], unpack(word[i])));
    word[i + 1] = pack(finish(f.a, c, sum[2], sum[3], unpack(word[i + 1])));
  }
}

// Stages 64 pixels of 64 channels each, from `sums` on, in a buffer, which holds the residual if there is one.
__device__ inline void stage_halves(const Finish &f, unsigned to, const float *sums, int column, int warp, int lane) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const unsigned place = matrix_place(to, j, warp, lane);
    unsigned word[4] = {};
    if (RESIDUAL) load_piece(word, place);
    finish_halves(f, word, sums + 8 * j, column + 16 * j, lane);
    store_piece(place, word);
  }
}

// A channel's line of 64 words; four lanes store to different banks.
__device__ inline unsigned word_place(int channel, int pixel) {
  return channel * 256 + (pixel / 4 ^ channel / 2 % 4 * 2) * 16 + pixel % 4 * 4;
}

// Two neighbouring channels' words of a pixel, in its line or in two of their own.
__device__ inline void store_words(unsigned to, int row, int at, float2 v) {
  if (PLANAR) {
    store_word(to + word_place(at, row), v.x);
    store_word(to + word_place(at + 1, row), v.y);
  } else {
    store_pair(to + row * LINE + (at / 4 ^ row % 8) * 16 + at % 4 * 4, v);
  }
}

__device__ inline float2 load_words(unsigned from, int row, int at) {
  if (PLANAR) return {load_float(from + word_place(at, row)), load_float(from + word_place(at + 1, row))};
  return load_pair(from + row * LINE + (at / 4 ^ row % 8) * 16 + at % 4 * 4);
}

// The same for 32 channels in words.
__device__ inline void stage_words(const Finish &f, unsigned to, const float *sums, int column, int warp, int lane) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int at = 8 * j + lane % 4 * 2;
    const Columns c = columns_at(f.a, f.alpha, f.beta, column + at);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float *sum = sums + 4 * j + 2 * half;
      const int row = warp * 16 + half * 8 + lane / 4;
      const float2 residual = RESIDUAL ? load_words(to, row, at) : float2{};
      store_words(to, row, at, finish(f.a, c, sum[0], sum[1], residual));
    }
  }
}

// Where the sums' rows are channels.
__device__ inline void stage_swapped(const Finish &f, unsigned to, const float *sums, int column, int warp, int lane) {
  const int channel = column + warp * 16 + lane / 4;
  const Columns c[2] = {columns_at(f.a, f.alpha, f.beta, channel), columns_at(f.a, f.alpha, f.beta, channel + 8)};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const unsigned place = matrix_place(to, j, warp, lane);
    unsigned word[4] = {};
    if (RESIDUAL) load_piece(word, place);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float *sum = sums + 8 * j + 2 * i;
      word[i] = pack(finish(f.a, c[i % 2], sum[0], sum[1], unpack(word[i])));
    }
    store_piece(place, word);
  }
}

// 64 pixels of a line of channels, the first of them being row `row`, at `at`.
__device__ inline void copy_out(const Args &a, const Polyphase &p, unsigned from, Pixel at, int row, int column) {
  if constexpr (BOXED) {
    const int c[5] = {row % a.image_rows, column, row / a.image_rows, 0, 0};
    copy_out_box(&p.out, from, c);
    return;
  }
  at.c[0] = column;
  if constexpr (GROUPED) {
    const int c[5] = {at.c[0], at.c[1], at.c[2], 0, 0};
    copy_out_box(&p.out, from, c);
    return;
  }
  if constexpr (AXES == 1) copy_out_1(&p.out, from, at.c);
  if constexpr (AXES == 2) copy_out_2(&p.out, from, at.c);
  if constexpr (AXES == 3) copy_out_3(&p.out, from, at.c);
}

// Loads a part of the residual to a buffer, by the warpgroup's first thread.
__device__ inline void fetch_residual(const Args &a, const Polyphase &p, const Shared &s, int consumer, int buffer,
                                      Pixel at, int row, int column) {
  const Tap none = {};
  if (row >= p.pixels || column >= a.columns) {
    barrier_arrive(s.added(consumer, buffer));
    return;
  }
  barrier_expect(s.added(consumer, buffer), BLOCK);
  at.c[0] = column;
  if constexpr (BOXED)
    fetch_lines(a, s.out(consumer, buffer), &a.residual, s.added(consumer, buffer), row, column, false);
  else
    fetch_pixels(s.out(consumer, buffer), &a.residual, s.added(consumer, buffer), at, none, false);
}

// A buffer of 64 pixels with one line for each channel, copied by the threads of a warpgroup.
struct LineBlock {
  unsigned buffer;
  int row, rows, column, columns, thread;  // the first pixel, all pixels; the same for channels
};

// The number of a row's pixel among all images; negative: padding.
__device__ inline int pixel_of(const Args &a, int row) {
  if (!LINES) return row;
  const int pixel = row % a.image_rows;
  return pixel < a.image_pixels ? row / a.image_rows * a.image_pixels + pixel : -1;
}

// The offset of a pixel's channel 0, in elements.
__device__ inline long long place_of(const falt_cuda_lines &lines, const Pixel &at) {
  long long place = at.c[AXES + 1] * lines.stride[3];
#pragma unroll
  for (int axis = 0; axis < AXES; axis++) place += at.c[1 + axis] * lines.stride[axis];
  return place;
}

// To where pixels are contiguous, or from there. A thread's unit of each line is the same pixels: their place is
// found once.
template <bool OUT>
__device__ inline void move_lines(const Args &a, const LineBlock &b, const Polyphase &p, const falt_cuda_lines &to) {
  constexpr int pixels = PLANAR ? PLANAR : 1, units = 64 / pixels;
  typedef typename Word<pixels * OUT_SIZE>::type Unit;
  const int pixel = b.thread % units * pixels, number = pixel_of(a, b.row + pixel);
  if (b.row + pixel >= b.rows || number < 0) return;
  const long long place = place_of(to, pixel_at(p, number, true));
#pragma unroll 4
  for (int i = b.thread / units; i < OUT_COLUMNS && b.column + i < b.columns; i += 128 / units) {
    const int here = OUT_SIZE == 2 ? i * LINE + (pixel / 8 ^ i % 8) * 16 + pixel % 8 * 2 : word_place(i, pixel);
    Unit *staged = (Unit *)__cvta_shared_to_generic(b.buffer + here);
    Unit *line = (Unit *)((char *)to.data + ((b.column + i) * to.channel + place) * OUT_SIZE);
    if (OUT)
      *line = *staged;
    else
      *staged = __ldg(line);
  }
}

// Stores one warpgroup's outputs of a tile, line by line of 64 pixels, alternating between its buffers.
struct Sender {
  const Args &a;
  const Polyphase &p;
  const Shared &s;
  int consumer, thread, row, column;
  float alpha, beta;
  int &sent;  // pieces so far, of all tiles: they alternate between the buffers

  static constexpr int PIECES = SWAPPED ? 1 : COLUMNS / OUT_COLUMNS, ALL_PIECES = PIECES * (WG_ROWS / 64);

  __device__ int row_of(int piece) const { return row + piece / PIECES * 64; }
  __device__ int column_of(int piece) const { return column + piece % PIECES * OUT_COLUMNS; }

  // Prefetches the residual of a later piece.
  __device__ void fetch(int piece, int ahead) const {
    if (piece < ALL_PIECES)
      fetch_residual(a, p, s, consumer, sent + ahead, pixel_at(p, row_of(piece), true), row_of(piece),
                     column_of(piece));
  }

  // The first residuals, long before they are needed.
  __device__ void begin() const {
    if (!RESIDUAL || (PLANAR && !BOXED) || thread != 0) return;
    copy_out_wait_read<0>();
    for (int i = 0; i < BUFFERS; i++) fetch(i, i);
  }

  __device__ void send(int piece, const Pixel &at) const {
    if (row_of(piece) < p.pixels && exists(piece))
      copy_out(a, p, s.out(consumer, sent), at, row_of(piece), column_of(piece));
    copy_out_commit();
    if (!RESIDUAL || piece + BUFFERS >= ALL_PIECES) return;
    copy_out_wait_read<0>();
    fetch(piece + BUFFERS, BUFFERS);
  }

  template <int PIECE>
  __device__ void stage(const Sums &sums) const {
    const unsigned to = s.out(consumer, sent);
    const int line = column_of(PIECE), warp = thread / 32, lane = thread % 32;
    const Finish f = {a, alpha, beta};
    if constexpr (SWAPPED)
      stage_swapped(f, to, sums[0] + 32 * PIECE, line, warp, lane);
    else if constexpr (OUT_SIZE == 2)
      stage_halves(f, to, sums[PIECE / PIECES] + PIECE % PIECES * OUT_COLUMNS / 2, line, warp, lane);
    else
      stage_words(f, to, sums[PIECE / PIECES] + PIECE % PIECES * OUT_COLUMNS / 2, line, warp, lane);
  }

  // NCHW: all threads load the residual, and store the staged outputs.
  template <int PIECE>
  __device__ void lines(const Sums &sums) const {
    if constexpr (PIECE < ALL_PIECES) {
      const LineBlock block = {s.out(consumer, sent), row_of(PIECE), p.pixels, column_of(PIECE), a.columns, thread};
      if (RESIDUAL) {
        move_lines<false>(a, block, p, a.residual_lines);
        warps_sync(1 + consumer, 128);
      }
      stage<PIECE>(sums);
      warps_sync(1 + consumer, 128);
      move_lines<true>(a, block, p, p.lines);
      sent++;
      lines<PIECE + 1>(sums);
    }
  }

  // Four pieces of a warp's 16 pixels, one pixel's 512 bytes after the other.
  template <int FIRST>
  __device__ void store_rows() const {
    const int warp = thread / 32, lane = thread % 32, own = row_of(FIRST) + warp * 16 + lane % 16;
    const i64 place = own < p.pixels ? place_of(p.lines, pixel_at(p, own, true)) : -1;
    const int chunk = lane % 8, channel = column_of(FIRST + lane / 8) + chunk * 16 / OUT_SIZE;
    const unsigned from = s.out(consumer, sent + lane / 8);
    char *to = (char *)p.lines.data + channel * OUT_SIZE;
#pragma unroll 4
    for (int i = 0; i < 16; i++) {
      const int line = warp * 16 + i;
      const i64 pixel = __shfl_sync(~0u, place, i);
      const uint4 staged = *(const uint4 *)__cvta_shared_to_generic(from + line * LINE + (chunk ^ line % 8) * 16);
      if (pixel >= 0 && channel < a.columns) *(uint4 *)(to + pixel * OUT_SIZE) = staged;
    }
  }

  // A warp stages its own rows and stores them: it waits for no other.
  template <int PIECE>
  __device__ void rows(const Sums &sums) const {
    if constexpr (PIECE < ALL_PIECES) {
      stage<PIECE>(sums);
      sent++;
      if constexpr (PIECE % 4 == 3) {
        __syncwarp();
        store_rows<PIECE - 3>();
        __syncwarp();
      }
      rows<PIECE + 1>(sums);
    }
  }

  // NHWC: a warp stages its own pixels in the order of memory, all channels of one after the other, and stores 16
  // pixels in one copy.
  __device__ void whole(const Sums &sums) const {
    const int warp = thread / 32, lane = thread % 32;
    const Finish f = {a, alpha, beta};
    if (lane == 0) copy_out_wait_read<0>();
    __syncwarp();
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
      const int first = row + block * 64 + warp * 16, count = min(16, p.pixels - first);
      const unsigned from = s.out(consumer, 0) + (block * 64 + warp * 16) * WHOLE;
#pragma unroll
      for (int j = 0; j < WHOLE / 32; j++) {
        unsigned word[4] = {};
        finish_halves(f, word, sums[block] + 8 * j, column + 16 * j, lane);
        store_matrices(from + lane % 16 * WHOLE + (2 * j + lane / 16) * 16, word);
      }
      copy_fence();
      __syncwarp();
      if (lane > 0) continue;
      if (count > 0) copy_out_bytes((char *)p.lines.data + (i64)first * WHOLE, from, count * WHOLE);
      copy_out_commit();
    }
  }

  __device__ bool exists(int piece) const {
    return column_of(piece) < a.columns;
  }

  // `at`: the piece's first pixel. Pieces without channels are left out, but that residuals are counted.
  template <int PIECE>
  __device__ void pieces(const Sums &sums, Pixel at) const {
    if constexpr (PIECE < ALL_PIECES) {
      if (RESIDUAL || exists(PIECE)) piece<PIECE>(sums, at);
      if (PIECE % PIECES == PIECES - 1) advance(p, at);
      pieces<PIECE + 1>(sums, at);
    }
  }

  template <int PIECE>
  __device__ void piece(const Sums &sums, const Pixel &at) const {
    if (RESIDUAL) {
      barrier_wait(s.added(consumer, sent), sent / BUFFERS & 1);
    } else {
      if (thread == 0) copy_out_wait_read<BUFFERS - 1>();
      warps_sync(1 + consumer, 128);
    }
    stage<PIECE>(sums);
    copy_fence();
    warps_sync(1 + consumer, 128);
    if (thread == 0) send(PIECE, at);
    sent++;
  }
};

// A split's sums.
__device__ inline void keep_sums(const Args &a, const Tile &tile, int consumer, const Sums &sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int i = 0; i < BLOCKS; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = tile.row + consumer * WG_ROWS + i * 64 + warp * 16 + half * 8 + lane / 4;
      if (row >= a.rows) continue;
      float *to = a.sums + ((long long)tile.polyphase * a.rows + row) * a.columns + tile.column + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++)
        if (tile.column + 8 * j < a.columns)
          *(float2 *)(to + 8 * j) = make_float2(sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]);
    }
}

// ---- zeros

// The outputs of polyphase parts without taps, up to 32 pixels of each at a time, fewer where all warps have one round
// of fewer: a lane finds a pixel's place, all of them fill it.
__device__ inline void store_zeros(const Args &a, const Polyphases &polyphases) {
  const unsigned warp = threadIdx.x / 32 - 4 * CONSUMERS - 1, lane = threadIdx.x % 32, bytes = a.columns * OUT_SIZE;
  const unsigned warps = 3 * gridDim.x;
  unsigned most = 0;
#pragma unroll 1
  for (int i = POLYPHASES; i < POLYPHASES + ZEROS; i++) most = max(most, (unsigned)polyphases.polyphase[i].pixels);
  const unsigned span = min(32u, (most + warps - 1) / warps);
  bool more = ZEROS > 0;
  for (unsigned first = (3 * blockIdx.x + warp) * span; more; first += warps * span) {
    more = false;
#pragma unroll 1
    for (int i = POLYPHASES; i < POLYPHASES + ZEROS; i++) {
      const Polyphase &p = polyphases.polyphase[i];
      if (first >= (unsigned)p.pixels) continue;
      const unsigned count = min(span, p.pixels - first);
      const i64 mine = (i64)p.lines.data + place_of(p.lines, pixel_at(p, first + lane, true)) * OUT_SIZE;
      more = true;
      for (unsigned pixel = 0; pixel < count; pixel++) {
        char *to = (char *)__shfl_sync(~0u, mine, pixel);
        for (unsigned at = 16 * lane; at < bytes; at += 16 * 32) *(uint4 *)(to + at) = uint4{};
      }
    }
  }
}
