/* Every tile kernel of every instruction set that this machine runs, against the portable one and a plain sum, and
 * timed.
 *
 * Sums of integers must agree to the bit; those of floats within their rounding. FALT_SEED
 * chooses another seed; FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "core/types.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum { SEGMENTS = 3, PIECES = 4, ROUNDS = 60, TILE = FALT_TILE, ROWS = FALT_TILE_ROWS, COLUMNS = FALT_TILES_COLUMNS };
enum { STEP = PIECES * FALT_TILE_BYTES, DEPTH = SEGMENTS * PIECES, SUMS = FALT_TILES_ROWS * COLUMNS };

static _Alignas(64) char rows[SEGMENTS * FALT_TILES_ROWS * STEP], panel[DEPTH * 2 * TILE];
static _Alignas(64) float sums[2 * SUMS];

/* Types of rows and columns, by kind. */
static const falt_type left[FALT_TILES_KIND_COUNT] = {FALT_U8, FALT_S8, FALT_S8, FALT_BF16, FALT_F32};
static const falt_type right[FALT_TILES_KIND_COUNT] = {FALT_S8, FALT_U8, FALT_S8, FALT_BF16, FALT_F32};

static void fill_typed(char *to, size_t bytes, falt_type type) {
  const size_t size = falt_type_size(type);
  const bool whole = type == FALT_U8 || type == FALT_S8;
  for (size_t i = 0; i < bytes / size; i++) falt_store(to, type, (int64_t)i, whole ? pick(-128, 255) : random_number());
}

/* ---- products */

static double element(const char *at, falt_type type, int64_t e) {
  return falt_load(at, type, e);
}

/* The sum that row m of the lists and column i of the panel meet. */
static double sum_of(const falt_tiles_product *call, int m, int i) {
  const falt_type x_type = call->transposed ? right[call->kind] : left[call->kind];
  const falt_type w_type = call->transposed ? left[call->kind] : right[call->kind];
  const int64_t each = 4 / (int64_t)falt_type_size(x_type), tiles = call->columns > ROWS ? 2 : 1;
  double sum = 0;
  for (int64_t s = 0; s < call->segments; s++) {
    const falt_tile_rows *a = &call->a[2 * s + m / ROWS];
    for (int64_t p = 0; p < call->pieces; p++)
      for (int64_t e = 0; e < 16 * each; e++) {
        const char *x = a->at + p * a->next, *w = call->b + ((s * call->pieces + p) * tiles + i / ROWS) * TILE;
        const int64_t row = m % ROWS, column = i % ROWS, group = e / each;
        x += call->transposed ? group * a->step + row * 4 : row * a->step + group * call->distance;
        w += call->transposed ? column * 64 + group * 4 : group * 64 + column * 4;
        sum += element(x, x_type, e % each) * element(w, w_type, e % each);
      }
  }
  return sum;
}

static void expect_sums(const falt_tiles_product *call, int m) {
  for (int i = 0; i < call->columns; i++) {
    const double sum = sum_of(call, m, i);
    const int own = call->transposed ? i * COLUMNS + m : m * COLUMNS + i;
    const int at = SUMS + own; /* the second half: one product is on its way */
    if (call->kind <= FALT_TILES_S8)
      assert_true(((const int32_t *)(const void *)sums)[at] == (int32_t)sum);
    else
      assert_true(fabs((double)sums[at] - sum) < 1e-4);
  }
}

/* Sums of another product that are taken out meanwhile: all of them, once, where they belong. */
static void check_before(const falt_tiles_finish *before, const float *out) {
  for (int m = 0; m < FALT_TILES_ROWS; m++)
    for (int i = 0; i < COLUMNS; i++) {
      const bool result = m % ROWS < before->rows[m / ROWS] && i < before->n;
      assert_true(out[m * COLUMNS + i] == (result ? ((const float *)before->sums)[m * COLUMNS + i] : -1));
    }
}

/* What the panel has behind the last piece's groups. */
static void clear_rest(const falt_tiles_product *call) {
  const int64_t tiles = call->columns > ROWS ? 2 : 1;
  for (int64_t s = call->whole; s < call->segments; s++)
    for (int64_t i = 0; i < tiles * ROWS; i++)
      for (int64_t g = call->groups; g < 16; g++) {
        char *tile = panel + (((s + 1) * call->pieces - 1) * tiles + i / ROWS) * TILE;
        memset(tile + (call->transposed ? i % ROWS * 64 + g * 4 : g * 64 + i % ROWS * 4), 0, 4);
      }
}

static void check_product(const falt_tiles_kernels *kernels, falt_tiles_kind kind) {
  static _Alignas(64) float others[SUMS], out[SUMS];
  falt_tile_rows a[2 * SEGMENTS];
  int64_t at[FALT_TILES_ROWS];
  for (int m = 0; m < FALT_TILES_ROWS; m++) at[m] = m * COLUMNS;
  for (int i = 0; i < SUMS; i++) {
    others[i] = (float)pick(0, 1000);
    out[i] = -1;
  }
  const falt_tiles_finish before = {.sums = others,
                                    .plain = true,
                                    .type = FALT_F32,
                                    .out = out,
                                    .at = at,
                                    .rows = {pick(1, ROWS), pick(0, ROWS)},
                                    .n = pick(1, COLUMNS)};
  falt_tiles_flow flow = {.sums = sums, .count = 1, .finish = {before}};
  const bool transposed = pick(0, 1), zipped = !transposed && kernels->together == 1 && pick(0, 1);
  for (int s = 0; s < 2 * SEGMENTS; s++)
    a[s] = (falt_tile_rows){rows + s * ROWS * STEP,
                            transposed ? 64
                            : zipped   ? 4
                                       : STEP,
                            transposed || zipped ? TILE : FALT_TILE_BYTES};
  const falt_tiles_product call = {.kind = kind,
                                   .transposed = transposed,
                                   .a = a,
                                   .b = panel,
                                   .panels = 1,
                                   .segments = pick(1, SEGMENTS),
                                   .pieces = pick(1, PIECES),
                                   .groups = pick(1, 16),
                                   .whole = pick(0, 2),
                                   .tiles = pick(1, 2),
                                   .rows = transposed ? ROWS : pick(1, ROWS),
                                   .distance = zipped ? 64 : 4,
                                   .columns = pick(1, COLUMNS),
                                   .near = pick(0, 1)};
  fill_typed(rows, sizeof rows, transposed ? right[kind] : left[kind]);
  fill_typed(panel, sizeof panel, transposed ? left[kind] : right[kind]);
  clear_rest(&call);
  kernels->open(call.rows);
  kernels->product(&call, &flow);
  kernels->close();
  for (int tile = 0; tile < call.tiles; tile++)
    for (int m = 0; m < call.rows; m++) expect_sums(&call, tile * ROWS + m);
  check_before(&before, out);
}

static void check_products(const falt_tiles_kernels *kernels) {
  for (int round = 0; round < ROUNDS; round++) check_product(kernels, (falt_tiles_kind)(round % FALT_TILES_KIND_COUNT));
}

/* ---- rows in */

static void check_spread(const falt_tiles_kernels *kernels) {
  enum { PITCH = 5 * 64 };
  static char lines[ROWS * PITCH];
  fill_typed(rows, sizeof rows, FALT_U8);
  const int64_t parts = pick(1, 4);
  const falt_tiles_spread call = {.from = rows + pick(0, 100),
                                  .to = lines,
                                  .step = pick(1, 90),
                                  .pitch = PITCH,
                                  .bytes = pick(1, 4 * 64 / (int)parts),
                                  .count = pick(1, ROWS),
                                  .parts = parts,
                                  .apart = pick(0, 90)};
  const int64_t all = parts * call.bytes;
  memset(lines, 1, sizeof lines);
  kernels->spread(&call);
  for (int64_t m = 0; m < call.count; m++)
    for (int64_t i = 0; i < PITCH; i++) {
      const char *from = call.from + m * call.step + i / call.bytes * call.apart + i % call.bytes;
      const char zero = i < (all + 63) / 64 * 64 ? 0 : 1;
      assert_int_equal(lines[m * PITCH + i], i < all ? *from : zero);
    }
}

/* Both halves together are the number, and none of them is lost; all 65536 of them. */
static void check_split(const falt_tiles_kernels *kernels) {
  static uint16_t from[1 << 16], to[1 << 17];
  for (int i = 0; i < 1 << 16; i++) from[i] = (uint16_t)i;
  kernels->upconvert(&(falt_tiles_upconvert){from, FALT_F16, true, to, 1, 1 << 16});
  for (int i = 0; i < 1 << 16; i++) {
    const double x = falt_load(from, FALT_F16, i), high = falt_load(to, FALT_BF16, 2 * i);
    const double low = falt_load(to, FALT_BF16, 2 * i + 1);
    assert_true(isnan(x) ? isnan(high + low) : high + low == x);
  }
}

/* Rows in pairs and transposed, where each element is known by its row and place. */
static void check_squares(const falt_tiles_kernels *kernels) {
  enum { LONG = 32, PITCH = 3 * 64 };
  static uint16_t from[LONG * LONG], tiles[2 * TILE / 2], transposed[LONG * PITCH / 2], crossed[2 * TILE / 2];
  const void *list[LONG];
  const int n = pick(1, LONG);
  for (int m = 0; m < LONG; m++) {
    list[m] = from + (LONG - 1 - m) * LONG;
    for (int i = 0; i < LONG; i++) from[(LONG - 1 - m) * LONG + i] = (uint16_t)(m * LONG + i);
  }
  memset(transposed, 1, sizeof transposed);
  kernels->pair(&(falt_tiles_square){list, (char *)tiles, 0, n});
  kernels->transpose_rows(&(falt_tiles_square){list, (char *)transposed, PITCH, n});
  kernels->cross(&(falt_tiles_square){list, (char *)crossed, 0, n});
  for (int i = 0; i < (n + 15) / 16 * 16; i++)
    for (int m = 0; m < LONG; m++)
      assert_int_equal(tiles[i / 16 * 512 + m / 2 * 32 + i % 16 * 2 + m % 2], i < n ? m * LONG + i : 0);
  for (int i = 0; i < (n + 15) / 16 * 16; i++)
    for (int m = 0; m < LONG; m++)
      assert_int_equal(crossed[i / 16 * 512 + m / 2 * 32 + i % 16 * 2 + m % 2], i < n ? i * LONG + m : 0);
  for (int i = 0; i < LONG; i++)
    for (int m = 0; m < PITCH / 2; m++)
      assert_int_equal(transposed[i * PITCH / 2 + m], i < n && m < LONG ? m * LONG + i : 0x101);
}

/* Pairs of rows, 1 or 2 apart, without the elements that are not kept, which are not read: they are beyond a page
 * without access, or before the operand. */
static void check_kept(const falt_tiles_kernels *kernels) {
  enum { LONG = 32, MASKS = 3 };
  static uint16_t tiles[2 * TILE / 2];
  guarded pages = guard(1, 1);
  const int n = pick(1, LONG), apart = pick(1, 2), elements = (n - 1) * apart + 1;
  uint16_t *from = (uint16_t *)(void *)before_guard(&pages, 0, (size_t)elements * 2);
  int64_t offset[LONG];
  int32_t mask[LONG];
  uint32_t keep[MASKS] = {0};
  for (int i = 0; i < elements; i++) from[i] = (uint16_t)(i + 1);
  for (int m = 0; m < MASKS; m++)
    for (int i = 0; i < n; i++) keep[m] |= (uint32_t)(i * apart + m < elements && pick(0, 3) > 0) << i;
  for (int m = 0; m < LONG; m++) offset[m] = mask[m] = (int32_t)pick(0, MASKS - 1);
  kernels->pair_kept(&(falt_tiles_kept){from, offset, mask, keep, (char *)tiles, n, apart});
  for (int i = 0; i < (n + 15) / 16 * 16; i++)
    for (int m = 0; m < LONG; m++)
      assert_int_equal(tiles[i / 16 * 512 + m / 2 * 32 + i % 16 * 2 + m % 2],
                       i < n && keep[mask[m]] >> i & 1 ? i * apart + offset[m] + 1 : 0);
  unguard(&pages);
}

/* Groups of four bytes or two halves, and nothing beyond them. */
static void check_zip(const falt_tiles_kernels *kernels) {
  enum { LONG = 200 };
  static char from[4][2 * LONG], to[4 * LONG + 1];
  falt_tiles_zip call = {.to = to, .n = pick(0, LONG), .bytes = pick(0, 1)};
  const int size = call.bytes ? 1 : 2, count = 4 / size;
  for (int j = 0; j < 4; j++) fill_typed(from[j], sizeof from[j], FALT_U8);
  for (int j = 0; j < count; j++) call.rows[j] = from[j];
  memset(to, 1, sizeof to);
  kernels->zip(&call);
  for (int64_t i = 0; i < call.n; i++)
    for (int j = 0; j < count; j++) assert_memory_equal(to + 4 * i + j * size, from[j] + i * size, size);
  for (int64_t i = 4 * call.n; i < (int64_t)sizeof to; i++) assert_int_equal(to[i], 1);
}

/* ---- the filter's columns: against the portable kernels, and these against what their head says */

static void check_transpose(const falt_tiles_kernels *kernels) {
  enum { LONG = 300 };
  static char from[ROWS][LONG], to[5 * TILE], portable[5 * TILE];
  const char *list[ROWS];
  for (int k = 0; k < ROWS; k++) {
    fill_typed(from[k], sizeof from[k], FALT_U8);
    list[k] = from[k] + pick(0, 3);
  }
  falt_tiles_transpose call = {list, to, pick(1, LONG - 4), pick(1, ROWS)};
  memset(to, 1, sizeof to);
  memset(portable, 1, sizeof portable);
  kernels->transpose(&call);
  call.to = portable;
  falt_tiles_kernels_for(FALT_ISA_PORTABLE)->transpose(&call);
  assert_memory_equal(to, portable, sizeof to);
  for (int64_t i = 0; i < (call.bytes + 63) / 64 * 64; i++)
    for (int k = 0; k < ROWS; k++)
      assert_int_equal(to[i / 4 * 64 + 4 * k + i % 4], k < call.n && i < call.bytes ? list[k][i] : 0);
}

static void check_slots(const falt_tiles_kernels *kernels, bool joined) {
  static char from[8 * TILE], to[2 * TILE], portable[2 * TILE];
  const int width = 1 << pick(0, 2), each = 4 / width;
  falt_tiles_slots call = {.from = from,
                           .to = to,
                           .step = joined ? pick(0, 90) : 4 * pick(0, 5),
                           .width = width,
                           .groups = pick(1, 16),
                           .n = joined ? pick(1, COLUMNS) : ROWS,
                           .present = (unsigned)pick(1, (1 << each) - 1)};
  for (int j = 0; j < each; j++) call.at[j] = joined ? pick(0, 2 * TILE) : pick(0, 30) * width;
  fill_typed(from, sizeof from, FALT_U8);
  memset(to, 1, sizeof to);
  memset(portable, 1, sizeof portable);
  const falt_tiles_kernels *plain = falt_tiles_kernels_for(FALT_ISA_PORTABLE);
  (joined ? kernels->join : kernels->collect)(&call);
  call.to = portable;
  (joined ? plain->join : plain->collect)(&call);
  assert_memory_equal(to, portable, sizeof to);
  for (int g = 0; g < call.groups; g++)
    for (int k = 0; k < (call.n + 15) / 16 * 16; k++)
      for (int b = 0; b < 4; b++) {
        const int64_t at = call.at[b / width] + g * call.step;
        const char *x = from + (joined ? at + k * width : at / 4 * 64 + 4 * k + at % 4) + b % width;
        const bool is_there = (call.present >> b / width & 1) && k < call.n;
        assert_int_equal(to[k / 16 * TILE + g * 64 + k % 16 * 4 + b], is_there ? *x : 0);
      }
}

static void check_flip_and_gather(const falt_tiles_kernels *kernels) {
  static uint32_t tile[16][16];
  static uint16_t from[32 * FALT_TILES_MOST_STEP], to[COLUMNS + 1];
  for (int i = 0; i < TILE / 4; i++) tile[i / 16][i % 16] = (uint32_t)i;
  kernels->flip((char *)tile);
  for (int i = 0; i < TILE / 4; i++) assert_int_equal(tile[i % 16][i / 16], i);
  for (int i = 0; i < 32 * FALT_TILES_MOST_STEP; i++) from[i] = (uint16_t)i;
  const int n = pick(1, COLUMNS), step = pick(1, FALT_TILES_MOST_STEP);
  memset(to, 1, sizeof to);
  kernels->gather((const char *)from, step, n, (char *)to);
  for (int i = 0; i <= COLUMNS; i++) assert_int_equal(to[i], i < n ? i * step : 0x101);
}

/* Elements of two rows, whose last one is the last that may be read. */
static void check_taps(const falt_tiles_kernels *kernels) {
  enum { ROW = COLUMNS * 30, TAPS = FALT_TILES_MOST_TAPS };
  static uint16_t from[2][ROW];
  static char to[TAPS][2 * TILE];
  const int apart = pick(1, 29), one = pick(0, 3); /* 0, 1: that row is missing */
  falt_tiles_taps call = {.apart = 2 * apart, .n = pick(1, COLUMNS), .span = pick(1, TAPS), .count = pick(1, TAPS)};
  for (int i = 0; i < ROW; i++) from[0][i] = (uint16_t)i, from[1][i] = (uint16_t)(ROW + i);
  for (int j = 0; j < 2; j++)
    call.rows[j] = j == one ? NULL : (char *)(from[j] + ROW - (call.n - 1) * apart - call.span);
  for (int i = 0; i < call.count; i++) {
    call.at[i] = pick(0, call.span - 1);
    call.to[i] = to[i];
  }
  memset(to, 1, sizeof to);
  kernels->taps(&call);
  for (int i = 0; i < TAPS; i++)
    for (int k = 0; k < COLUMNS; k++)
      for (int j = 0; j < 2; j++) {
        const bool written = i < call.count && k < (call.n + 15) / 16 * 16, there = k < call.n && j != one;
        uint16_t found, wanted = 0x101;
        memcpy(&found, to[i] + k / 16 * TILE + k % 16 * 4 + 2 * j, 2);
        if (written) wanted = 0;
        if (written && there) memcpy(&wanted, call.rows[j] + 2 * (k * apart + call.at[i]), 2);
        assert_int_equal(found, wanted);
      }
}

/* ---- sums out */

static void check_finish(const falt_tiles_kernels *kernels) {
  static const falt_type types[] = {FALT_U8, FALT_S8, FALT_F16, FALT_BF16, FALT_F32};
  static char out[4 * SUMS], portable[4 * SUMS], residual[4 * SUMS];
  float scale[COLUMNS], offset[COLUMNS];
  int64_t at[FALT_TILES_ROWS];
  const bool whole = pick(0, 1), plain = pick(0, 1);
  for (int i = 0; i < SUMS; i++)
    if (whole)
      ((int32_t *)(void *)sums)[i] = pick(-100000, 100000);
    else
      sums[i] = (float)pick(-1000, 1000) / 8;
  for (int i = 0; i < COLUMNS; i++) scale[i] = (float)pick(-8, 8) / 64;
  for (int i = 0; i < COLUMNS; i++) offset[i] = (float)pick(-64, 64) / 4;
  for (int m = 0; m < FALT_TILES_ROWS; m++) at[m] = (31 - m) * COLUMNS;
  const falt_type other = types[pick(0, 4)];
  for (int i = 0; i < SUMS; i++) falt_store(residual, other, i, pick(0, 100));
  falt_tiles_finish call = {.sums = sums,
                            .whole = whole,
                            .plain = plain,
                            .type = types[pick(0, 4)],
                            .out = out,
                            .at = at,
                            .residual_type = other,
                            .residual = pick(0, 1) && !plain ? residual : NULL,
                            .residual_at = at,
                            .scale = scale,
                            .offset = offset,
                            .by_row = pick(0, 1),
                            .rows = {pick(1, ROWS), pick(0, ROWS)},
                            .n = pick(1, COLUMNS),
                            .low = pick(0, 1) ? 0 : -INFINITY,
                            .high = pick(0, 1) ? 6 : INFINITY};
  memset(out, 1, sizeof out);
  memset(portable, 1, sizeof portable);
  kernels->finish(&call);
  call.out = portable;
  falt_tiles_kernels_for(FALT_ISA_PORTABLE)->finish(&call);
  assert_memory_equal(out, portable, sizeof out);
}

static void check_moves(const falt_tiles_kernels *kernels) {
  for (int round = 0; round < ROUNDS; round++) {
    check_spread(kernels);
    check_squares(kernels);
    check_kept(kernels);
    check_zip(kernels);
    check_transpose(kernels);
    check_slots(kernels, round % 2);
    check_flip_and_gather(kernels);
    check_taps(kernels);
    check_finish(kernels);
  }
  check_split(kernels);
}

/* ---- timing */

static void time_product(const falt_tiles_kernels *kernels, falt_tiles_kind kind) {
  falt_tile_rows a[2] = {{rows, STEP, FALT_TILE_BYTES}, {rows + ROWS * STEP, STEP, FALT_TILE_BYTES}};
  const falt_tiles_product call = {.kind = kind,
                                   .a = a,
                                   .b = panel,
                                   .panels = 1,
                                   .segments = 1,
                                   .pieces = PIECES,
                                   .groups = 16,
                                   .tiles = 2,
                                   .rows = ROWS,
                                   .distance = 4,
                                   .columns = COLUMNS,
                                   .near = true};
  static const int each[FALT_TILES_KIND_COUNT] = {4, 4, 4, 2, 1};
  falt_tiles_flow flow = {.sums = sums};
  double best = INFINITY;
  fill_typed(rows, sizeof rows, left[kind]);
  fill_typed(panel, sizeof panel, right[kind]);
  kernels->open(ROWS);
  for (int repeat = 0; repeat < 50; repeat++) {
    const double start = falt_seconds();
    for (int i = 0; i < 100; i++) kernels->product(&call, &flow);
    best = fmin(best, (falt_seconds() - start) / 100);
  }
  kernels->close();
  printf(" %8.1f", 2.0 * FALT_TILES_ROWS * COLUMNS * PIECES * 16 * each[kind] / best * 1e-9);
}

static void bench(const falt_tiles_kernels *kernels, falt_isa isa) {
  printf("%-9s", falt_isa_name(isa));
  for (int kind = 0; kind < FALT_TILES_KIND_COUNT; kind++) time_product(kernels, (falt_tiles_kind)kind);
  printf(" GFLOP/s (u8 s8u8 s8 bf16 f32)\n");
}

/* ---- tests */

static const falt_tiles_kernels *table_of(int isa) {
  const falt_tiles_kernels *kernels = falt_tiles_kernels_for((falt_isa)isa);
  const bool own = isa == 0 || kernels != falt_tiles_kernels_for((falt_isa)(isa - 1));
  return own && falt_isa_runs((falt_isa)isa) ? kernels : NULL;
}

static void each_table(void (*check)(const falt_tiles_kernels *)) {
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check(table_of(isa));
}

static void test_products(void **state) {
  (void)state;
  each_table(check_products);
}
static void test_moves(void **state) {
  (void)state;
  each_table(check_moves);
}

int main(void) {
  set_seed(20261121);
  for (int isa = 0; isa < FALT_ISA_COUNT && getenv("FALT_BENCH"); isa++)
    if (table_of(isa)) bench(table_of(isa), (falt_isa)isa);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_moves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
