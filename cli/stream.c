/* A signal through falt_convolver, band after band: the way of files of audio whose filter is long.
 *
 * The convolver's outputs are two partitions late, so that all taps are multiplied by transforms. A row u is given
 * before the output that has its last tap there leaves the convolver, `latency` rows later. */
#include "stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"

enum { CHUNK = 65536, LEAST_PARTITION = 1024, MOST_PARTITION = 65536, MOST_LANES = 64, MOST_TAPS = 1 << 26 };

/* The channels of one thread. */
typedef struct lane {
  struct cli_stream *stream;
  falt_convolver *convolver;
  int64_t first, channels;
  char *room;                  /* [channels][CHUNK] */
  const void **input;          /* a chunk's, by channel */
  void **output;               /* the same */
  int64_t bad_first, bad_last; /* rows of this band that are not finite, or that made outputs so */
} lane;

/* One band. */
typedef struct band {
  cli_stream_rows rows;
  int64_t begin, count, until; /* output rows; the row up to which the convolver takes rows */
  char *output;
} band;

struct cli_stream {
  falt_problem problem;
  falt_type type; /* of the convolver */
  size_t element;
  int64_t channels, taps, rows, pad, stride, partition;
  int64_t end; /* the row behind the last output's last one */
  int lanes;
  lane lane[MOST_LANES];
  int64_t taken; /* the next row that the convolver takes */
  band band;
  int64_t bad_first, bad_last; /* rows that are not finite; first > last: none so far */
};

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* ---- the response */

/* Tap i of the filter, dense or as one factor an axis a term. */
static double tap_at(const falt_problem *p, const void *weights, int64_t i) {
  const falt_tensor *w = &p->filter;
  double sum = 0, term[3];
  if (p->factors == 0) {
    const int64_t at = w->offset + i * w->stride[FALT_W];
    cli_samples_load((const char *)weights + at * (int64_t)falt_type_size(w->type), w->type, 1, 1, &sum, FALT_F64);
    return sum;
  }
  const int64_t taps = w->size[FALT_W], tap = w->stride[FALT_W] < 0 ? taps - 1 - i : i;
  for (int m = 0; m < p->factors; m++) {
    const char *factors = (const char *)weights + m * (taps + 2) * (int64_t)falt_type_size(w->type);
    cli_samples_load(factors, w->type, 1, 2, term, FALT_F64);
    cli_samples_load(factors + (2 + tap) * (int64_t)falt_type_size(w->type), w->type, 1, 1, term + 2, FALT_F64);
    sum += term[0] * term[1] * term[2];
  }
  return sum;
}

/* The taps, last one first, as a convolution takes them, with zeros between dilated ones. */
static void *make_response(const cli_stream *s, const void *weights) {
  const falt_problem *p = &s->problem;
  const int64_t taps = p->filter.size[FALT_W];
  void *response = calloc((size_t)s->taps, s->element);
  for (int64_t i = 0; response && i < taps; i++) {
    const int64_t at = (taps - 1 - i) * p->axis[2].dilation;
    if (s->type == FALT_F64)
      ((double *)response)[at] = tap_at(p, weights, i);
    else
      ((float *)response)[at] = (float)tap_at(p, weights, i);
  }
  return response;
}

/* ---- opening */

static bool takes(const falt_problem *p, const falt_budget *budget, const falt_device *device) {
  return p->space == 1 && strncmp(falt_device_name(device), "cpu", 3) == 0 && !budget->method[0] &&
         budget->max_workspace < 0 && (p->accumulator == FALT_F32 || p->accumulator == FALT_F64) &&
         cli_samples_known(p->input.type) && cli_samples_known(p->output.type) && cli_samples_known(p->filter.type);
}

/* Whether the plan of the whole multiplies transforms. */
static bool transforms(const falt_problem *problem, const void *weights, const falt_budget *budget,
                       falt_device *device) {
  char text[256];
  falt_plan *plan = NULL;
  if (falt_plan_create(&plan, device, problem, budget, weights) != FALT_OK) return false;
  falt_plan_print(plan, text, sizeof text);
  falt_plan_destroy(&plan);
  return strstr(text, "(fft ") != NULL;
}

/* As few partitions as the second-level cache takes well. */
static int64_t choose_partition(int64_t taps) {
  int64_t partition = LEAST_PARTITION;
  while (partition < taps && partition < MOST_PARTITION) partition *= 2;
  return partition;
}

static bool open_lane(cli_stream *s, lane *l, const falt_device *device, const void *response) {
  falt_convolver_options options;
  falt_convolver_options_default(&options);
  options.inputs = options.outputs = (int)l->channels;
  options.taps = s->taps;
  options.type = s->type;
  options.partition = s->partition;
  options.growth = 1;
  options.latency = cli_stream_latency(s);
  l->stream = s;
  l->room = malloc((size_t)(l->channels * CHUNK) * s->element);
  l->input = calloc((size_t)l->channels, sizeof *l->input);
  l->output = calloc((size_t)l->channels, sizeof *l->output);
  const void **responses = calloc((size_t)(l->channels * l->channels), sizeof *responses);
  bool opened = l->room && l->input && l->output && responses;
  for (int64_t c = 0; opened && c < l->channels; c++) {
    l->input[c] = l->output[c] = l->room + (size_t)(c * CHUNK) * s->element;
    responses[c * l->channels + c] = response;
  }
  opened = opened && falt_convolver_create(&l->convolver, device, &options, responses) == FALT_OK;
  free(responses);
  return opened;
}

static bool open_lanes(cli_stream *s, const falt_device *device, const void *weights) {
  void *response = make_response(s, weights);
  bool opened = response != NULL;
  for (int i = 0; opened && i < s->lanes; i++) {
    lane *l = &s->lane[i];
    l->first = s->channels * i / s->lanes;
    l->channels = s->channels * (i + 1) / s->lanes - l->first;
    opened = open_lane(s, l, device, response);
  }
  free(response);
  return opened;
}

cli_stream *cli_stream_open(const falt_problem *problem, const void *weights, const falt_budget *budget,
                            falt_device *device) {
  const falt_axis *axis = &problem->axis[2];
  if (!takes(problem, budget, device) || !transforms(problem, weights, budget, device)) return NULL;
  cli_stream *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->problem = *problem;
  s->type = problem->accumulator;
  s->element = falt_type_size(s->type);
  s->channels = problem->input.stride[FALT_W];
  s->taps = axis->dilation * (problem->filter.size[FALT_W] - 1) + 1;
  s->rows = problem->input.size[FALT_W];
  s->pad = axis->pad[0];
  s->stride = axis->stride;
  s->partition = choose_partition(s->taps);
  s->end = (problem->output.size[FALT_W] - 1) * s->stride - s->pad + s->taps;
  s->lanes = (int)min64(min64(s->channels, falt_device_threads(device)), MOST_LANES);
  if (s->taps > MOST_TAPS / s->channels || !open_lanes(s, device, weights)) cli_stream_close(&s);
  if (s) cli_stream_rewind(s);
  return s;
}

void cli_stream_close(cli_stream **stream) {
  cli_stream *s = *stream;
  if (!s) return;
  for (int i = 0; i < s->lanes; i++) {
    falt_convolver_destroy(&s->lane[i].convolver);
    free(s->lane[i].room);
    free(s->lane[i].input);
    free(s->lane[i].output);
  }
  free(s);
  *stream = NULL;
}

int64_t cli_stream_latency(const cli_stream *s) {
  return 2 * s->partition;
}

void cli_stream_rewind(cli_stream *s) {
  for (int i = 0; i < s->lanes; i++) falt_convolver_reset(s->lane[i].convolver);
  s->taken = -s->pad;
  s->bad_first = INT64_MAX;
  s->bad_last = INT64_MIN;
}

void cli_stream_print(const cli_stream *s, char *text, size_t size) {
  snprintf(text, size, "(convolver %s partition=%lld threads=%d)", falt_type_name(s->type), (long long)s->partition,
           s->lanes);
}

/* ---- rows in */

static const char *sample_at(const cli_stream *s, int64_t row, int64_t channel) {
  const cli_stream_rows *r = &s->band.rows;
  return r->data + ((row - r->low) * s->channels + channel) * (int64_t)falt_type_size(s->problem.input.type);
}

/* A row outside of those at hand: the boundary's, or behind the last output's. */
static double outside(const cli_stream *s, int64_t row, int64_t channel) {
  const falt_problem *p = &s->problem;
  double value = 0;
  const int64_t from = row < s->end ? falt_problem_row(p, 2, row) : -1;
  if (row >= s->end) return 0;
  if (from < 0) return p->boundary_value;
  cli_samples_load(sample_at(s, from, channel), p->input.type, 1, 1, &value, FALT_F64);
  return value;
}

static void load_outside(const cli_stream *s, int64_t from, int64_t until, int64_t channel, char *to) {
  for (int64_t u = from; u < until; u++, to += s->element) {
    const double value = outside(s, u, channel);
    if (s->type == FALT_F64)
      *(double *)(void *)to = value;
    else
      *(float *)(void *)to = (float)value;
  }
}

/* Rows [from, until) of a channel. */
static void load(lane *l, int64_t from, int64_t until, int64_t channel, char *to) {
  const cli_stream *s = l->stream;
  const int64_t first = min64(max64(from, s->band.rows.low), until);
  const int64_t last = max64(min64(until, s->band.rows.high), first);
  int64_t bad, worst;
  load_outside(s, from, first, channel, to);
  cli_samples_load(sample_at(s, first, channel), s->problem.input.type, s->channels, last - first,
                   to + (size_t)(first - from) * s->element, s->type);
  load_outside(s, last, until, channel, to + (size_t)(last - from) * s->element);
  cli_samples_clean(to, s->type, until - from, &bad, &worst);
  if (bad > worst) return;
  l->bad_first = min64(l->bad_first, from + bad);
  l->bad_last = max64(l->bad_last, from + worst);
}

/* ---- outputs */

/* What the convolver made of rows [from, until): outputs whose last tap is `latency` rows earlier. An output that is
 * not finite tells of sums beyond the type, which later ones have too, for the taps and two partitions. */
static void store(lane *l, int64_t from, int64_t until, int64_t channel, char *values) {
  const cli_stream *s = l->stream;
  const falt_problem *p = &s->problem;
  const int64_t lead = s->taps - 1 - s->pad + cli_stream_latency(s), stride = s->stride;
  const int64_t first = max64(s->band.begin, from <= lead ? 0 : (from - lead + stride - 1) / stride);
  const int64_t last = min64(s->band.begin + s->band.count, until <= lead ? 0 : (until - lead + stride - 1) / stride);
  int64_t bad, worst;
  cli_samples_clean(values, s->type, until - from, &bad, &worst);
  if (bad <= worst) {
    l->bad_first = min64(l->bad_first, from + bad - cli_stream_latency(s) - s->taps);
    l->bad_last = max64(l->bad_last, from + worst + cli_stream_latency(s));
  }
  if (first >= last) return;
  const size_t skipped = (size_t)(first * stride + lead - from) * s->element;
  char *to =
      s->band.output + ((first - s->band.begin) * s->channels + channel) * (int64_t)falt_type_size(p->output.type);
  cli_samples_store(values + skipped, s->type, stride, last - first, p->alpha, p->beta, to, p->output.type,
                    s->channels);
}

/* ---- a band */

static void *run_lane(void *context) {
  lane *l = context;
  cli_stream *s = l->stream;
  for (int64_t u = s->taken; u < s->band.until; u += CHUNK) {
    const int64_t until = min64(u + CHUNK, s->band.until);
    for (int64_t c = 0; c < l->channels; c++) load(l, u, until, l->first + c, l->output[c]);
    falt_convolver_process(l->convolver, l->input, l->output, until - u);
    for (int64_t c = 0; c < l->channels; c++) store(l, u, until, l->first + c, l->output[c]);
  }
  return NULL;
}

/* A lane without a thread runs in the caller's. */
static void run_lanes(cli_stream *s) {
  pthread_t thread[MOST_LANES];
  int started = 1;
  while (started < s->lanes && pthread_create(&thread[started], NULL, run_lane, &s->lane[started]) == 0) started++;
  run_lane(&s->lane[0]);
  for (int i = started; i < s->lanes; i++) run_lane(&s->lane[i]);
  for (int i = 1; i < started; i++) pthread_join(thread[i], NULL);
}

/* Rows that are not finite, found so far; those before the band's first one no longer count. */
static void collect(cli_stream *s, int64_t first) {
  if (s->bad_last < first) s->bad_first = INT64_MAX;
  for (int i = 0; i < s->lanes; i++) {
    s->bad_first = min64(s->bad_first, s->lane[i].bad_first);
    s->bad_last = max64(s->bad_last, s->lane[i].bad_last);
  }
}

bool cli_stream_run(cli_stream *s, const cli_stream_rows *rows, int64_t begin, int64_t count, void *output) {
  const int64_t first = begin * s->stride - s->pad, last = first + (count - 1) * s->stride + s->taps;
  s->band = (band){*rows, begin, count, last + cli_stream_latency(s), output};
  for (int i = 0; i < s->lanes; i++) {
    s->lane[i].bad_first = INT64_MAX;
    s->lane[i].bad_last = INT64_MIN;
  }
  run_lanes(s);
  s->taken = s->band.until;
  collect(s, first);
  return s->bad_first >= last || s->bad_last < first;
}
