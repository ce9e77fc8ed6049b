// How wgmma.cu finishes a tile by the slice of rows, where SHARES blocks of a cluster sum a part of its steps each, and
// gradients by the filter that are not split. A block gets the sums of its slice from all blocks, itself too, in its
// shared memory, adds them in the order of the steps, and stores results by their strides, four channels at a time.
// Included where sums and shared memory are known.

// Sums, to the blocks that finish their rows.
__device__ inline void send_sums(const Shared &s, int share, int consumer, const Sums &sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int i = 0; i < BLOCKS; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = consumer * WG_ROWS + i * 64 + warp * 16 + half * 8 + lane / 4, block = row / SLICE;
      const unsigned to = s.part(share, row % SLICE) + lane % 4 * 8;
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++) {
        const float2 pair = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        if (SHARES == 1)
          store_pair(to + 32 * j, pair);
        else
          store_pair_at(at_block(to, block) + 32 * j, pair, at_block(s.settled(), block));
      }
    }
}

// Where four neighbouring channels begin, of a pixel of y or of a tap and an output channel of the filter, and how many
// of them exist.
struct Four {
  long long place, residual;
  int count;
};

__device__ inline Four pixel_four(const Args &a, const Phase &p, int row, int column) {
  const int number = row < p.pixels ? pixel_of(a, row) : -1;
  if (number < 0 || column >= a.columns) return {0, 0, 0};
  const Pixel at = pixel_at(p, number, true);
  return {place_of(p.lines, at) + column * p.lines.channel,
          RESIDUAL ? place_of(a.residual_lines, at) + column * a.residual_lines.channel : 0, a.columns - column};
}

__device__ inline Four filter_four(const Args &a, const Phase &p, int row, int column) {
  const int columns = a.span_blocks * SPAN, channel = column % columns;
  int tap = column / columns;
  Pixel at;
#pragma unroll
  for (int i = 0; i < AXES; i++) {
    at.c[1 + i] = tap % p.axis[2 - i].taps;
    tap /= p.axis[2 - i].taps;
  }
  at.c[AXES + 1] = row;
  return {place_of(p.lines, at) + channel * p.lines.channel, 0,
          row < a.rows && column < a.columns ? a.channels - channel : 0};
}

__device__ inline float2 add_pair(const Args &a, int column, float x, float y, const Four &four, int i) {
  const falt_cuda_lines &r = a.residual_lines;
  float2 added = {};
  if (RESIDUAL)
    added = {load<float>(r.data, TYPE_Y, four.residual + i * r.channel),
             load<float>(r.data, TYPE_Y, four.residual + (i + 1) * r.channel)};
  const float alpha = (float)a.epilogue.alpha, beta = BY_FILTER ? 0 : (float)a.epilogue.beta;
  return finish(a, columns_at(a, alpha, beta, column + i), x, y, added);
}

__device__ inline void store_four(const falt_cuda_lines &to, const Four &four, float2 low, float2 high) {
  const float v[4] = {low.x, low.y, high.x, high.y};
  if constexpr (PLANAR)
    for (int i = 0; i < 4 && i < four.count; i++) store<float>(to.data, TYPE_Y, four.place + i * to.channel, v[i]);
  else if constexpr (OUT_SIZE == 4)
    *(float4 *)((float *)to.data + four.place) = make_float4(v[0], v[1], v[2], v[3]);
  else
    *(uint2 *)((short *)to.data + four.place) = make_uint2(pack(low), pack(high));
}

__device__ inline void finish_slice(const Args &a, const Phase &p, const Shared &s, const Tile &tile, int share) {
  constexpr int fours = COLUMNS / 4;
  for (int unit = threadIdx.x; unit < SLICE * fours; unit += 128 * CONSUMERS) {
    const int line = unit / fours, at = unit % fours * 4;
    const int row = tile.row + share * SLICE + line, column = tile.column + at;
    const Four four = BY_FILTER ? filter_four(a, p, row, column) : pixel_four(a, p, row, column);
    if (four.count <= 0) continue;
    float4 sum = {};
#pragma unroll
    for (int i = 0; i < SHARES; i++) {
      const float4 part = load_four(s.part(i, line) + at * 4);
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    store_four(p.lines, four, add_pair(a, column, sum.x, sum.y, four, 0), add_pair(a, column, sum.z, sum.w, four, 2));
  }
}

// Others' shared memory may be written once all blocks have begun; none leaves before it has what they send.
__device__ inline void slice_sums(const Args &a, const Phase &p, const Shared &s, const Tile &tile, int share,
                                  int consumer, const Sums &sums) {
  if (SHARES > 1) cluster_wait();
  send_sums(s, share, consumer, sums);
  if (SHARES > 1)
    barrier_wait(s.settled(), 0);
  else
    warps_sync(1, 128 * CONSUMERS);
  finish_slice(a, p, s, tile, share);
}
