// Depthwise fprop and dgrad, stride 1, as Toeplitz products on tensor cores: eight neighbouring outputs of a row are a
// source window times a Toeplitz matrix, whose column n is a row of taps shifted down by n. For each tap row r
//
//     result(16 windows, 8 columns) += source(16 windows, 8 + TAPS_S - 1 columns, r rows further down) * band[r].
//
// Chen et al., "ConvStencil", 2024.

// The Toeplitz matrices are the same for all windows of a channel and stay in registers. The 16 windows of a product
// are neighbours along a row, and come from segments of SEGMENT rows of one or several images. A warp moves down these
// segments. It loads each row of windows once and multiplies it with all tap rows; the accumulators of the open output
// rows are renamed from row to row.
//
// Planes, or slabs of their rows, are copied to shared memory with zeros around them, several images of a channel at a
// time, and shifted so that windows start at multiples of 16 bytes. Outputs are stored from shared memory as whole
// lines. For NHWC a block takes SPAN channels at once and transposes them on load and on store.
//
// Zeros of the Toeplitz matrix are multiplied by columns outside the output's window. If an output is not finite, it is
// recomputed from its own window.

// Compile-time parameters:
//   KIND                 of the products: HALVES or BRAINS
//   TYPE_Y TYPE_R        numbers of falt_type: of the output; of the residual, -1: none
//   REAL                 float: type of the epilogue
//   FINISH ACTIVATION    1: there is an epilogue; number of falt_activation
//   TAPS_R TAPS_S PAD_R PAD_S  along rows and columns, as correlation; up to 32 columns
//   IN_H IN_W OUT_H OUT_W
//   X_R Y_R              elements from row to row
//   INNER                1: NHWC, and X_S, Y_S are the elements from column to column
//   UNIT_X UNIT_Y        elements of one copy if INNER is 0
//   BATCH CHANNELS MULTIPLE  images; output channels; output channels for each of the source (1 if INNER)
//   SPAN IMAGES SLAB     channels, images and output rows of a tile; SPAN: 1, 8, 16 or 32
//   SEGMENT              rows of a segment
//   WARPS STAGES BLOCKS  of a block; 2: double buffering; blocks of a multiprocessor

#include "cuda_depthwise_stage.cuh"
#include "finish.cuh"
#include "mma.cuh"
#include "pairs.cuh"
#include "ptx/early.cuh"
#include "words.cuh"

typedef Mma<KIND> Product;
constexpr int STORES = 2;  // in flight

// ---- columns: windows of some octets

constexpr int ACROSS = ceil_div(OUT_W, 8);                              // windows in a row
constexpr int BEFORE = ceil_div(PAD_S, 4) * 4;                          // zeros before a row; a multiple of 8 bytes
constexpr int SKIPPED = most(0, BEFORE / 8 - ACROSS + 1);               // octets in which all windows have nothing else
constexpr int LEADING = BEFORE - 8 * SKIPPED, SLACK = LEADING - PAD_S;  // slack: columns before the first tap
constexpr int OCTETS = least(ceil_div(8 + TAPS_S - 1 + SLACK, 8), ceil_div(IN_W + LEADING, 8));
constexpr int WIDTH = least(IN_W, 8 * (ACROSS - 1 + OCTETS) - LEADING);  // columns that windows read
constexpr int PITCH = ceil_div(most(WIDTH + LEADING, 8 * (ACROSS - 1 + OCTETS) - LEADING), 8) * 16;

// ---- rows, of a slab with PAD_R zeros around an image

constexpr int SLABS = ceil_div(OUT_H, SLAB), SEGMENTS = ceil_div(SLAB, SEGMENT);
constexpr bool WHOLE = SLABS == 1 && SEGMENTS == 1;  // without the padding of an image
constexpr int REACH = SEGMENT + TAPS_R - 1;
constexpr int TOP = WHOLE ? PAD_R : 0, END = WHOLE ? least(REACH, PAD_R + IN_H) : REACH;  // that a segment reads
constexpr int ROWS = (SEGMENTS - 1) * SEGMENT + END - TOP;

// Rounds `bytes` up so that the next part continues the `windows` of 16 bytes, modulo 128. Then matrices of any eight
// windows are read without bank conflicts.
__device__ constexpr int continued_at(int bytes, int windows) {
  return bytes + ((windows * 16 - bytes) % 128 + 128) % 128;
}
constexpr int SKEW = continued_at(SEGMENT * PITCH, ACROSS) - SEGMENT * PITCH;

// The position of a row, counted from its segment or its image.
__device__ constexpr int row_at(int row) {
  return row * PITCH + row / SEGMENT * SKEW;
}
constexpr int OF_IMAGE = SEGMENTS * ACROSS;  // windows
constexpr int SEGMENT_BYTES = row_at(SEGMENT), IMAGE = continued_at(row_at(ROWS), OF_IMAGE);

// Channels are transposed by eight; with this distance a warp's words are in different banks.
constexpr int OCTUPLES = SPAN < 8 ? 1 : SPAN / 8;
__device__ constexpr int channel_at(int channel, int bytes) {
  return channel * bytes + channel / 8 * (128 / OCTUPLES);
}
constexpr int PLANE = IMAGES * IMAGE, STAGE = channel_at(SPAN, PLANE) + OCTETS * 16;

// ---- outputs: in the place of pixels, where one warp has read all of a plane; else a row of all segments after the
// other

constexpr int WINDOWS = IMAGES * OF_IMAGE, GROUPS = ceil_div(WINDOWS, 16);
constexpr bool IN_PLACE =
    INNER && GROUPS == 1 && ceil_div(OUT_W, 2) <= ceil_div(WIDTH, 2) && SEGMENTS * SEGMENT <= ROWS;
constexpr int OUT_ROW = IN_PLACE ? PITCH : continued_at(GROUPS * 16 * 16, ACROSS);
constexpr int OUT_PLANE = IN_PLACE ? PLANE : SEGMENT * OUT_ROW;

// ---- the work of a block

constexpr int PARTS = ceil_div(CHANNELS, SPAN), BATCHES = ceil_div(BATCH, IMAGES);

struct Tile {
  int channel, image, images, row;  // row: of outputs
};

// Concurrent blocks take neighbouring channels in NHWC, else one channel after the other.
__device__ inline Tile tile_at(int number) {
  Tile t;
  if (INNER) t.channel = number % PARTS * SPAN, number /= PARTS;
  t.row = number % SLABS * SLAB, number /= SLABS;
  t.image = number % BATCHES * IMAGES;
  if (!INNER) t.channel = number / BATCHES;
  t.images = min(IMAGES, BATCH - t.image);
  return t;
}

__device__ inline i64 source_of(const Args &p, const Tile &t) {
  return t.image * p.x_image + t.channel / MULTIPLE * p.x_channel;
}
__device__ inline i64 result_of(const Args &p, const Tile &t) {
  return t.image * p.y_image + t.channel / MULTIPLE * p.y_channel + t.channel % MULTIPLE * p.y_next;
}

// Positions of an element, of a pair of outputs, and of the outputs of a window's first row.
__device__ inline int place_in(int image, int row, int column) {
  return image * IMAGE + row_at(row) + (LEADING + column) * 2;
}
__device__ inline int place_out(int image, int row, int column) {
  if (IN_PLACE) return place_in(image, row, column);
  return row % SEGMENT * OUT_ROW + (image * SEGMENTS + row / SEGMENT) * ACROSS * 16 + column * 2;
}

// ---- planes in, outputs out

__device__ inline void load_planes(const Args &p, const Tile &t, char *stage) {
  const int first = t.row + TOP - PAD_R;
  const Bits *from = (const Bits *)p.x + (source_of(p, t) + first * (i64)X_R);
  copy_planes<UNIT_X, WIDTH, ROWS>(from, p.x_image, X_R, t.images, stage, place_in,
                                   [=](int row) { return WHOLE || (unsigned)(first + row) < IN_H; });
}

__device__ inline void store_planes(const Args &p, const Tile &t, const char *out) {
  typedef Lines<ceil_div(OUT_W, UNIT_Y)> Units;
  typedef Word<2 * UNIT_Y>::type WORD;
  const Units units;
  Bits *to = (Bits *)p.y + (result_of(p, t) + t.row * (i64)Y_R);
#pragma unroll 1
  for (int column = units.unit * UNIT_Y; units.exists() && column < OUT_W; column += Units::ACTIVE * UNIT_Y)
#pragma unroll STORES
    for (int line = units.first; line < t.images * SLAB; line += Units::TOGETHER) {
      const int image = line / SLAB, row = line % SLAB;
      if (SLABS * SLAB == OUT_H || t.row + row < OUT_H)
        *(WORD *)(to + (image * p.y_image + row * (i64)Y_R + column)) =
            *(const WORD *)(out + place_out(image, row, column));
    }
}

// ---- the same for NHWC: a thread transposes two neighbouring pixels of eight channels

union Eight {
  uint4 all;
  unsigned word[4];
};

__device__ inline void transpose_in(char *to, const Eight &left, const Eight &right) {
#pragma unroll
  for (int c = 0; c < 8; c++)
    *(unsigned *)(to + c * PLANE) = __byte_perm(left.word[c / 2], right.word[c / 2], c % 2 ? 0x7632 : 0x5410);
}

__device__ inline void transpose_out(Eight &left, Eight &right, const char *from) {
#pragma unroll
  for (int c = 0; c < 4; c++) {
    const unsigned even = *(const unsigned *)(from + 2 * c * OUT_PLANE),
                   odd = *(const unsigned *)(from + (2 * c + 1) * OUT_PLANE);
    left.word[c] = __byte_perm(even, odd, 0x5410), right.word[c] = __byte_perm(even, odd, 0x7632);
  }
}

// Of one image, or of several with consecutive lines.
template <int LINES>
__device__ inline int image_of(int line) {
  return IMAGES == 1 ? 0 : line / LINES;
}

// The pixels of the next tile, loaded while the current tile is multiplied.
struct Pixels {
  typedef Lines<ceil_div(WIDTH, 2) * OCTUPLES> Units;
  static constexpr int COUNT = INNER ? ceil_div(IMAGES * ROWS, Units::TOGETHER) : 1;
  Eight left[COUNT], right[COUNT];

  // Of a tile that may not exist; unconditional assignments are not kept in registers until then.
  __device__ inline void ask(const Args &p, int number) {
    const Tile t = tile_at(number);
    const Units units;
    const int first = t.row + TOP - PAD_R, column = units.unit / OCTUPLES * 2, channel = units.unit % OCTUPLES * 8;
    const bool mine = number < (int)p.tiles && units.exists() && t.channel + channel < CHANNELS;
    const Bits *from = (const Bits *)p.x + (source_of(p, t) + first * (i64)X_R + column * X_S + channel);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      const int line = units.first + k * Units::TOGETHER, image = image_of<ROWS>(line), row = line - image * ROWS;
      const bool exists = mine && line < t.images * ROWS && (WHOLE || (unsigned)(first + row) < IN_H);
      const uint4 *at = (const uint4 *)(from + (image * p.x_image + row * (i64)X_R));
      left[k].all = right[k].all = make_uint4(0, 0, 0, 0);
      if (exists) left[k].all = __ldg(at);
      if (exists && (WIDTH % 2 == 0 || column + 1 < WIDTH)) right[k].all = __ldg(at + X_S / 8);
    }
  }

  __device__ inline void put(char *stage) const {
    const Units units;
    const int column = units.unit / OCTUPLES * 2, channel = units.unit % OCTUPLES * 8;
    char *to = stage + channel_at(channel, PLANE);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      const int line = units.first + k * Units::TOGETHER, image = image_of<ROWS>(line), row = line - image * ROWS;
      if (units.exists() && line < IMAGES * ROWS) transpose_in(to + place_in(image, row, column), left[k], right[k]);
    }
  }
};

__device__ inline void store_transposed(const Args &p, const Tile &t, const char *out) {
  typedef Lines<ceil_div(OUT_W, 2) * OCTUPLES> Units;
  const Units units;
  const int column = units.unit / OCTUPLES * 2, channel = units.unit % OCTUPLES * 8;
  Bits *to = (Bits *)p.y + (result_of(p, t) + t.row * (i64)Y_R + column * Y_S + channel);
  if (!units.exists() || t.channel + channel >= CHANNELS) return;
#pragma unroll STORES
  for (int line = units.first; line < t.images * SLAB; line += Units::TOGETHER) {
    const int image = image_of<SLAB>(line), row = line - image * SLAB;
    if (SLABS * SLAB != OUT_H && t.row + row >= OUT_H) continue;
    Eight left, right;
    transpose_out(left, right, out + channel_at(channel, OUT_PLANE) + place_out(image, row, column));
    uint4 *at = (uint4 *)(to + (image * p.y_image + row * (i64)Y_R));
    at[0] = left.all;
    if (OUT_W % 2 == 0 || column + 1 < OUT_W) at[Y_S / 8] = right.all;
  }
}

// ---- bands

struct Bands {
  unsigned word[TAPS_R][OCTETS];
};

__device__ inline const Bits *tap_at(const Args &p, int channel, int r, int s) {
  return (const Bits *)p.w +
         (channel / MULTIPLE * p.w_channel + channel % MULTIPLE * p.w_next + r * p.w_axis[1] + s * p.w_axis[2]);
}

// A lane loads one tap of each row and gets the taps of its words from other lanes.
__device__ inline void load_bands(const Args &p, int channel, Bands &bands) {
  const int lane = threadIdx.x % 32;
  const Bits *tap = tap_at(p, channel, 0, min(lane, TAPS_S - 1));
  unsigned row[TAPS_R];
#pragma unroll
  for (int r = 0; r < TAPS_R; r++, tap += p.w_axis[1]) row[r] = *tap;
#pragma unroll
  for (int o = 0; o < OCTETS; o++) {
    const int s = 8 * o + lane % 4 * 2 - SLACK - lane / 4;
    const unsigned low = (unsigned)s < TAPS_S ? 0xffff : 0, high = (unsigned)(s + 1) < TAPS_S ? 0xffff0000 : 0;
#pragma unroll
    for (int r = 0; r < TAPS_R; r++)
      bands.word[r][o] =
          __byte_perm(__shfl_sync(~0u, row[r], s), __shfl_sync(~0u, row[r], s + 1), 0x5410) & (low | high);
  }
}

// ---- products

typedef float Sums[4];

// Rows g and g + 8 of all octets.
struct Row {
  uint2 octet[OCTETS + 1];
};

__device__ inline void load_row(Row &row, unsigned address) {
#pragma unroll
  for (int o = 0; o < OCTETS; o += 2) {
    const uint4 two = load_matrices(address + o * 16);
    row.octet[o] = make_uint2(two.x, two.y), row.octet[o + 1] = make_uint2(two.z, two.w);
  }
}

__device__ inline void multiply(Sums sums, const Row &row, const unsigned band[OCTETS]) {
#pragma unroll
  for (int o = 0; o < OCTETS; o += 2) {
    const uint2 a = row.octet[o], b = row.octet[o + 1];
    if (o + 1 < OCTETS)
      Product::whole(sums, make_uint4(a.x, a.y, b.x, b.y), band[o], band[o + 1]);
    else
      Product::half(sums, make_uint4(a.x, a.y, 0, 0), band[o]);
  }
}

// ---- outputs

#include "cuda_depthwise_toeplitz_output.cuh"

// ---- a walk

__device__ inline unsigned window_at(const Place &at) {
  const int lane = threadIdx.x % 32, window = min(at.first - lane / 4 + lane % 16, WINDOWS - 1);
  const int image = window / OF_IMAGE, segment = window % OF_IMAGE / ACROSS;
  return shared_address(at.plane) + image * IMAGE + segment * SEGMENT_BYTES + (window % ACROSS + lane / 16) * 16;
}

__device__ inline void walk(const Args &p, const Place &at, const Bands &bands) {
  const unsigned from = window_at(at);
  Sums sums[SEGMENT] = {};
  Waiting waiting;
  float finite = 0;
#pragma unroll
  for (int i = TOP; i < END; i++) {
    Row row;
    load_row(row, from + row_at(i - TOP));
#pragma unroll
    for (int a = 0; a < SEGMENT; a++)
      if (i - a >= 0 && i - a < TAPS_R) multiply(sums[a], row, bands.word[i - a]);
#pragma unroll
    for (int a = 0; a < SEGMENT; a++)
      if (least(a + TAPS_R, END) == i + 1) finite += put_row(p, at, sums[a], a, waiting);
  }
  if (IN_PLACE) put_waiting(at, waiting);
  if (finite != 0) put_alone(p, at);
}

// Distributes the channels and windows of a tile over warps; several warps share a channel only if there is one.
struct Channel {
  Bands bands;
  Linear<REAL> linear;

  __device__ inline void load(const Args &p, int number) {
    load_bands(p, number, bands);
    if (FINISH) linear = ::linear(p, number);
  }
};

// The work of a warp, whose Toeplitz matrices stay in registers if they are few.
constexpr int EACH = SPAN == 1 ? 1 : SPAN / WARPS, KEPT = EACH * TAPS_R * OCTETS <= 32 ? EACH : 1;
struct Channels {
  int first = -1;  // of the tile
  Channel kept[KEPT];
};

__device__ inline void walk_all(const Args &p, const Tile &t, Channels &channels, const char *stage, char *out) {
  constexpr bool ONE = SPAN == 1;
  const bool known = KEPT == EACH && t.channel == channels.first;
  channels.first = t.channel;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll KEPT
  for (int k = 0; k < EACH; k++) {
    const int c = ONE ? 0 : warp + k * WARPS;
    Channel &channel = channels.kept[k % KEPT];
    if (t.channel + c >= CHANNELS) break;
    if (!known) channel.load(p, t.channel + c);
#pragma unroll 1
    for (int i = ONE ? warp : 0; i < GROUPS; i += ONE ? WARPS : 1) {
      const int first = i * 16 + lane / 4;
      char *to = out + channel_at(c, OUT_PLANE) + (IN_PLACE ? 0 : first * 16 + lane % 4 * 4);
      walk(p, Place{t, t.channel + c, first, stage + channel_at(c, PLANE), to, channel.linear}, channel.bands);
    }
  }
}

// NHWC: the loads of the next tile start once the accumulators' registers are free.
__device__ inline void run_inner(const Args &p, char *stage, char *out) {
  Channels channels;
  Pixels pixels;
  pixels.ask(p, blockIdx.x);
#pragma unroll 1
  for (int number = blockIdx.x; number < (int)p.tiles; number += gridDim.x) {
    pixels.put(stage);
    __syncthreads();
    walk_all(p, tile_at(again(number)), channels, stage, out);
    __syncthreads();
    pixels.ask(p, number + gridDim.x);
    store_transposed(p, tile_at(again(number)), out);
    if (IN_PLACE) __syncthreads();
  }
}

__device__ inline void run_planar(const Args &p, char *stage, char *out) {
  char *other = stage + (STAGES - 1) * STAGE;
  int number = (int)((i64)blockIdx.x * p.tiles / gridDim.x);
  const int end = (int)((i64)(blockIdx.x + 1) * p.tiles / gridDim.x);
  Channels channels;
  if (number >= end) return;
  load_planes(p, tile_at(number), stage);
  end_batch();
#pragma unroll 1
  for (; number < end; number++) {
    const bool more = number + 1 < end;
    await_batches<0>();
    __syncthreads();
    if (STAGES == 2 && more) load_planes(p, tile_at(number + 1), other);
    end_batch();
    walk_all(p, tile_at(again(number)), channels, stage, out);
    __syncthreads();
    if (STAGES == 1 && more) load_planes(p, tile_at(number + 1), stage);
    end_batch();
    store_planes(p, tile_at(again(number)), out);
    char *swap = other;
    other = stage, stage = swap;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_depthwise_toeplitz(const __grid_constant__ Args p) {
  extern __shared__ uint4 memory[];
  char *stage = (char *)memory, *out = IN_PLACE ? stage : stage + STAGES * STAGE;
  clear(stage, STAGES * STAGE);
  __syncthreads();
  await_stream();
  if (INNER)
    run_inner(p, stage, out);
  else
    run_planar(p, stage, out);
}
