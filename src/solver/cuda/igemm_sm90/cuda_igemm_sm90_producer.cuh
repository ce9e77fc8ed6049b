// TMA producer of cuda_igemm_sm90.cu: the position of a step's pixels, taps and channels, the copies that fill a stage,
// and the filter loads before the grid dependency is awaited. Part of cuda_igemm_sm90.cu.

// Coordinates of a pixel, innermost first, its channel 0 to be set.
struct Pixel {
  int c[AXES + 2];
};

__device__ inline Pixel pixel_at(const Polyphase &p, unsigned index, bool out) {
  Pixel made;
#pragma unroll
  for (int i = 0; i < AXES; i++) {
    const falt_cuda_igemm_sm90_axis &axis = p.axis[2 - i];
    const int at = index % axis.pixels;
    index /= axis.pixels;
    made.c[1 + i] = out ? at : axis.corner + at * axis.stride;
  }
  made.c[0] = 0;
  made.c[AXES + 1] = index;
  return made;
}

// The pixel of a tile's row. GROUPED: the row of its group, which may be beyond the last one.
__device__ inline Pixel first_pixel(const Polyphase &p, const Tile &tile, int row, bool out) {
  if (GROUPED) return {{0, row, tile.polyphase}};
  return pixel_at(p, row, out);
}

// Found here, not where it is used: the compiler would put that off.
__device__ inline void settle(Pixel &at) {
#pragma unroll
  for (int i = 0; i < AXES + 2; i++) asm volatile("" : "+r"(at.c[i]));
}

// Advances by 64 pixels without divisions, which take longer than a step's products.
__device__ inline void advance(const Polyphase &p, Pixel &at) {
  bool over = false;
#pragma unroll
  for (int i = 0; i < AXES; i++) {
    const int next = at.c[1 + i] + p.span[i] + over, pixels = p.axis[2 - i].pixels;
    over = next >= pixels;
    at.c[1 + i] = over ? next - pixels : next;
  }
  at.c[AXES + 1] += p.span[AXES] + over;
}

struct Tap {
  unsigned short o[AXES];
};

__device__ inline Tap tap_at(const Polyphase &p, const int i[3]) {
  Tap made;
#pragma unroll
  for (int axis = 0; axis < AXES; axis++)
    made.o[axis] = p.axis[2 - axis].offset + i[2 - axis] * p.axis[2 - axis].offset_step;
  return made;
}

__device__ inline void fetch_pixels(unsigned to, const falt_cuda_map *map, unsigned barrier, const Pixel &at, Tap tap,
                                    bool to_all) {
  if constexpr (GROUPED) {
    const int c[5] = {at.c[0], at.c[1], at.c[2], 0, 0};
    copy_box(to, map, barrier, c);
  } else if constexpr (AXES == 1) {
    if (to_all)
      copy_pixels_1_to_all(to, map, barrier, at.c, tap.o, ALL);
    else
      copy_pixels_1(to, map, barrier, at.c, tap.o);
  } else if constexpr (AXES == 2) {
    if (to_all)
      copy_pixels_2_to_all(to, map, barrier, at.c, tap.o, ALL);
    else
      copy_pixels_2(to, map, barrier, at.c, tap.o);
  } else {
    if (to_all)
      copy_pixels_3_to_all(to, map, barrier, at.c, tap.o, ALL);
    else
      copy_pixels_3(to, map, barrier, at.c, tap.o);
  }
}

// The channels and the tap of a step.
struct Step {
  int channel, tap[3];
};

// Loads a step's part of the filter: this block's part of it, multicast to all blocks of the cluster.
__device__ inline void fetch_filter(const Args &a, unsigned to, unsigned barrier, const Step &step, int column,
                                    int rank) {
  constexpr int boxes = TRANSPOSED_B ? COLUMNS / 64 / CLUSTER : 1, box = COLUMNS / CLUSTER / boxes;
#pragma unroll
  for (int i = 0; i < boxes; i++) {
    const int first = (rank % CLUSTER * boxes + i) * box;
    const int mine = column + first;
    const int c[5] = {TRANSPOSED_B ? mine : step.channel, step.tap[2], step.tap[1], step.tap[0],
                      TRANSPOSED_B ? step.channel : mine};
    if (CLUSTER > 1)
      copy_box_to_all(to + first * LINE, &a.other, barrier, c, ALL);
    else
      copy_box(to + first * LINE, &a.other, barrier, c);
  }
}

// 64 pixels of 64 channels where pixels are contiguous.
__device__ inline void fetch_lines(const Args &a, unsigned to, const falt_cuda_map *map, unsigned barrier, int row,
                                   int channel, bool to_all) {
  const int c[5] = {row % a.image_rows, channel, row / a.image_rows, 0, 0};
  if (to_all)
    copy_box_to_all(to, map, barrier, c, ALL);
  else
    copy_box(to, map, barrier, c);
}

__device__ inline void wait_empty(const Shared &s, const PipelineState &state) {
  barrier_wait(s.empty(state.stage), state.parity ^ 1);
}

// Where a tile's fetching begins: its first pixel, its first step's tap along each axis and block of channels.
struct Start {
  Pixel pixel;
  int step[4];
};

__device__ inline Start start_of(const Args &a, const Polyphase &p, const Tile &tile) {
  const int count[4] = {p.axis[0].taps, p.axis[1].taps, p.axis[2].taps, a.span_blocks};
  Start made = {first_pixel(p, tile, tile.row, false)};
  int rest = tile.begin;
  if (CLUSTER_K > 1)
#pragma unroll
    for (int k = 3; k >= 0; k--) made.step[k] = rest % count[k], rest /= count[k];
  return made;
}

// Walks the steps of a tile from its beginning to `end`: visit(number, step, tap's place). GROUPED: the filter has its
// group in the place of a tap.
template <typename Visit>
__device__ inline void each_step(const Args &a, const Polyphase &p, const Tile &tile, const Start &start, int end,
                                 Visit visit) {
  int i[3], number = tile.begin, first[4] = {start.step[0], start.step[1], start.step[2], start.step[3]};
  const int count[4] = {p.axis[0].taps, p.axis[1].taps, p.axis[2].taps, a.span_blocks};
  Step step;
  for (i[0] = first[0]; i[0] < count[0]; i[0]++, first[1] = 0)
    for (i[1] = first[1]; i[1] < count[1]; i[1]++, first[2] = 0)
      for (i[2] = first[2]; i[2] < count[2]; i[2]++, first[3] = 0) {
#pragma unroll
        for (int axis = 0; axis < 3; axis++) step.tap[axis] = p.axis[axis].first + i[axis] * p.axis[axis].step;
        if (GROUPED) step.tap[2] = tile.polyphase;
        const Tap place = tap_at(p, i);
        for (int span = first[3]; span < count[3]; span++) {
          if (number == end) return;
          step.channel = span * SPAN;
          visit(number++, step, place);
        }
      }
}

// Loads the filter's parts for as many steps as the ring has stages, while the preceding kernel in the stream still
// runs.
__device__ inline void fetch_ahead(const Args &a, const Polyphase &p, const Shared &s, const Tile &tile,
                                   const Start &start, int rank) {
  const int end = min(tile.end, tile.begin + STAGES);
  each_step(a, p, tile, start, end, [&](int number, const Step &step, Tap) {
    const int stage = number - tile.begin;
    barrier_expect(s.full(stage), STAGE);
    fetch_filter(a, s.stage(stage) + A_BYTES, s.full(stage), step, tile.column, rank);
  });
}

// `ahead`: whether loads of the filter's first parts are in flight.
__device__ inline void fetch_tile(const Args &a, const Polyphase &p, const Shared &s, PipelineState &state,
                                  const Tile &tile, const Start &start, int rank, bool ahead) {
  Pixel at = start.pixel;
  each_step(a, p, tile, start, tile.end, [&](int number, const Step &step, Tap place) {
    const unsigned stage = s.stage(state.stage), full = s.full(state.stage);
    if (!ahead || number - tile.begin >= STAGES) {
      wait_empty(s, state);
      barrier_expect(full, STAGE);
      if (!RESIDENT) fetch_filter(a, stage + A_BYTES, full, step, tile.column, rank);
    }
    at.c[0] = step.channel;
    if constexpr (LINES)
      for (int i = 0; i < ROWS / 64; i++)
        fetch_lines(a, stage + i * BLOCK, &p.source, full, tile.row + 64 * i, step.channel, false);
    else
      fetch_pixels(stage, &p.source, full, at, place, false);
    state.next();
  });
}

// The filter, once and for all tiles of the block.
__device__ inline void fetch_resident(const Args &a, const Polyphase &p, const Shared &s, const Tile &tile,
                                      const Start &start, int rank) {
  barrier_expect(s.settled(), RESIDENT * B_BYTES);
  each_step(a, p, tile, start, tile.end, [&](int number, const Step &step, Tap) {
    fetch_filter(a, s.resident(number), s.settled(), step, tile.column, rank);
  });
}

// Loads the filter parts of the first tile, before the wait for the stream if the plan owns the filter. Returns whether
// the loads are in flight.
__device__ inline bool begin_fetching(const Args &a, const Polyphase &p, const Shared &s, const Tile &tile,
                                      const Start &start, int rank) {
  if (!a.kept) await_stream();
  if (RESIDENT)
    fetch_resident(a, p, s, tile, start, rank);
  else if (a.kept)
    fetch_ahead(a, p, s, tile, start, rank);
  if (a.kept) await_stream();
  return !RESIDENT && a.kept;
}

// Loads a block's part of x in a step of wgrad: for each 64 columns of its part of the tile a tap's channels.
struct Columns64 {
  static constexpr int COUNT = COLUMNS >= 64 * CLUSTER ? COLUMNS / 64 / CLUSTER : 1;
  int channel[COUNT];
  Tap tap[COUNT];
};

__device__ inline Columns64 columns_of(const Args &a, const Polyphase &p, const Tile &tile, int rank) {
  Columns64 made;
#pragma unroll
  for (int i = 0; i < Columns64::COUNT; i++) {
    const int mine = min(tile.column / 64 + rank % CLUSTER * Columns64::COUNT + i, a.columns / SPAN - 1);
    const int width = p.axis[2].taps, height = p.axis[1].taps, tap = mine / a.span_blocks;
    const int at[3] = {tap / (width * height), tap / width % height, tap % width};
    made.channel[i] = mine % a.span_blocks * SPAN;
    made.tap[i] = tap_at(p, at);
  }
  return made;
}

// wgrad: loads 64 pixels of dy, and of x at the tile's taps. `out`: the first step's first pixel.
__device__ inline void fetch_gradients(const Args &a, const Polyphase &p, const Shared &s, PipelineState &state,
                                       const Tile &tile, const Columns64 &columns, Pixel out, int rank) {
  constexpr int blocks = Columns64::COUNT;
  const Tap none = {};
  for (int step = tile.begin; step < tile.end; step++, advance(p, out)) {
    wait_empty(s, state);
    const unsigned stage = s.stage(state.stage), full = s.full(state.stage);
    barrier_expect(full, STAGE);
    Pixel in = out;
#pragma unroll
    for (int i = 0; i < AXES; i++) in.c[1 + i] = p.axis[2 - i].corner + out.c[1 + i] * p.axis[2 - i].stride;
#pragma unroll
    for (int i = 0; i < ROWS / 64; i++) {
      out.c[0] = tile.row + 64 * i;
      if constexpr (LINES)
        fetch_lines(a, stage + i * BLOCK, &a.other, full, step * SPAN, out.c[0], false);
      else
        fetch_pixels(stage + i * BLOCK, &a.other, full, out, none, false);
    }
#pragma unroll
    for (int i = 0; i < blocks; i++) {
      const unsigned to = stage + A_BYTES + (rank % CLUSTER * blocks + i) * BLOCK;
      in.c[0] = columns.channel[i];
      if constexpr (LINES == 2)
        fetch_lines(a, to, &p.source, full, step * SPAN, in.c[0], CLUSTER > 1);
      else
        fetch_pixels(to, &p.source, full, in, columns.tap[i], CLUSTER > 1);
    }
    state.next();
  }
}

// The wait for the stream comes after the setup of the first copies, which is most of the work for one image.
__device__ inline void produce(const Args &a, const Polyphases &polyphases, const Shared &s, int rank) {
  PipelineState state;
  Tile tile;
  bool first = true;
  for (i64 work = blockIdx.x / GROUP; tile_at(a, polyphases, work, rank, tile); work += gridDim.x / GROUP) {
    const Polyphase &p = polyphases.polyphase[POLYPHASES > 1 && !BY_FILTER ? tile.polyphase : 0];
    if constexpr (BY_FILTER) {
      const Columns64 columns = columns_of(a, p, tile, rank);
      const Pixel at = pixel_at(p, tile.begin * SPAN, true);
      if (first) await_stream();
      fetch_gradients(a, p, s, state, tile, columns, at, rank);
    } else {
      const Start start = start_of(a, p, tile);
      const bool ahead = first && begin_fetching(a, p, s, tile, start, rank);
      fetch_tile(a, p, s, state, tile, start, rank, ahead);
    }
    first = false;
  }
  // A block must not leave while others still signal its barriers.
  if (CLUSTER > 1)
    for (int i = 0; i < STAGES; i++, state.next()) wait_empty(s, state);
}
