// Persistent variant of cuda_toeplitz.cu for u8 and s8 images and few taps: each warp loops over tiles, and prefetches
// the rows of the next tile by asynchronous copies. Only the first rows are waited for. Part of cuda_toeplitz.cu.

// A lane copies its part of a block of four rows to shared memory, RING blocks ahead, and alone reads it, so it waits
// for its own copies only. (Loads to registers in flight in different steps share a scoreboard, and a warp that waits
// for one waits for all.) The copies go through L1, where neighbouring warps find the continuation of their rows: few
// requests reach L2 twice.
//
// A lane copies its own words as vectors and gets the words beside them by shuffles. The lanes at a warp's ends copy
// the words beside it. At the end of a row (ENDS) these are NEAR words of the row, which the boundary gives; they
// contain the bytes of the missing word.
//
// The products are transposed: the image is the first operand, 16 tiles a product, and half of the Toeplitz matrix the
// second. So the accumulators of a lane are four neighbours of one row of each of its own tiles, and lanes exchange
// nothing.

#pragma once
#include "async.cuh"

constexpr int RING = FALT_CUDA_BANDED_RING;
constexpr int OWN = LANE / PER_WORD;                                               // a lane's words
constexpr int LEFTS = -FIRST, RIGHTS = FIRST + RAW > OWN ? FIRST + RAW - OWN : 0;  // beside them
constexpr int BESIDE = LEFTS > RIGHTS ? LEFTS : RIGHTS;
constexpr int LOOP = CHANNELS == 1 ? RING : 2;  // steps of a loop's body: windows then move by being renamed
constexpr int NEAR = CHANNELS > 1 ? 3 : 2;      // words of a row that hold all of one that continues it

// A warp's part of a block of four rows.
struct Slot {
  uint4 own[OWN / 4][32];
  unsigned beside[NEAR * BESIDE + 1][8];
};

// The place of a lane at its warp's end among the eight of these.
__device__ inline int end_of(const Place &at) {
  return at.lane % 8;
}

// NEAR neighbouring words of a row, and the bytes of these that continue it: of the first two, then of these and the
// third. from < 0: the constant does.
struct Patch {
  int from;
  unsigned selector[2];
};

__device__ inline Patch patch_at(const Args &a, int column, bool *possible) {
  int low = a.in_columns, constants = 0, at[PER_WORD];
#pragma unroll
  for (int e = 0; e < PER_WORD; e++) {
    at[e] = place(a.in_columns, column + e);
    if (at[e] < 0)
      constants++;
    else
      low = min(low, at[e]);
  }
  Patch patch = {min(low / PER_WORD, a.in_columns / PER_WORD - NEAR), {0, 0}};
  if (constants) {
    *possible = *possible && constants == PER_WORD;
    patch.from = -1;
    return patch;
  }
#pragma unroll
  for (int b = 0; b < 4; b++) {
    const int byte = at[b / (int)sizeof(X)] * (int)sizeof(X) + b % (int)sizeof(X) - 4 * patch.from;
    *possible = *possible && byte >= 0 && byte < 4 * NEAR;
    patch.selector[0] |= (byte & 7) << 4 * b;
    patch.selector[1] |= (byte < 8 ? b : byte - 4) << 4 * b;
  }
  return patch;
}

// The source of a lane's next rows.
struct Walk {
  const X *plane, *from;  // from: INSIDE, of the next block
  Y *to;                  // INSIDE: of the tile's outputs
  int row, beside;  // beside: distance in words from the lane's first word to the words that it copies beside its own
  bool end;         // the lane is at an end of its warp
  Patch patch[BESIDE + 1];
};

template <int BYTES>
__device__ inline void copy_if(bool wanted, void *to, const void *from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(shared_address(to)),
      "l"(from), "r"((unsigned)wanted), "n"(BYTES)
      : "memory");
}

// The next block of rows, if wanted. True where the lane's row is the constant.
template <bool ENDS>
__device__ inline bool copy_rows(Slot &slot, Walk &walk, const Args &a, const Place &at, bool wanted) {
  const X *line = walk.from;
  if (ENDS) {
    line = line_at(a, walk.plane, walk.row + at.t);
    walk.row += 4;
  } else {
    walk.from = (const X *)((const char *)walk.from + a.x_block);
  }
  const bool constant = !line;
  if (ENDS && constant) line = walk.plane;
  const unsigned *words = (const unsigned *)(line + (ENDS ? at.column : 0));
#pragma unroll
  for (int v = 0; v < OWN / 4; v++) copy_if<16>(wanted, &slot.own[v][at.lane], words + 4 * v);
#pragma unroll
  for (int i = 0; i < BESIDE; i++) {
    const unsigned *near = ENDS ? (const unsigned *)line + max(walk.patch[i].from, 0) : words + walk.beside + i;
#pragma unroll
    for (int k = 0; k < (ENDS ? NEAR : 1); k++)
      copy_if<4>(wanted && walk.end, &slot.beside[k * BESIDE + i][end_of(at)], near + k);
  }
  return constant;
}

// Words FIRST... of a lane's row.
template <bool ENDS>
__device__ inline void read_rows(unsigned raw[RAW], const Slot &slot, const Walk &walk, const Args &a, const Place &at,
                                 bool constant) {
  const unsigned fill = a.fill * (PER_WORD == 4 ? 0x01010101u : PER_WORD == 2 ? 0x10001u : 1u);
  unsigned own[OWN], beside[BESIDE + 1];
#pragma unroll
  for (int v = 0; v < OWN / 4; v++) {
    const uint4 four = slot.own[v][at.lane];
    own[4 * v] = four.x, own[4 * v + 1] = four.y, own[4 * v + 2] = four.z, own[4 * v + 3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < BESIDE; i++) {
    beside[i] = slot.beside[i][end_of(at)];
    if (ENDS) beside[i] = __byte_perm(beside[i], slot.beside[i + BESIDE][end_of(at)], walk.patch[i].selector[0]);
    if (ENDS && NEAR == 3)
      beside[i] = __byte_perm(beside[i], slot.beside[i + 2 * BESIDE][end_of(at)], walk.patch[i].selector[1]);
    if (ENDS && walk.patch[i].from < 0) beside[i] = fill;
  }
#pragma unroll
  for (int i = 0; i < RAW; i++) {
    const int word = FIRST + i;
    if (word < 0) {
      const unsigned theirs = __shfl_up_sync(~0u, own[OWN + word], 4);
      raw[i] = at.g == 0 ? beside[word + LEFTS] : theirs;
    } else if (word < OWN) {
      raw[i] = own[word];
    } else {
      const unsigned theirs = __shfl_down_sync(~0u, own[word - OWN], 4);
      raw[i] = at.g == 7 ? beside[word - OWN] : theirs;
    }
    if (ENDS && constant) raw[i] = fill;
  }
}

// A row of words in the order of the products: tiles j and j+2 adjacent, two slots of each. (Words that several tiles
// share have a register for each.)
struct Windows {
  uint4 quad[DEPTH][CHANNELS][PAIRS][2];
};

// One block further down.
__device__ inline void move_windows(Windows &windows, const unsigned raw[RAW]) {
#pragma unroll
  for (int i = 0; i < 2 * PAIRS * CHANNELS; i++) {
    const int j = i % 2, q = i / 2 % PAIRS, c = i / (2 * PAIRS);
    const bool whole = 2 * q + 1 < SLOTS;
#pragma unroll
    for (int b = 0; b < DEPTH - 1; b++) windows.quad[b][c][q][j] = windows.quad[b + 1][c][q][j];
    unsigned word[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int first = OFF + 4 * (2 * q + j + k % 2 * 2 + k / 2) * CHANNELS + c;
      word[k] = k >= 2 && !whole ? 0 : collect(raw, first, CHANNELS, j == 1);
    }
    windows.quad[DEPTH - 1][c][q][j] = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

constexpr Kind TRANSPOSED = KIND == BYTES ? MIXED_BYTES : SIGNED_BYTES;

// Outputs of a channel's tiles j and j+2 in columns 2h and 2h+1 of the lane's row.
__device__ inline void form_half(float v[2][4], const Args &a, const uint4 band[], const Windows &windows,
                                 const uint4 &start, float beta, int c, int j, int h) {
  ACC acc[SUMS][4];
  begin(acc, start);
#pragma unroll
  for (int i = 0; i < DEPTH * PAIRS * PARTS; i++) {
    const int b = i / PARTS / PAIRS, q = i / PARTS % PAIRS, part = PARTS - 1 - i % PARTS;
    const uint4 taps = band[i / PARTS * PARTS + part], image = windows.quad[b][c][q][j];
    if (2 * q + 1 < SLOTS)
      Mma<TRANSPOSED>::whole(acc[part], image, h ? taps.z : taps.x, h ? taps.w : taps.y);
    else
      Mma<TRANSPOSED>::half(acc[part], image, h ? taps.z : taps.x);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) v[i / 2][2 * h + i % 2] = result(a, acc, i, beta);
}

// Four neighbouring outputs.
__device__ inline void pack_four(unsigned out[], const float v[4]) {
  if constexpr (sizeof(Y) == 1) {
    out[0] = pack_bytes(v[0], v[1], v[2], v[3]);
  } else {
    constexpr int pair = (sizeof(Y) + 1) / 2;
    pack_pair(out, v[0], v[1]);
    pack_pair(out + pair, v[2], v[3]);
  }
}

// A step's outputs with interleaved channels.
__device__ inline void form_results(const Args &a, unsigned line[CHANNELS * OUT], const uint4 band[],
                                    const Windows &windows, const uint4 &start, float beta) {
  unsigned out[CHANNELS][OUT];
#pragma unroll
  for (int i = 0; i < 2 * CHANNELS; i++) {
    const int c = i / 2, j = i % 2;
    float v[2][4];
    form_half(v, a, band, windows, start, beta, c, j, 0);
    form_half(v, a, band, windows, start, beta, c, j, 1);
    pack_four(out[c] + j * (OUT / 4), v[0]);
    pack_four(out[c] + (j + 2) * (OUT / 4), v[1]);
  }
  interleave(line, out);
}

// The offset of a lane's outputs from those of its warp; zero if they pass through shared memory.
__device__ inline i64 results_at(const Args &a, const Place &at) {
  return CHANNELS == 1 ? at.t * a.y_row + at.g * LANE : 0;
}

__device__ inline void store_step(const Args &a, Y *to, const unsigned line[CHANNELS * OUT], const Place &at) {
  if constexpr (CHANNELS == 1) {
    store_vectors((WordsOut *)to, line, false);
  } else {
    Place origin = at;
    origin.first = 0;
    store_rows(a, to, line, origin, 0, true);
  }
}

// The inner tile of that number: the source of its rows and the destination of its outputs. The last tile of a column
// overlaps the one before it, so all tiles are whole.
__device__ inline void start_walk(Walk &walk, const Args &a, const Place &at, unsigned number) {
  const unsigned others = a.column_tiles - a.end_columns, image = a.images > 1 ? number / (others * a.row_tiles) : 0;
  const unsigned n = number - image * (others * a.row_tiles), down = n / others, across = n - down * others;
  const int first = min((int)(a.end_steps + down * a.steps), a.all_steps - a.end_steps - a.steps), row = 4 * first;
  const int column = (a.end_columns / 2 + across) * WIDTH;
  walk.from = (const X *)a.x + ((row - PAD_R + at.t) * a.x_row + column + at.g * LANE);
  walk.to = (Y *)a.y + (row * a.y_row + column + results_at(a, at));
  if (a.images > 1) {
    const unsigned i = image / a.out_planes, plane = image - i * a.out_planes;
    const unsigned outer = i / a.batch, inner = i - outer * a.batch;
    walk.from += outer * a.x_batch[0] + inner * a.x_batch[1] + plane * a.x_plane;
    walk.to += outer * a.y_batch[0] + inner * a.y_batch[1] + plane * a.y_plane;
  }
}

// All inner tiles: `first` and every `stride`th after it, without a pause: while the last RING blocks of a tile are
// used, the blocks of the next one are copied. The rows of a tile above its first outputs, which complete no output,
// have a slot of their own, so steps and slots keep their order.
__device__ inline void filter_inner(const Args &a, const Place &at, const uint4 *bands, Slot *ring, unsigned next,
                                    unsigned stride) {
  constexpr int count = DEPTH * PAIRS * PARTS;
  const unsigned tiles = (unsigned)a.images * (a.column_tiles - a.end_columns) * a.row_tiles;
  uint4 band[count];
  Windows windows;
  Walk walk;
  bool more = next < tiles;
  unsigned raw[RAW], line[CHANNELS * OUT];
  walk.end = at.g == 0 || at.g == 7;
  walk.beside = at.g == 0 ? -LEFTS : OWN;
  if (more) start_walk(walk, a, at, next);
  if (DEPTH > 1) copy_rows<false>(ring[RING], walk, a, at, more);
#pragma unroll
  for (int b = 0; b < RING; b++) {
    copy_rows<false>(ring[b], walk, a, at, more);
    end_batch();
  }
  const uint4 start = beginning(a);
  const float beta = __shfl_sync(~0u, a.beta, 0);  // kept in a register, not fetched in every step
#pragma unroll
  for (int i = 0; i < count; i++) band[i] = __ldg(bands + i * 32 + at.lane);
  int slot = 0;
#pragma unroll 1
  while (more) {
    Y *to = walk.to;
    await_batches<RING - 1>();
    if (DEPTH > 1) {
      read_rows<false>(raw, ring[RING], walk, a, at, false);
      move_windows(windows, raw);
    }
#pragma unroll 1
    for (int i = a.steps; i > 0; i -= LOOP) {
      if (i == RING) {
        next += stride;
        more = next < tiles;
        if (more) start_walk(walk, a, at, next);
        if (DEPTH > 1) copy_rows<false>(ring[RING], walk, a, at, more);
      }
#pragma unroll
      for (int k = 0; k < LOOP; k++) {
        await_batches<RING - 1>();
        read_rows<false>(raw, ring[slot + k], walk, a, at, false);
        copy_rows<false>(ring[slot + k], walk, a, at, more);
        end_batch();
        move_windows(windows, raw);
        form_results(a, line, band, windows, start, beta);
        store_step(a, to, line, at);
        to = (Y *)((char *)to + a.y_block);
      }
      slot = (slot + LOOP) % RING;
    }
  }
}

// Whether a tile's columns are whole and aligned and its boundary is found in patches; else elements are loaded one by
// one.
__device__ inline bool find_patches(Walk &walk, const Args &a, const Place &at, int row, int steps) {
  bool possible = !LINEAR && walk.plane && a.aligned_x && a.aligned_y && at.first + WIDTH <= a.in_columns &&
                  exists(a, row + 4 * steps - 1, at.first + WIDTH - 1);
  if (possible) {
#pragma unroll
    for (int i = 0; i < BESIDE; i++)
      walk.patch[i] = walk.end ? patch_at(a, at.column + (walk.beside + i) * PER_WORD, &possible) : Patch{0, {0, 0}};
  }
  return __all_sync(~0u, possible);
}

// A tile at the image's edges.
__device__ inline void filter_edge(const Args &a, const Image &image, const Place &at, const uint4 *bands, Slot *ring,
                                   int row, int steps) {
  constexpr int count = DEPTH * PAIRS * PARTS, last = DEPTH - 1;
  uint4 band[count];
  Windows windows;
  Walk walk;
  unsigned raw[RAW], line[CHANNELS * OUT], constants = 0;  // constants: a bit a slot
  walk.plane = plane_of(a, image, 0);
  walk.end = at.g == 0 || at.g == 7;
  walk.beside = at.g == 0 ? -LEFTS : OWN;
  walk.row = row - PAD_R;
  const bool patched = find_patches(walk, a, at, row, steps);
#pragma unroll 1
  for (int b = 0; b < RING && patched; b++) {
    constants |= (unsigned)copy_rows<true>(ring[b], walk, a, at, b < steps + last) << b;
    end_batch();
  }
  const uint4 start = beginning(a);
#pragma unroll
  for (int i = 0; i < count; i++) band[i] = __ldg(bands + i * 32 + at.lane);
  if (!patched) fetch(raw, a, at, walk.plane, row - PAD_R);
#pragma unroll 1
  for (int i = -last; i < steps; i++) {
    const int s = (i + last) % RING;
    if (patched) {
      await_batches<RING - 1>();
      read_rows<true>(raw, ring[s], walk, a, at, constants >> s & 1);
      constants &= ~(1u << s);
      constants |= (unsigned)copy_rows<true>(ring[s], walk, a, at, i + RING < steps) << s;
      end_batch();
    }
    move_windows(windows, raw);
    if (!patched && i + 1 < steps) fetch(raw, a, at, walk.plane, row - PAD_R + 4 * (i + DEPTH));
    if (i < 0) continue;
    form_results(a, line, band, windows, start, a.beta);
    store_rows(a, image.y, line, at, row + 4 * i, patched);
  }
  await_batches<0>();
}

// Whether all inner tiles may be read and written without tests.
__device__ inline bool is_calm(const Args &a) {
  const int bottom = 4 * (a.all_steps - a.end_steps);  // of the outputs
  if (TAPS_T > 1 || PAD_T || a.out_planes > a.in_planes || !a.aligned_x || !a.aligned_y) return false;
  if (a.all_steps - 2 * a.end_steps < a.steps || a.steps % LOOP || a.steps < RING) return false;
  if (LINEAR)
    return (i64)4 * a.end_steps * a.x_row >= BESIDE * PER_WORD && bottom * a.x_row + BESIDE * PER_WORD <= a.in_columns;
  const int right = (a.column_tiles - a.end_columns + a.end_columns / 2) * WIDTH;
  return a.end_columns == 2 && WIDTH >= BESIDE * PER_WORD && right + BESIDE * PER_WORD <= a.in_columns &&
         right <= a.out_columns && 4 * a.end_steps >= PAD_R && bottom - PAD_R + 4 * (DEPTH - 1) <= a.in_rows;
}

__device__ inline void filter_tiles(const Args &a, Place &at, const uint4 *bands, i64 number) {
  __shared__ Slot slots[WARPS][RING + 1];
  Slot *ring = slots[threadIdx.x / 32];
  const int ends = min(2, a.end_rows);
  const unsigned stride = gridDim.x * WARPS;
  const bool calm = is_calm(a);
  const i64 edges = a.images * (a.end_columns * a.end_rows + (a.column_tiles - a.end_columns) * ends);
  const i64 alone = calm ? edges : a.tiles;
#pragma unroll 1
  for (; number < alone; number += stride) {
    int row;
    const Tile tile = tile_at(a, number);
    const Image image = locate(a, at, tile, &row);
    if (!LINEAR && a.out_columns % 16 == 0 && a.out_columns >= WIDTH) {  // the last column's tiles overlap others
      at.first = min(at.first, a.out_columns - WIDTH);
      at.column = at.first + at.g * LANE;
    }
    filter_edge(a, image, at, bands, ring, row, tile.steps);
  }
  if (calm) filter_inner(a, at, bands, ring, (unsigned)(number - alone), stride);
}
