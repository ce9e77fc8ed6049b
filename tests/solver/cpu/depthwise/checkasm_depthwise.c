/* Every depthwise kernel of every instruction set that this machine runs, against what
 * solver/cpu/depthwise/depthwise_kernels.h says, and timed.
 *
 * Sums are checked against a plain sum in f64, and their bits against calls of one position each. The source, of f32 or
 * of words of narrower elements, ends at a page that cannot be read; what lies between results keeps its canary.
 * FALT_SEED chooses another seed; FALT_BENCH=1 prints the speed of each instruction set. */
#include "checkasm.h"
#include "solver/cpu/depthwise/depthwise_kernels.h"

enum {
  SEGMENTS = 4,
  TAPS = FALT_DEPTHWISE_TAPS,
  POSITIONS = 40,
  CHANNELS = 70,
  PIXEL = 80,                        /* floats between pixels: whole lines, so that results can bypass the caches */
  PIXELS = 3 * POSITIONS + 3 * TAPS, /* of the source */
  DEPTH = 20,                        /* of a group */
  WEIGHTS = SEGMENTS * TAPS * DEPTH, /* of a channel */
  VECTORS = CHANNELS + 1,            /* where groups leave most of their vectors empty */
  WIDEST = FALT_DEPTHWISE_WIDEST,
  ROUNDS = 300
};
static const char canary[] = {0x55, 0x55, 0x55, 0x55};

/* What kernels multiply. */
typedef struct words {
  falt_tiles_kind kind;
  falt_type source, weight;
  int elements; /* of a word */
} words;
static const words all_words[] = {{FALT_TILES_F32, FALT_F32, FALT_F32, 1},
                                  {FALT_TILES_BF16, FALT_BF16, FALT_BF16, 2},
                                  {FALT_TILES_U8, FALT_U8, FALT_S8, 4}};
enum { KINDS = sizeof all_words / sizeof all_words[0] };

static void fill_words(float *to, int64_t n, const words *of, falt_type type) {
  for (int64_t i = 0; i < n * of->elements; i++)
    falt_store(to, type, i,
               falt_type_is_integer(type) ? pick((int)falt_type_min(type), (int)falt_type_max(type)) : random_number());
}

/* ---- calls */

typedef struct trial {
  const falt_depthwise_kernels *kernels;
  const words *words;
  falt_depthwise_call call;
  falt_depthwise_finish finish;
  falt_depthwise_unit unit;
  int64_t group, depth; /* results and sources of a group */
  falt_depthwise_segment segments[SEGMENTS];
  int64_t tables[SEGMENTS][TAPS * POSITIONS];
  const float *source; /* ends with the last channel of the last pixel */
  float by[POSITIONS * PIXEL], residual[POSITIONS * PIXEL], scale[CHANNELS], offset[CHANNELS];
  _Alignas(64) float results[POSITIONS * PIXEL], weights[VECTORS * WEIGHTS * WIDEST], sums[VECTORS * WEIGHTS * WIDEST];
} trial;

static void set_table(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  for (int64_t i = 0; i < positions * s->taps; i++)
    t->tables[index][i] = pick(0, 3) ? (int64_t)pick(0, PIXELS - 1) * PIXEL : FALT_DEPTHWISE_NONE;
  s->at = t->tables[index];
  s->row = t->source;
}

static void set_segment(trial *t, int index, int64_t positions) {
  falt_depthwise_segment *s = &t->segments[index];
  const int64_t step = pick(1, 3), width = t->kernels->width;
  const bool down = pick(0, 1);
  *s = (falt_depthwise_segment){.taps = falt_depthwise_taps(t->unit.reads, pick(1, TAPS)),
                                .near = pick(0, 1),
                                .step = step * PIXEL,
                                .begin = pick(0, 1) ? 0 : pick(0, 5),
                                .depth = pick(0, 3) ? t->depth : 1};
  s->end = positions + s->taps - 1 - (pick(0, 1) ? 0 : pick(0, 5));
  s->tap_step = (s->near ? step : pick(0, 3)) * PIXEL;
  s->weight = (index * TAPS + (down ? s->taps - 1 : 0)) * DEPTH * width;
  s->weight_step = (down ? -DEPTH : DEPTH) * width;
  s->row = t->source + pick(0, 2) * PIXEL;
  if (!s->near && pick(0, 1)) set_table(t, index, positions);
}

/* Groups, and how many result channels there are of them. */
static int64_t set_unit(trial *t) {
  const int width = t->kernels->width, reads = pick(FALT_READS_EACH, FALT_READS_ALL);
  t->unit = (falt_depthwise_unit){.reads = (falt_depthwise_reads)reads};
  t->group = reads == FALT_READS_EACH ? 1 : pick(1, reads == FALT_READS_PICK ? width / 2 : 40);
  t->depth = reads == FALT_READS_EACH ? 1 : pick(1, reads == FALT_READS_PICK ? width / 2 : DEPTH);
  const int64_t larger = t->group > t->depth ? t->group : t->depth;
  const int64_t joined = reads == FALT_READS_ALL ? 1 : width / larger;
  t->unit.results = joined * t->group;
  t->unit.sources = joined * t->depth;
  for (int64_t i = 0; i < t->unit.results && reads == FALT_READS_PICK; i++)
    t->unit.pick[i] = (int32_t)(i / t->group * t->depth);
  return pick(1, (int)(CHANNELS / larger)) * t->group;
}

static falt_type result_type(const trial *t) {
  static const falt_type types[] = {FALT_F32, FALT_U8, FALT_S8, FALT_F16, FALT_BF16, FALT_S32};
  return t->words->kind == FALT_TILES_F32 ? FALT_F32 : types[pick(0, 5)];
}

static void set_call(trial *t) {
  const int64_t n = set_unit(t), positions = pick(1, POSITIONS);
  static float *source;
  if (!source) source = guarded_floats((int64_t)PIXELS * PIXEL);
  fill_words(source, (int64_t)PIXELS * PIXEL, t->words, t->words->source);
  t->source = source + PIXEL - n / t->group * t->depth;
  if (t->words->elements > 1 && pick(0, 1)) /* not aligned to words */
    t->source = (const float *)(const void *)((const char *)t->source - falt_type_size(t->words->source));
  t->call = (falt_depthwise_call){.segments = t->segments,
                                  .count = pick(1, SEGMENTS),
                                  .unit = &t->unit,
                                  .weights = t->weights,
                                  .weights_pitch = (int64_t)WEIGHTS * t->kernels->width,
                                  .positions = positions,
                                  .n = n,
                                  .type = result_type(t),
                                  .out = t->results,
                                  .out_step = PIXEL,
                                  .stream = pick(0, 1) && t->unit.results % WIDEST == 0,
                                  .ahead = {source},
                                  .ahead_count = pick(0, 1),
                                  .ahead_step = PIXEL};
  for (int i = 0; i < t->call.count; i++) set_segment(t, i, positions);
  fill_words(t->weights, sizeof t->weights / sizeof(float), t->words, t->words->weight);
}

/* What tap s of position q reads as source j of result i; NULL where it reads nothing. */
static const float *reads(const trial *t, const falt_depthwise_segment *s, int64_t q, int tap, int64_t i, int64_t j) {
  int64_t at = q * s->step + tap * s->tap_step;
  if (s->at) at = s->at[tap * t->call.positions + q];
  if (s->at && at == FALT_DEPTHWISE_NONE) return NULL;
  if (s->near && (q + tap < s->begin || q + tap >= s->end)) return NULL;
  return s->row + at + i / t->group * t->depth + j;
}

static double product(const words *of, const float *source, const float *weight) {
  double sum = 0;
  for (int e = 0; e < of->elements && source; e++)
    sum += falt_load(source, of->source, e) * falt_load(weight, of->weight, e);
  return sum;
}

static int64_t weight_at(const trial *t, const falt_depthwise_segment *s, int tap, int64_t i, int64_t j) {
  const int64_t width = t->kernels->width, vectors = (t->unit.results + width - 1) / width;
  const int64_t within = i % t->unit.results, vector = i / t->unit.results * vectors + within / width;
  return vector * t->call.weights_pitch + s->weight + tap * s->weight_step + j * width + within % width;
}

/* ---- sums */

static double expected(const trial *t, int64_t q, int64_t i) {
  double sum = 0;
  for (const falt_depthwise_segment *s = t->segments; s < t->segments + t->call.count; s++)
    for (int tap = 0; tap < s->taps; tap++)
      for (int64_t j = 0; j < s->depth; j++)
        sum += product(t->words, reads(t, s, q, tap, i, j), t->weights + weight_at(t, s, tap, i, j));
  if (!t->call.finish) return sum;
  sum = (double)t->scale[i] * sum + (double)t->offset[i];
  if (t->finish.residual) sum += (double)t->residual[q * PIXEL + i];
  return fmin(fmax(sum, (double)t->finish.low), (double)t->finish.high);
}

static void set_finish(trial *t) {
  t->finish = (falt_depthwise_finish){.scale = t->scale,
                                      .offset = t->offset,
                                      .residual = pick(0, 1) ? t->residual : NULL,
                                      .residual_step = PIXEL,
                                      .low = pick(0, 1) ? 0 : -INFINITY,
                                      .high = INFINITY};
  fill(t->scale, CHANNELS);
  fill(t->offset, CHANNELS);
  fill(t->residual, (int64_t)POSITIONS * PIXEL);
  if (pick(0, 1)) t->call.finish = &t->finish;
}

/* Within what rounding to the type leaves, or one where a sum is near the middle between two integers. */
static bool agrees(const trial *t, double got, double want) {
  const falt_type type = t->call.type;
  const bool whole = falt_type_is_integer(type);
  const double near = whole ? fmin(fmax(want, falt_type_min(type)), falt_type_max(type)) : want;
  const double most = whole ? 0.51 : 0x1p-14;
  if (type == FALT_F16 && fabs(want) > 65000) return fabs(got) > 64900; /* infinite, or nearly */
  return fabs(got - near) <= most + fabs(near) * ((whole ? 0 : falt_type_epsilon(type)) + 0x1p-20);
}

/* Position q by a call of its own. */
static void one_position(const trial *t, int64_t q, void *out) {
  falt_depthwise_segment segments[SEGMENTS];
  falt_depthwise_finish finish = t->finish;
  falt_depthwise_call call = t->call;
  int64_t tables[SEGMENTS][TAPS];
  for (int s = 0; s < call.count; s++) {
    segments[s] = t->segments[s];
    segments[s].begin -= q;
    segments[s].end -= q;
    for (int tap = 0; tap < segments[s].taps && segments[s].at; tap++)
      tables[s][tap] = segments[s].at[tap * call.positions + q];
    if (segments[s].at)
      segments[s].at = tables[s];
    else
      segments[s].row += q * segments[s].step;
  }
  if (finish.residual) finish.residual += q * finish.residual_step;
  if (call.finish) call.finish = &finish;
  call.segments = segments;
  call.positions = 1;
  call.stream = false;
  call.out = out;
  t->kernels->sums(&call);
}

static void check_sums(const falt_depthwise_kernels *kernels, const words *of) {
  static trial t;
  float alone[CHANNELS];
  t.kernels = kernels;
  t.words = of;
  for (int round = 0; round < ROUNDS / (of->elements * of->elements); round++) {
    set_call(&t);
    set_finish(&t);
    memset(t.results, canary[0], sizeof t.results);
    const size_t size = falt_type_size(t.call.type);
    kernels->sums(&t.call);
    for (int64_t q = 0; q < POSITIONS; q++) {
      if (q < t.call.positions) one_position(&t, q, alone);
      for (int64_t i = 0; i < PIXEL; i++) {
        const char *got = (const char *)t.results + (size_t)(q * PIXEL + i) * size;
        const bool result = q < t.call.positions && i < t.call.n;
        assert_memory_equal(got, result ? (const char *)alone + (size_t)i * size : canary, size);
        if (result) assert_true(agrees(&t, falt_load(t.results, t.call.type, q * PIXEL + i), expected(&t, q, i)));
      }
    }
  }
}

/* ---- gradient */

static void check_gradients(const falt_depthwise_kernels *kernels) {
  static trial t;
  static float old[sizeof t.sums / sizeof(float)];
  t.kernels = kernels;
  t.words = &all_words[0];
  for (int round = 0; round < ROUNDS; round++) {
    set_call(&t);
    fill(t.by, (int64_t)POSITIONS * PIXEL);
    fill(t.sums, sizeof t.sums / sizeof(float));
    memcpy(old, t.sums, sizeof old);
    kernels->gradient(&(falt_depthwise_gradient){.call = t.call, .by = t.by, .by_step = PIXEL, .sums = t.sums});
    for (const falt_depthwise_segment *s = t.segments; s < t.segments + t.call.count; s++)
      for (int tap = 0; tap < s->taps; tap++)
        for (int64_t i = 0; i < t.call.n * s->depth; i++) {
          const int64_t k = i / s->depth, j = i % s->depth, at = weight_at(&t, s, tap, k, j);
          double sum = (double)old[at];
          for (int64_t q = 0; q < t.call.positions; q++)
            sum += product(t.words, reads(&t, s, q, tap, k, j), &t.by[q * PIXEL + k]);
          assert_true(fabs((double)t.sums[at] - sum) <= 0x1p-18);
        }
  }
}

/* ---- timing */

/* A row of 56 pixels of 64 channels in groups of so many results and words of sources, as many rows as taps. */
static void time_taps(const falt_depthwise_kernels *kernels, const words *of, int taps, int group, int depth) {
  enum { PLACES = 56, DEEP = 64, MOST = TAPS * TAPS * DEEP * DEEP };
  static _Alignas(64) float rows[TAPS][(PLACES + TAPS) * DEEP], weights[MOST], out[PLACES * DEEP];
  const int width = kernels->width, joined = width >= group ? width / group : 1;
  falt_depthwise_unit unit = {.reads = group == 1   ? FALT_READS_EACH
                                       : joined > 1 ? FALT_READS_PICK
                                                    : FALT_READS_ALL,
                              .results = joined * group,
                              .sources = joined * depth};
  for (int i = 0; i < width && joined > 1; i++) unit.pick[i] = i / group * depth;
  falt_depthwise_segment segments[TAPS * TAPS];
  int count = 0;
  for (int r = 0; r < taps; r++) fill(rows[r], sizeof rows[r] / sizeof(float));
  for (int tap = 0; tap < taps * taps; tap += segments[count++].taps)
    segments[count] = (falt_depthwise_segment){.row = rows[tap / taps] + (int64_t)(tap % taps) * DEEP,
                                               .step = DEEP,
                                               .tap_step = DEEP,
                                               .end = PLACES + taps - 1,
                                               .weight = (int64_t)tap * depth * width,
                                               .weight_step = (int64_t)depth * width,
                                               .taps = falt_depthwise_taps(unit.reads, taps - tap % taps),
                                               .depth = depth,
                                               .near = true};
  fill(weights, MOST);
  const falt_depthwise_call call = {.segments = segments,
                                    .count = count,
                                    .unit = &unit,
                                    .weights = weights,
                                    .weights_pitch = (int64_t)taps * taps * depth * width,
                                    .positions = PLACES,
                                    .n = DEEP,
                                    .type = of->source,
                                    .out = out,
                                    .out_step = DEEP};
  const falt_depthwise_gradient gradient = {.call = call, .by = rows[0], .by_step = DEEP, .sums = weights};
  double best[2] = {INFINITY, INFINITY};
  for (int repeat = 0; repeat < 50; repeat++) {
    double start = falt_seconds();
    for (int i = 0; i < 20; i++) kernels->sums(&call);
    best[0] = fmin(best[0], (falt_seconds() - start) / 20);
    start = falt_seconds();
    for (int i = 0; i < 20 && kernels->gradient; i++) kernels->gradient(&gradient);
    best[1] = fmin(best[1], (falt_seconds() - start) / 20);
    fill(weights, MOST);
  }
  const double flops = 2.0 * PLACES * DEEP * taps * taps * group * 1e-9;
  printf("  %dx%d of %d %6.1f", taps, taps, group, flops / best[0]);
  if (kernels->gradient) printf(", gradient %6.1f", flops / best[1]);
}

static void bench(const falt_depthwise_kernels *kernels, const words *of, falt_isa isa) {
  printf("%-9s%-5s", falt_isa_name(isa), falt_type_name(of->source));
  for (int taps = 3; taps <= TAPS && of->elements == 1; taps += 2) time_taps(kernels, of, taps, 1, 1);
  for (int group = 4; group <= 32; group *= 2) time_taps(kernels, of, 3, group, group / of->elements);
  printf(" GFLOP/s\n");
}

/* ---- tests */

static const falt_depthwise_kernels *table_of(falt_tiles_kind kind, int isa) {
  const falt_depthwise_kernels *kernels = falt_depthwise_kernels_of(kind, (falt_isa)isa);
  const bool own = isa == 0 || kernels != falt_depthwise_kernels_of(kind, (falt_isa)(isa - 1));
  return own && falt_isa_runs((falt_isa)isa) ? kernels : NULL;
}

static void test_sums(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++)
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
      if (table_of(all_words[k].kind, isa)) check_sums(table_of(all_words[k].kind, isa), &all_words[k]);
}

static void test_gradient(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    if (table_of(FALT_TILES_F32, isa)) check_gradients(table_of(FALT_TILES_F32, isa));
}

int main(void) {
  set_seed(20261121);
  for (int k = 0; k < KINDS && getenv("FALT_BENCH"); k++)
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
      if (table_of(all_words[k].kind, isa)) bench(table_of(all_words[k].kind, isa), &all_words[k], (falt_isa)isa);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
