// Loader of cuda_igemm.cu: copies the source bytes of a step of the implicit matrix to shared memory, piece by piece.
// Part of cuda_igemm.cu.
#pragma once

// All pixels of a block, each computed once and read by the threads that copy its pieces.
__device__ inline void find_pixels(const Args &a, const Polyphase &p, const char *source, int first, Pixel *pixels) {
  for (int i = threadIdx.x; i < BM; i += THREADS) pixels[i] = find_pixel(a.source, p, source, first + i);
  __syncthreads();
}

#if !GATHER
// The bytes of an entry before its tap's channels, and those up to their end.
__device__ inline int head_of(const Entry &e) {
#if SPANS
  return e.bits >> FALT_CUDA_IGEMM_HEAD & 15;
#else
  return 0;
#endif
}
__device__ inline int end_of(const Entry &e) {
#if SPANS
  return (e.bits >> FALT_CUDA_IGEMM_END & 15) + 1;
#else
  return UNIT;
#endif
}

// Pieces that are contiguous: neighbouring threads take neighbouring pieces of a pixel.
struct Loader {
  static constexpr int UNITS = ROW / UNIT, STEP_ENTRIES = UNITS, STEP = THREADS / UNITS,
                       PIXELS = (BM + STEP - 1) / STEP;
  Pixel pixel[PIXELS];
  const Entry *table;
  Entry next;
  unsigned to[STEP % 8 ? PIXELS : 1];  // bytes of a stage
  unsigned heads = 0, waiting = 0;     // of the steps in flight, the oldest lowest; their bits

  __device__ inline bool mine(int i) const { return BM % STEP == 0 || (int)(threadIdx.x / UNITS) + i * STEP < BM; }
  __device__ inline unsigned place(unsigned stage, int i) const {
    return stage + (STEP % 8 ? to[STEP % 8 ? i : 0] : to[0] + i * STEP * ROW);
  }

  // Its first entry is loaded while pixels are computed.
  __device__ inline void ask(const Entry *entries) {
    table = entries + threadIdx.x % UNITS;
    next = entry_at(table, 0);
  }

  __device__ inline void start(const Pixel *pixels) {
    const int row = threadIdx.x / UNITS, piece = threadIdx.x % UNITS * UNIT;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
      const int at = row + i * STEP;
      pixel[i] = at < BM ? pixels[at] : Pixel{pixels[0].from, 0};
      if (STEP % 8 || i == 0) to[STEP % 8 ? i : 0] = swizzled(at, piece / 16) + piece % 16;
    }
  }

  // The next step, into a stage. There is always another entry behind the last.
  __device__ inline void load(const Args &a, unsigned stage) {
    const Entry e = next;
    table += UNITS;
    next = entry_at(table, 0);
    heads |= head_of(e) << waiting;
    waiting += 4;
    if (a.source.aligned) {
#pragma unroll
      for (int i = 0; i < PIXELS; i++) {
        const char *from;
        const bool exists = find_piece(a.source, pixel[i], e, from);
        if (mine(i)) copy_async<UNIT>(place(stage, i), from, exists ? end_of(e) : 0);
      }
    } else {
#pragma unroll 1
      for (int k = 0; k < UNIT; k += SIZE_X)
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
          const char *from;
          const bool exists = find_piece(a.source, pixel[i], e, from) && k >= head_of(e) && k < end_of(e);
          if (mine(i)) store_bits<SIZE_X>(place(stage, i) + k, exists ? load_bits<SIZE_X>(from + k) : 0);
        }
    }
  }
  __device__ inline void store(unsigned) {}

  // Clears foreign channels in this thread's copies of the oldest step, which has arrived.
  __device__ inline void clear(unsigned stage) {
    const unsigned head = heads & 15;
    heads >>= 4;
    waiting -= 4;
    if (!SPANS || head == 0) return;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
      if (!mine(i)) continue;
      const unsigned at = place(stage, i);
      if (head & 8) store_bits<8>(at, 0);
      if (head & 4) store_bits<4>(at + (head & 8), 0);
      if (head & 2) store_bits<2>(at + (head & 12), 0);
      if (SIZE_X == 1 && head & 1) store_bits<1>(at + (head & 14), 0);
    }
  }
};

#else
// Pieces that are not contiguous: neighbouring threads load neighbouring pixels through registers.
struct Loader {
  static constexpr int PARTS = THREADS / BM, MINE = CHUNKS / PARTS, EACH = 16 / SIZE_X;  // chunks of a thread
  static constexpr int ENTRIES = EACH / GATHER, STEP_ENTRIES = CHUNKS * ENTRIES;         // of a chunk, of a step
  static_assert(THREADS % BM == 0 && BM % 32 == 0 && CHUNKS % PARTS == 0, "a warp takes a column of chunks");
  Pixel pixel;
  const Entry *table;
  unsigned long long element[MINE][EACH];

  __device__ inline void ask(const Entry *entries) { table = entries + threadIdx.x / BM * MINE * ENTRIES; }
  __device__ inline void start(const Pixel *pixels) { pixel = pixels[threadIdx.x % BM]; }

  __device__ inline void load(const Args &a, unsigned) {
#pragma unroll
    for (int i = 0; i < MINE * ENTRIES; i++) {
      const Entry e = entry_at(table, i);
      const char *from;
      const bool exists = find_piece(a.source, pixel, e, from);
      const i64 stride = FILL && from == (const char *)a.source.fill ? 0 : a.source.channel;
#pragma unroll
      for (int k = 0; k < GATHER; k++) {
        element[i / ENTRIES][i % ENTRIES * GATHER + k] = exists ? load_bits<SIZE_X>(from) : 0;
        from += stride;
      }
    }
    table += STEP_ENTRIES;
  }

  // Stores the loaded elements to a stage.
  __device__ inline void store(unsigned stage) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      unsigned word[4];
      pack_chunk<SIZE_X>(word, element[i]);
      store_vector(stage + swizzled(threadIdx.x % BM, threadIdx.x / BM * MINE + i), word);
    }
  }
  __device__ inline void clear(unsigned) {}
};
#endif
