/* NaN, infinity and the largest floats on a GPU: problems whose results were wrong once, each with its seed, and
 * products of tf32. Plain C over the public header; prints the failures. */
#include <float.h>
#include <math.h>

#include "fixture.h"

typedef struct found {
  const char *line;
  uint64_t seed;
} found;

static const found all[] = {
    /* f32 as two tf32: an infinite term may give NaN, no other may */
    {"backward-filter c=1 h=6 w=1 k=1 r=1 s=1 method=cuda-wgrad", 154001724798889},
    {"backward-filter n=4 c=1 h=12 w=64 k=5 r=3 s=3 stride=2 pad=1 layout=nhwc method=cuda-wgrad", 154001724798889},
    {"backward-data c=1 h=2 w=6 k=2 r=3 s=1 pad=1 method=cuda-igemm", 716951678220256},
    {"backward-data c=33 h=2 w=7 k=33 r=3 s=3 groups=33 pad=1 layout=nhwc weight-layout=hwio method=cuda-igemm",
     716951678220256},
    {"backward-data c=1 h=1 w=2 k=3 r=3 s=2 pad=3 method=convert-layout", 154001724798972},
    {"backward-data c=3 h=1 w=32 k=7 r=7 s=7 pad=3 layout=nhwc weight-layout=oihw deterministic=1 "
     "method=convert-layout",
     716951678220284},
    /* channels in falling order, with an input that goes on beyond its ends */
    {"forward c=5 h=2 w=2 k=1 r=1 s=1 boundary=edge pool=max:2 input-strides=0,0,-1,0,0,0 method=split-pool",
     716951678220884},
    {"forward c=5 h=4 w=4 k=3 r=3 s=3 pad=1 boundary=edge input-strides=0,0,-16,0,4,1 input-offset=64 "
     "method=cuda-igemm",
     3},
    {"backward-filter c=5 h=4 w=4 k=3 r=3 s=3 pad=1 boundary=edge input-strides=0,0,-16,0,4,1 input-offset=64 "
     "method=cuda-wgrad",
     3},
    /* infinite taps as integer parts */
    {"correlate w=1 s=1 type=s8", 154001734799384},
    {"correlate h=1 w=1 r=1 s=1 type=s8", 435476711509644},
    {"correlate pixel=2 w=1024 s=1 type=s8", 154001734799384},
    /* large taps times elements near the smallest number */
    {"correlate h=9 w=20 r=3 s=1 mode=full value=-1 type=bf16 weight-type=s32 filter-strides=0,0,0,0,3,0 "
     "output-offset=1",
     91827368193},
    /* NaN among integers, before pooling */
    {"forward c=2 w=64 k=1 s=7 out-type=u8 pool=max:2 method=cuda-direct-nchw", 716951688220835},
    {"forward c=2 w=128 k=1 s=9 pad=4 out-type=u8 layout=nwc pool=max:2 method=cuda-direct-nchw", 716951688220835},
    {"forward c=2 w=128 k=1 s=9 pad=4 out-type=u8 layout=nwc pool=max:2 method=cuda-generic", 716951688220835},
    /* positions of dy beyond its ends */
    {"backward-filter c=2 h=1 w=3 k=2 r=2 s=7 groups=2 pad=3 type=f16 method=cuda-depthwise-wgrad", 154001724799020},
    {"backward-filter c=10 h=1 w=3 k=10 r=7 s=7 groups=10 pad=3 type=f16 layout=nhwc method=cuda-depthwise-wgrad",
     435476701509676},
    {"backward-filter n=64 c=64 h=33 w=37 k=64 r=3 s=3 groups=64 method=cuda-depthwise-wgrad", 154001724799020},
    {"backward-filter c=1 h=1 w=1 k=1 r=7 s=7 pad=3 type=bf16 method=cuda-fewchannels-wgrad", 716951678220498},
    {"backward-filter c=3 h=1 w=1 k=1 r=7 s=7 pad=3 type=bf16 method=cuda-wgrad-halo", 716951678220498},
    {"backward-filter c=1 h=5 w=5 k=24 r=3 s=3 pad=1 type=f16 layout=nhwc bias=1 method=cuda-wgrad-halo",
     716951688220486},
    {"backward-filter c=4 d=1 h=1 w=1 k=3 t=3 r=3 s=3 pad=1 type=bf16 method=cuda-wgrad-sm90-halo", 435476701509979},
    /* kernels for aligned operands, and for others */
    {"backward-filter c=6 h=1 w=3 k=6 r=6 s=7 groups=6 pad=3 layout=nhwc method=cuda-depthwise-wgrad", 435476711509545},
    {"backward-filter n=12 c=16 h=3 w=1 k=16 r=1 s=1 groups=16 layout=nhwc method=cuda-depthwise-wgrad",
     154001724799071},
    {"forward c=14 h=1 w=3 k=14 r=6 s=7 groups=14 pad=3 layout=nhwc method=cuda-depthwise", 435476711509778},
    {"backward-data c=64 h=1 w=1 k=64 r=3 s=3 groups=64 pad=1 type=bf16 method=cuda-depthwise-toeplitz",
     435476701510261},
    {"backward-data c=3 w=16 k=48 s=3 pad=-2 weight-type=bf16 out-type=bf16 layout=nwc method=cuda-igemm-sm90-halo",
     154001724799726},
    {"forward c=6 h=64 w=8 k=3 r=1 s=2 boundary=symmetric type=f16 method=convert-layout", 154001724799008},
    /* a tap that is 0, as a sum of terms; f16 below 2^-14 beside large ones */
    {"correlate h=1 w=10 r=6 s=7 rank=2 method=cuda-separable", 154001734799431},
    {"correlate h=24 w=95 r=7 s=7 rank=2 method=cuda-separable", 154001734799431},
    /* rows of taps that the last part lacks */
    {"correlate c=3 h=17 w=3 r=7 s=7 boundary=x=wrap type=f64 method=cuda-depthwise", 338248073120629},
    {"correlate n=9 h=32 w=1 r=257 s=1 mode=full boundary=edge type=f64 rank=4 alpha=0.5 beta=1 residual=1 "
     "method=cuda-depthwise",
     338248073121953},
    {"forward c=80 h=4 w=1 k=80 r=3 s=3 groups=80 stride=2 pad=1 type=f16 out-type=f32 layout=nhwc method=cuda-igemm",
     154001734799019},
};

typedef struct judgement {
  const char *line;
  int verdicts;
} judgement;

static void judge(void *context, const falt_verdict *verdict) {
  judgement *j = context;
  expect(verdict->ok, verdict->solver, j->line);
  j->verdicts++;
}

static int verify(falt_device *device, const found *f) {
  falt_problem problem;
  falt_budget budget;
  judgement j = {.line = f->line};
  const bool ran = falt_problem_parse(&problem, &budget, f->line) == FALT_OK &&
                   falt_verify(device, &problem, &budget, f->seed, judge, &j) == FALT_OK;
  expect(ran && j.verdicts > 0, "verify", f->line);
  return j.verdicts;
}

/* A line of f32 with all elements of both factors alike: the results, of which there are `count`. NULL: it failed. */
static float *results_of(falt_device *device, const char *line, const float value[2], int64_t *count) {
  run r = {.line = line, .device = device};
  falt_budget budget;
  float *results = NULL;
  if (falt_problem_parse(&r.problem, &budget, line) != FALT_OK) return NULL;
  r.result = result_of(&r.problem);
  for (int i = 0, k = 0; i < TENSORS; i++) {
    const int64_t span = falt_tensor_span(tensor_of(&r.problem, i));
    float *data = calloc((size_t)span, sizeof *data);
    for (int64_t at = 0; data && i != r.result && at < span; at++) memcpy(&data[at], &value[k], sizeof *data);
    k += i != r.result;
    r.host[i] = (char *)data;
    if (i == r.result) *count = span;
  }
  const falt_operands host = operands_of(r.host);
  if (falt_plan_create(&r.plan, device, &r.problem, &budget, NULL) == FALT_OK &&
      falt_execute_host(r.plan, &host) == FALT_OK) {
    results = (float *)(void *)r.host[r.result];
    r.host[r.result] = NULL;
  }
  close_run(&r);
  return results;
}

static const char *const layers[] = {
    "forward n=1 c=8 h=5 w=7 k=8 r=1 s=1 method=cuda-igemm",
    "forward n=1 c=8 h=5 w=7 k=8 r=1 s=1 tf32=1 method=cuda-igemm",
    "forward n=4 c=64 h=14 w=14 k=64 r=1 s=1 layout=nhwc method=cuda-igemm",
    "forward n=4 c=64 h=14 w=14 k=64 r=1 s=1 layout=nhwc tf32=1 method=cuda-igemm",
    "backward-data n=1 c=8 h=5 w=7 k=8 r=1 s=1 method=cuda-igemm",
    "backward-data n=1 c=8 h=5 w=7 k=8 r=1 s=1 tf32=1 method=cuda-igemm",
    "backward-filter n=1 c=8 h=4 w=2 k=8 r=1 s=1 method=cuda-wgrad",
    "backward-filter n=1 c=8 h=4 w=2 k=8 r=1 s=1 tf32=1 method=cuda-wgrad",
};

/* The largest float times 0, and times a power of two: sums of 8 or 64 terms, to the precision of the products. */
static void check_largest(falt_device *device, const char *line, bool swapped) {
  static const float others[] = {0, 0x1p-100F};
  const double terms = strstr(line, "c=64") ? 64 : 8, error = strstr(line, "tf32=1") ? 0x1p-10 : 0x1p-20;
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    const float values[2] = {swapped ? others[k] : FLT_MAX, swapped ? FLT_MAX : others[k]};
    const double exact = terms * (double)FLT_MAX * (double)others[k];
    int64_t count = 0;
    float *results = results_of(device, line, values, &count);
    bool fine = results != NULL;
    for (int64_t i = 0; fine && i < count; i++) fine = fabs((double)results[i] - exact) <= error * exact;
    expect(fine, "the largest float", line);
    free(results);
  }
}

/* NaN as GPUs make it, all bits of its mantissa set, and of either sign. */
static void check_nan(falt_device *device, const char *line, bool negative) {
  const uint32_t bits = negative ? 0xffffffff : 0x7fffffff;
  float values[2] = {0, 1};
  int64_t count = 0;
  memcpy(&values[0], &bits, sizeof bits);
  float *results = results_of(device, line, values, &count);
  bool fine = results != NULL;
  for (int64_t i = 0; fine && i < count; i++) fine = isnan(results[i]);
  expect(fine, "NaN", line);
  free(results);
}

int main(void) {
  falt_device *device;
  int verdicts = 0;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "nonfinite: %s\n", falt_message());
    return 3;
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) verdicts += verify(device, &all[i]);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int way = 0; way < 2; way++) {
      check_largest(device, layers[i], way);
      check_nan(device, layers[i], way);
    }
  printf("nonfinite: %d verdicts, %d failures\n", verdicts, failures);
  falt_device_destroy(&device);
  return failures > 0;
}
