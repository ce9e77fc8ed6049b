/* A problem as a task of the ladder: operands on the device, the output, and the reference. */
#include "ladder_task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { PITCH = 128 }; /* elements that a GPU's rows are aligned to: 512 bytes, as allocators of images do */

/* ---- which problems the steps compute */

static bool is_plain(const falt_problem *p) {
  return p->operation == FALT_FORWARD && p->input.type == FALT_F32 && p->filter.type == FALT_F32 &&
         p->output.type == FALT_F32 && p->boundary_value == 0 && p->alpha == 1 && p->beta == 0 &&
         p->activation == FALT_IDENTITY && !p->has_bias && !p->has_scale && !p->has_residual;
}

static bool is_plain_axis(const falt_axis *axis) {
  return axis->dilation == 1 && axis->boundary[0] == FALT_CONSTANT && axis->boundary[1] == FALT_CONSTANT;
}

/* Interleaved channels are groups that share one filter. */
static bool is_ladders_filter(const falt_problem *p, bool on_gpu) {
  const int64_t channels = p->input.size[FALT_G];
  bool plain =
      is_plain(p) && p->is_filter && p->input.size[FALT_N] * p->input.size[FALT_C] == 1 &&
      (channels == 1 || (on_gpu && p->space == 2 && p->input.stride[FALT_G] == 1 && p->filter.stride[FALT_G] == 0));
  for (int a = 0; a < 3; a++) {
    const falt_axis *axis = &p->axis[a];
    plain = plain && is_plain_axis(axis) && axis->stride == 1 && axis->pad[0] == p->filter.size[FALT_D + a] / 2 &&
            p->output.size[FALT_D + a] == p->input.size[FALT_D + a] &&
            (p->filter.size[FALT_D + a] == 1 || p->filter.stride[FALT_D + a] > 0);
  }
  return plain;
}

/* Signals, and images of one channel. */
static bool may_be_transformed(const falt_problem *p) {
  return p->space < 3 && p->input.size[FALT_G] == 1;
}

static bool is_dense(const falt_tensor *t) {
  int64_t stride = 1;
  for (int d = FALT_W; d >= 0; stride *= t->size[d--])
    if (t->size[d] > 1 && t->stride[d] != stride) return false;
  return true;
}

static bool is_ladders_layer(const falt_problem *p) {
  return is_plain(p) && !p->is_filter && p->space == 2 && p->input.size[FALT_G] == 1 && is_dense(&p->input) &&
         is_dense(&p->filter) && is_dense(&p->output) && is_plain_axis(&p->axis[1]) && is_plain_axis(&p->axis[2]) &&
         p->axis[1].pad[0] >= 0 && p->axis[2].pad[0] >= 0;
}

/* ---- sizes */

static void describe_filter(ladder_task *k, falt_problem *p, bool on_gpu) {
  k->channels = p->input.size[FALT_G];
  const int64_t row = k->size[2] * k->channels;
  k->pitch = on_gpu && k->size[0] * k->size[1] > 1 ? (row + PITCH - 1) / PITCH * PITCH : row;
  falt_tensor *both[] = {&p->input, &p->output};
  for (int i = 0; i < 2; i++) { /* the planner gets the same rows */
    both[i]->stride[FALT_H] = k->pitch;
    both[i]->stride[FALT_D] = k->pitch * k->size[1];
    both[i]->stride[FALT_N] = k->pitch * k->size[1] * k->size[0];
  }
}

static void describe_layer(ladder_task *k, const falt_problem *p) {
  k->images = p->input.size[FALT_N];
  k->channels = p->input.size[FALT_C];
  k->filters = p->filter.size[FALT_K];
  for (int a = 0; a < 2; a++) {
    k->stride[a] = p->axis[1 + a].stride;
    k->pad[a] = p->axis[1 + a].pad[0];
    k->out[a] = p->output.size[FALT_H + a];
    k->pooled[a] = k->out[a] / 2;
  }
}

/* Rows of results, elements of one that count, elements from row to row. */
typedef struct results {
  int64_t rows, row, pitch;
} results;

static results results_of(const cli_task *task) {
  const ladder_task *k = &task->ladder;
  if (task->stage == CLI_FILTER) return (results){k->size[0] * k->size[1], k->size[2] * k->channels, k->pitch};
  const int64_t *size = task->stage == CLI_POOLED ? k->pooled : k->out;
  const int64_t count = k->images * k->filters * size[0] * size[1];
  return (results){1, count, count};
}

double cli_task_elements(const cli_task *task) {
  const ladder_task *k = &task->ladder;
  const results r = results_of(task);
  const double out = (double)r.rows * (double)r.row;
  const double taps = (double)(k->taps[0] * k->taps[1] * k->taps[2]);
  if (task->stage == CLI_FILTER) return 2 * out + taps;
  return out + taps * (double)(k->channels * k->filters) +
         (double)(k->images * k->channels) * (double)(k->size[1] * k->size[2]);
}

/* ---- memory */

static size_t y_bytes(const cli_task *task) {
  return (size_t)falt_tensor_span(&task->question.problem.output) * sizeof(float);
}

static falt_status place(cli_task *task, int i, const void *from, size_t bytes) {
  falt_device *device = task->question.device;
  const falt_status status = falt_device_alloc(device, &task->memory[i], bytes);
  return status == FALT_OK && from ? falt_device_write(device, task->memory[i], from, bytes) : status;
}

static falt_status place_all(cli_task *task) {
  const falt_problem *p = &task->question.problem;
  ladder_task *k = &task->ladder;
  const size_t between = task->by_transforms ? ladder_fft_bytes(k) : task->stage == CLI_FILTER ? 0 : y_bytes(task);
  falt_status status = place(task, 3, NULL, between);
  k->between = task->memory[3];
  if (!k->gpu) return status;
  if (status == FALT_OK) status = place(task, 0, k->x, (size_t)falt_tensor_span(&p->input) * sizeof(float));
  if (status == FALT_OK) status = place(task, 1, k->w, (size_t)falt_tensor_span(&p->filter) * sizeof(float));
  if (status == FALT_OK) status = place(task, 2, NULL, y_bytes(task));
  k->x = task->memory[0];
  k->w = task->memory[1];
  k->y = task->memory[2];
  return status;
}

/* ---- opening */

static int fail_problem(const cli_task *task) {
  const char *line = task->question.line;
  const bool on_gpu = task->on_gpu;
  if (task->by_transforms)
    return cli_fail(
        CLI_WRONG,
        "ladder fft: the steps compute only a plain correlation of a signal or an image (f32, one channel, \"same\", "
        "zero beyond the ends); write one such as \"correlate w=262144 s=129\"");
  if (strncmp(line, "forward", 7) == 0)
    return cli_fail(
        CLI_WRONG,
        "ladder: the layer's steps compute a plain forward (f32, nchw, one group, no dilation, nothing fused); "
        "write one such as \"forward n=64 c=1 h=28 w=28 k=16 r=5 s=5 pad=2\"");
  return cli_fail(CLI_WRONG,
                  "ladder: the steps compute only a plain correlation (f32, one channel%s, \"same\", zero beyond the "
                  "edges) or a plain forward; write one such as \"correlate h=2048 w=2048 r=5 s=5\"",
                  on_gpu ? " or an image's interleaved ones" : "");
}

static int fill(cli_task *task) {
  const falt_problem *p = &task->question.problem;
  const int status = cli_operands_random(&task->operands, p, 1);
  if (status != CLI_DONE) return status;
  ladder_task *k = &task->ladder;
  k->x = task->operands.set.input;
  k->w = k->host_taps = task->operands.set.filter;
  k->y = task->operands.set.output;
  task->expected = cli_allocate((int64_t)y_bytes(task), "ladder");
  return task->expected ? CLI_DONE : CLI_IMPOSSIBLE;
}

int cli_task_open(cli_task *task, const cli_options *options, falt_device *device, const char *line) {
  *task = (cli_task){.stage = CLI_FILTER, .by_transforms = task->by_transforms};
  int status = cli_question_parse(options, line, &task->question);
  if (status != CLI_DONE) return status;
  task->question.device = device;
  falt_problem *p = &task->question.problem;
  ladder_task *k = &task->ladder;
  int ordinal = -1;
  const char *name = falt_device_name(device);
  const bool on_gpu = strncmp(name, "cuda:", 5) == 0;
  task->on_gpu = on_gpu;
  task->on_paper = on_gpu && sscanf(name, "cuda:%d", &ordinal) != 1;
  const bool is_layer = is_ladders_layer(p) && !task->by_transforms;
  if (!is_layer && (!is_ladders_filter(p, on_gpu) || (task->by_transforms && !may_be_transformed(p))))
    return fail_problem(task);
  k->threads = falt_device_threads(device);
  for (int a = 0; a < 3; a++) k->size[a] = p->input.size[FALT_D + a], k->taps[a] = p->filter.size[FALT_D + a];
  if (is_layer) {
    task->stage = CLI_CONVOLUTION;
    describe_layer(k, p);
  } else {
    describe_filter(k, p, on_gpu);
  }
  if (task->on_paper) return CLI_DONE;
  status = fill(task);
  falt_status placed = status == CLI_DONE && on_gpu ? ladder_gpu_open(&k->gpu, ordinal) : FALT_OK;
  if (status == CLI_DONE && placed == FALT_OK) placed = place_all(task);
  return placed == FALT_OK ? status : cli_fail_library(placed);
}

void cli_task_close(cli_task *task) {
  for (int i = 0; i < 4; i++)
    if (task->memory[i]) falt_device_free(task->question.device, &task->memory[i]);
  ladder_gpu_close(task->ladder.gpu);
  cli_operands_free(&task->operands);
  free(task->expected);
}

/* ---- results */

void cli_task_begin(cli_task *task, cli_stage stage) {
  task->stage = stage;
  task->has_expected = false;
}

int cli_task_poison(cli_task *task) {
  void *here = task->operands.set.output;
  memset(here, 0xff, y_bytes(task));
  if (!task->ladder.gpu) return CLI_DONE;
  const falt_status status = falt_device_write(task->question.device, task->memory[2], here, y_bytes(task));
  return status == FALT_OK ? CLI_DONE : cli_fail_library(status);
}

static double difference(const cli_task *task) {
  const results r = results_of(task);
  const float *y = task->operands.set.output;
  double most = 0, scale = 0;
  for (int64_t row = 0; row < r.rows; row++)
    for (int64_t i = row * r.pitch; i < row * r.pitch + r.row; i++) {
      const double gap = fabs((double)y[i] - (double)task->expected[i]);
      most = ladder_worse(most, gap);
      scale = fmax(scale, fabs((double)task->expected[i]));
    }
  return scale > 0 ? most / scale : most;
}

int cli_task_judge(cli_task *task, double *most) {
  float *y = task->operands.set.output;
  const float *x = task->operands.set.input;
  if (task->ladder.gpu) {
    const falt_status status = falt_device_read(task->question.device, y, task->memory[2], y_bytes(task));
    if (status != FALT_OK) return cli_fail_library(status);
  }
  if (task->has_expected) {
    *most = difference(task);
    return CLI_DONE;
  }
  *most = task->stage == CLI_FILTER ? ladder_check_filter(&task->ladder, x, y)
                                    : ladder_check_layer(&task->ladder, x, y, task->stage == CLI_POOLED);
  memcpy(task->expected, y, y_bytes(task));
  task->has_expected = true;
  return CLI_DONE;
}
