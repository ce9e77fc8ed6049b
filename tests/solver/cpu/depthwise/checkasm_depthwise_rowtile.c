/* Every block kernel of every instruction set that this machine runs, against a plain sum in f64, and timed.
 *
 * Lines end at a page that cannot be read; what lies between results keeps its canary. FALT_SEED chooses another seed;
 * FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"

enum {
  ROWS = FALT_BLOCK_ROWS,
  MOST_TAPS = FALT_BLOCK_TAPS,
  TAPS = 3, /* of a gradient */
  LINES = FALT_BLOCK_LINES,
  PIXEL = 80, /* elements between columns: whole lines of f32, so that results can bypass the caches */
  MOST = 24,  /* positions */
  COLUMNS = 2 * MOST + MOST_TAPS,
  ROUNDS = 400
};
static const falt_type types[] = {FALT_F32, FALT_F16, FALT_BF16, FALT_U8, FALT_S8};
enum { TYPES = sizeof types / sizeof *types };

typedef struct trial {
  const falt_block_kernels *kernels;
  falt_block block;
  falt_block_finish finish;
  float scale[PIXEL], offset[PIXEL];
  _Alignas(64) float weights[PIXEL * MOST_TAPS * MOST_TAPS];
  _Alignas(64) float results[ROWS][MOST * PIXEL];
} trial;

/* A random block of a type and number of taps, of at least `least` positions. */
static void set_trial(trial *t, falt_type type, int taps, int least) {
  static char *ends[LINES];
  const int width = t->kernels->width, stride = taps == 3 ? pick(1, 2) : 1, positions = pick(least, MOST);
  const int channels = pick(0, 1) ? pick(width, PIXEL) : PIXEL / width * width;
  const falt_type result_types[] = {type, type, pick(0, 1) ? FALT_S32 : types[pick(0, TYPES - 1)]};
  falt_block *b = &t->block;
  *b = (falt_block){.type = type,
                    .result_type = result_types[pick(0, 2)],
                    .taps = taps,
                    .stride = stride,
                    .pixel = PIXEL,
                    .before = pick(-1, taps / 2),
                    .positions = positions,
                    .channels = channels,
                    .weights = t->weights,
                    .rows = pick(1, falt_block_rows(taps)),
                    .out_pixel = PIXEL,
                    .finish = pick(0, 1) ? &t->finish : NULL};
  b->width = (positions - 1) * stride - b->before + taps - pick(0, taps / 2);
  b->vectors = (channels + width - 1) / width;
  b->vector = pick(0, (int)b->vectors - 1);
  b->stream = b->result_type == FALT_F32 && width * sizeof(float) == 64 && channels % width == 0 && pick(0, 1);
  const int64_t elements = (b->width - 1) * PIXEL + channels, size = (int64_t)falt_type_size(type);
  for (int i = 0; i < LINES; i++) {
    if (!ends[i]) ends[i] = guarded_end(COLUMNS * PIXEL * sizeof(float));
    char *line = ends[i] - elements * size;
    for (int64_t e = 0; e < elements; e++)
      falt_store(line, type, e, falt_type_is_integer(type) ? pick(-128, 255) : random_number());
    b->lines[i] = pick(0, 5) ? line : NULL;
  }
  t->finish = (falt_block_finish){.scale = t->scale,
                                  .offset = t->offset,
                                  .curve = pick(0, 2) ? FALT_IDENTITY : FALT_LEAKY,
                                  .slope = 0.5F,
                                  .low = pick(0, 1) ? 0 : -INFINITY,
                                  .high = pick(0, 1) ? 2 : INFINITY};
  fill(t->scale, PIXEL);
  fill(t->offset, PIXEL);
  fill(t->weights, (int64_t)PIXEL * MOST_TAPS * MOST_TAPS);
  for (int r = 0; r < ROWS; r++) {
    b->out[r] = t->results[r];
    memset(t->results[r], 0x55, sizeof t->results[r]);
  }
}

/* The last vector that has a channel is the one that writes it last. */
static double weight_of(const trial *t, int64_t channel, int tap) {
  const falt_block *b = &t->block;
  const int width = t->kernels->width;
  const int64_t last = b->vectors - 1, begin = falt_block_channel(last, width, b->channels);
  const int64_t vector = channel >= begin ? last : channel / width;
  const int64_t lane = channel - falt_block_channel(vector, width, b->channels);
  return (double)t->weights[(vector * b->taps * b->taps + tap) * width + lane];
}

static double expected(const trial *t, int r, int64_t q, int64_t channel) {
  const falt_block *b = &t->block;
  const falt_block_finish *f = b->finish;
  double sum = 0;
  for (int i = 0; i < b->taps; i++)
    for (int s = 0; s < b->taps; s++) {
      const void *line = b->lines[r * b->stride + i];
      const int64_t c = q * b->stride + s - b->before;
      if (line && c >= 0 && c < b->width)
        sum += weight_of(t, channel, i * b->taps + s) * falt_load(line, b->type, c * PIXEL + channel);
    }
  if (!f) return sum;
  sum = (double)f->scale[channel] * sum + (double)f->offset[channel];
  if (f->curve == FALT_LEAKY && sum < 0) sum *= (double)f->slope;
  return fmin(fmax(sum, (double)f->low), (double)f->high);
}

/* Within what rounding to the type leaves, or one where a sum is near the middle between two integers. */
static bool agrees(const trial *t, double got, double want) {
  const falt_type type = t->block.result_type;
  if (falt_type_is_integer(type)) return fabs(got - fmin(fmax(want, falt_type_min(type)), falt_type_max(type))) <= 0.51;
  const double terms = falt_type_is_integer(t->block.type) ? 0x1p-7 : 0x1p-16; /* may cancel one another */
  return fabs(got - want) <= terms + fabs(want) * (falt_type_epsilon(type) + 0x1p-20);
}

static void check(const falt_block_kernels *kernels) {
  static trial t;
  t.kernels = kernels;
  for (int round = 0; round < ROUNDS; round++) {
    const falt_type type = types[pick(0, TYPES - 1)];
    const int taps = 2 * pick(1, 3) + 1;
    if (!falt_block_has(type, taps)) continue;
    set_trial(&t, type, taps, kernels->positions);
    const falt_block *b = &t.block;
    const int64_t size = (int64_t)falt_type_size(b->result_type);
    const int64_t first = falt_block_channel(b->vector, kernels->width, b->channels);
    kernels->sums(b);
    for (int r = 0; r < ROWS; r++)
      for (int64_t e = 0; e < (int64_t)(sizeof t.results[r]) / size; e++) {
        const int64_t q = e / PIXEL, channel = e % PIXEL;
        const bool result = r < b->rows && q < b->positions && channel >= first && channel < b->channels;
        static const char canary[] = {0x55, 0x55, 0x55, 0x55};
        if (result)
          assert_true(agrees(&t, falt_load(t.results[r], b->result_type, e), expected(&t, r, q, channel)));
        else
          assert_memory_equal((char *)t.results[r] + e * size, canary, (size_t)size);
      }
  }
}

/* ---- gradient */

enum { SUMS = FALT_BLOCK_SUMS, ALL_SUMS = PIXEL * SUMS };

/* What tap i, s of a channel gathers; the last one gathers dy alone. */
static double gathered(const trial *t, const falt_block_gradient *g, int64_t channel, int tap) {
  const falt_block *b = &t->block;
  double sum = 0;
  for (int r = 0; r < b->rows; r++)
    for (int64_t q = 0; q < b->positions; q++) {
      const double by = falt_load(g->by[r], b->type, q * PIXEL + channel);
      const void *line = tap < TAPS * TAPS ? b->lines[r * b->stride + tap / TAPS] : NULL;
      const int64_t c = q * b->stride + tap % TAPS - b->before;
      if (tap == TAPS * TAPS)
        sum += by;
      else if (line && c >= 0 && c < b->width)
        sum += by * falt_load(line, b->type, c * PIXEL + channel);
    }
  return sum;
}

static void check_gradients(const falt_block_kernels *kernels) {
  static trial t;
  static char by[ROWS][MOST * PIXEL * sizeof(float)];
  static _Alignas(64) float sums[ALL_SUMS], before[ALL_SUMS];
  const int width = kernels->width;
  t.kernels = kernels;
  for (int round = 0; round < ROUNDS; round++) {
    set_trial(&t, types[pick(0, 2)], TAPS, 1);
    const falt_block *b = &t.block;
    falt_block_gradient g = {.block = *b, .by_pixel = PIXEL, .adds_by = pick(0, 1), .sums = sums};
    for (int r = 0; r < ROWS; r++) {
      g.by[r] = by[r];
      for (int64_t e = 0; e < MOST * PIXEL; e++) falt_store(by[r], b->type, e, random_number());
    }
    fill(sums, ALL_SUMS);
    memcpy(before, sums, sizeof before);
    kernels->gradient(&g);
    for (int64_t i = 0; i < (b->vectors * SUMS) * width; i++) {
      const int64_t vector = i / (SUMS * width), tap = i / width % SUMS;
      const int64_t channel = falt_block_channel(vector, width, b->channels) + i % width;
      const bool adds = vector >= b->vector && (tap < SUMS - 1 || g.adds_by);
      const double want = (double)before[i] + (adds ? gathered(&t, &g, channel, (int)tap) : 0);
      assert_true(adds ? fabs((double)sums[i] - want) < 0x1p-16 : sums[i] == before[i]);
    }
  }
}

/* ---- timing */

static void time_blocks(const falt_block_kernels *kernels, falt_type type, int taps, int stride, bool gathers) {
  enum { PLACES = 56, DEEP = 64 };
  static _Alignas(64) float lines[LINES][2 * PLACES * DEEP], out[ROWS][PLACES * DEEP],
      weights[DEEP * MOST_TAPS * MOST_TAPS];
  memset(lines, 0, sizeof lines);
  falt_block block = {.type = type,
                      .result_type = type,
                      .taps = taps,
                      .stride = stride,
                      .pixel = DEEP,
                      .width = (int64_t)PLACES * stride,
                      .before = taps / 2,
                      .positions = PLACES,
                      .channels = DEEP,
                      .vectors = DEEP / kernels->width,
                      .weights = weights,
                      .rows = falt_block_rows(taps),
                      .out_pixel = DEEP};
  for (int i = 0; i < LINES; i++) block.lines[i] = lines[i];
  for (int r = 0; r < ROWS; r++) block.out[r] = out[r];
  static float sums[DEEP * SUMS];
  falt_block_gradient gradient = {.block = block, .by_pixel = DEEP, .sums = sums};
  for (int r = 0; r < ROWS; r++) gradient.by[r] = out[r];
  double best = INFINITY;
  for (int repeat = 0; repeat < 50; repeat++) {
    const double start = falt_seconds();
    for (int i = 0; i < 20; i++) gathers ? kernels->gradient(&gradient) : kernels->sums(&block);
    best = fmin(best, (falt_seconds() - start) / 20);
  }
  printf(" %6.1f", 2.0 * block.rows * PLACES * DEEP * taps * taps * 1e-9 / best);
}

static const falt_block_kernels *table_of(int isa) {
  const falt_block_kernels *kernels = falt_block_kernels_for((falt_isa)isa);
  const bool own = isa == 0 || kernels != falt_block_kernels_for((falt_isa)(isa - 1));
  return own && falt_isa_runs((falt_isa)isa) ? kernels : NULL;
}

static void test_sums(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check(table_of(isa));
}

static void test_gradient(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(isa)) check_gradients(table_of(isa));
}

int main(void) {
  set_seed(20261122);
  for (int isa = 0; isa < FALT_ISA_COUNT && getenv("FALT_BENCH"); isa++) {
    if (!table_of(isa)) continue;
    printf("%-9s", falt_isa_name((falt_isa)isa));
    for (int i = 0; i < TYPES; i++)
      for (int stride = 1; stride <= 2; stride++) time_blocks(table_of(isa), types[i], 3, stride, false);
    printf(", 5x5 and 7x7 of f32");
    for (int taps = 5; taps <= MOST_TAPS; taps += 2) time_blocks(table_of(isa), FALT_F32, taps, 1, false);
    printf(", gradient");
    for (int i = 0; i < 3; i++)
      for (int stride = 1; stride <= 2; stride++) time_blocks(table_of(isa), types[i], 3, stride, true);
    printf(" GFLOP/s (f32 f16 bf16 u8 s8, each with stride 1 and 2)\n");
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
