/* The verb layer: one network layer on .npy arrays, forward or backward, pooling included. */
#include <stdlib.h>
#include <string.h>

#include "problem.h"
#include "report.h"
#include "verbs.h"

enum { RANK = 8 };

typedef struct shape {
  int rank;
  int64_t size[RANK];
} shape;

/* An option and the tensor it fills. */
typedef struct slot {
  const char *option, *path;
  const falt_tensor *tensor; /* NULL: a vector with one value an output channel */
  void **operand;
  bool is_filter;
} slot;

/* Orders of memory by name, for each space; of those that describe the same memory the first is what files have. */
enum { LAYOUTS = 3 };
static const char *const data_layouts[4][LAYOUTS] = {{NULL}, {"ncw", "nwc"}, {"nchw", "nhwc"}, {"ncdhw", "ndhwc"}};
static const char *const filter_layouts[4][LAYOUTS] = {
    {NULL}, {"oiw", "owi", "wio"}, {"oihw", "ohwi", "hwio"}, {"oidhw", "odhwi", "dhwio"}};

/* Whether a dense tensor in this layout lies in memory as t does; dimensions of one element do not matter. */
static bool lies_as(const falt_tensor *t, const char *layout) {
  falt_tensor dense = *t;
  if (falt_tensor_layout(&dense, layout) != FALT_OK) return false;
  for (int i = 0; i < FALT_DIMS; i++)
    if (t->size[i] > 1 && t->stride[i] != dense.stride[i]) return false;
  return t->offset == 0;
}

static int64_t size_of_letter(const falt_tensor *t, char letter) {
  switch (letter) {
    case 'n':
      return t->size[FALT_N];
    case 'c':
      return t->size[FALT_G] * t->size[FALT_C];
    case 'o':
      return t->size[FALT_G] * t->size[FALT_K];
    case 'i':
      return t->size[FALT_C];
    case 'd':
      return t->size[FALT_D];
    case 'h':
      return t->size[FALT_H];
    default:
      return t->size[FALT_W];
  }
}

static shape shape_in(const falt_tensor *t, const char *layout) {
  shape s = {.rank = 0};
  for (; *layout; layout++) s.size[s.rank++] = size_of_letter(t, *layout);
  return s;
}

/* Shapes that an array may have for a tensor; how many. None: the problem's strides are not dense. */
static int shapes_of(const falt_problem *p, const slot *one, shape shapes[LAYOUTS]) {
  if (!one->tensor) {
    shapes[0] = (shape){1, {cli_bias_count(p)}};
    return 1;
  }
  const char *const *layouts = (one->is_filter ? filter_layouts : data_layouts)[p->space];
  int count = 0;
  for (int i = 0; i < LAYOUTS && layouts[i]; i++)
    if (lies_as(one->tensor, layouts[i])) shapes[count++] = shape_in(one->tensor, layouts[i]);
  return count;
}

static const char *print_shape(const shape *s, char text[160]) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < s->rank && used < 140; i++)
    used += (size_t)snprintf(text + used, 160 - used, "%s%lld", i ? "x" : "", (long long)s->size[i]);
  return text;
}

static bool same_shape(const shape *s, const io_array *array) {
  if (array->rank != s->rank) return false;
  for (int i = 0; i < s->rank; i++)
    if (array->size[i] != s->size[i]) return false;
  return true;
}

/* bf16 has no .npy type: its bits travel as u16. */
static bool same_type(falt_type want, falt_type have) {
  return want == have || (want == FALT_BF16 && have == FALT_U16);
}

static falt_type type_of(const falt_problem *p, const slot *one) {
  return one->tensor ? one->tensor->type : cli_bias_type(p);
}

static int fail_strides(const slot *one) {
  return cli_fail(CLI_WRONG, "--%s: the problem's strides are of no layout that a file can have; leave them out",
                  one->option);
}

static int check_array(const falt_problem *p, const slot *one, const io_array *array) {
  char expected[160], found[160];
  shape shapes[LAYOUTS], have = {.rank = array->rank};
  const int count = shapes_of(p, one, shapes);
  bool fits = false;
  for (int i = 0; i < count; i++) fits |= same_shape(&shapes[i], array);
  for (int i = 0; i < array->rank; i++) have.size[i] = array->size[i];
  if (count == 0) return fail_strides(one);
  if (!fits)
    return cli_fail(CLI_WRONG, "--%s: %.200s is %s where the problem has %s; reshape it or change the problem",
                    one->option, one->path, print_shape(&have, found), print_shape(&shapes[0], expected));
  if (!same_type(type_of(p, one), array->type))
    return cli_fail(CLI_WRONG,
                    "--%s: %.200s holds %s where the problem has %s; convert it or change the problem's type",
                    one->option, one->path, falt_type_name(array->type), falt_type_name(type_of(p, one)));
  return CLI_DONE;
}

static int read_slot(const falt_problem *p, const slot *one) {
  if (!one->path) return cli_fail(CLI_WRONG, "--%s: missing; this problem reads it, so name an .npy file", one->option);
  io_error error;
  io_array array;
  if (!io_array_read(one->path, &array, &error)) return cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
  int status = check_array(p, one, &array);
  if (status == CLI_DONE) {
    const int64_t bytes = array.count * (int64_t)falt_type_size(array.type);
    *one->operand = cli_allocate(bytes, one->option);
    if (*one->operand) memcpy(*one->operand, array.data, (size_t)bytes);
    if (!*one->operand) status = CLI_IMPOSSIBLE;
  }
  io_array_free(&array);
  return status;
}

static int write_slot(const falt_problem *p, const slot *one) {
  shape shapes[LAYOUTS];
  if (shapes_of(p, one, shapes) == 0) return fail_strides(one);
  io_array array = {.type = type_of(p, one), .rank = shapes[0].rank, .count = 1, .data = *one->operand};
  if (array.type == FALT_BF16) array.type = FALT_U16;
  for (int i = 0; i < array.rank; i++) array.size[i] = shapes[0].size[i], array.count *= array.size[i];
  io_error error;
  return io_array_write(one->path, &array, &error) ? CLI_DONE
                                                   : cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
}

/* What an operation reads and writes, by options. The gradient of a loss to the output is --grad. */
typedef struct layer_files {
  slot reads[6], writes[2];
  int read_count, write_count;
} layer_files;

static void add_read(layer_files *f, slot one) {
  f->reads[f->read_count++] = one;
}
static void add_write(layer_files *f, slot one) {
  f->writes[f->write_count++] = one;
}

static layer_files list_files(const cli_options *o, const falt_problem *p, falt_operands *set) {
  layer_files f = {.read_count = 0};
  const falt_operation op = p->operation;
  const bool backward = op == FALT_BACKWARD_DATA || op == FALT_BACKWARD_FILTER || op == FALT_BACKWARD_MAXPOOL ||
                        op == FALT_BACKWARD_AVGPOOL;
  const bool only_grad = op == FALT_BACKWARD_DATA || op == FALT_BACKWARD_AVGPOOL;
  if (!only_grad) add_read(&f, (slot){"input", o->input, &p->input, &set->input, false});
  if (backward)
    add_read(&f, (slot){"grad", o->grad ? o->grad : only_grad ? o->input : NULL, &p->output, &set->output, false});
  if (op == FALT_FORWARD || op == FALT_BACKWARD_DATA)
    add_read(&f, (slot){"weight", o->weight, &p->filter, &set->filter, true});
  if (op == FALT_FORWARD && p->has_scale) add_read(&f, (slot){"scale", o->scale, NULL, &set->scale, false});
  if (op == FALT_FORWARD && p->has_bias) add_read(&f, (slot){"bias", o->bias, NULL, &set->bias, false});
  if (op == FALT_FORWARD && p->has_residual)
    add_read(&f, (slot){"residual", o->residual, &p->residual, &set->residual, false});
  const falt_tensor *result = op == FALT_BACKWARD_FILTER                 ? &p->filter
                              : only_grad || op == FALT_BACKWARD_MAXPOOL ? &p->input
                                                                         : &p->output;
  add_write(&f, (slot){"output", o->output, result, cli_result(set, op), op == FALT_BACKWARD_FILTER});
  if (op == FALT_BACKWARD_FILTER && p->has_bias) add_write(&f, (slot){"bias", o->bias, NULL, &set->bias, false});
  return f;
}

static int allocate_results(const falt_problem *p, const layer_files *f) {
  for (int i = 0; i < f->write_count; i++) {
    const slot *one = &f->writes[i];
    if (!one->path)
      return cli_fail(CLI_WRONG, "--%s: missing; this problem writes it, so name an .npy file", one->option);
    const int64_t count = one->tensor ? falt_tensor_span(one->tensor) : cli_bias_count(p);
    *one->operand = cli_allocate(count * (int64_t)falt_type_size(type_of(p, one)), one->option);
    if (!*one->operand) return CLI_IMPOSSIBLE;
  }
  return CLI_DONE;
}

/* An option that this problem has no use for is a mistake worth saying. */
static int check_unused(const cli_options *o, const layer_files *f) {
  const struct {
    const char *name, *path;
  } given[] = {{"input", o->input}, {"weight", o->weight},     {"bias", o->bias},
               {"scale", o->scale}, {"residual", o->residual}, {"grad", o->grad}};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    bool used = !given[i].path;
    for (int j = 0; j < f->read_count; j++) used |= given[i].path == f->reads[j].path;
    for (int j = 0; j < f->write_count; j++) used |= given[i].path == f->writes[j].path;
    if (!used)
      return cli_fail(CLI_WRONG, "--%s: this problem does not use it; leave it out%s", given[i].name,
                      i >= 2 && i <= 4 ? " or add its word, such as bias=1, to the problem" : "");
  }
  return CLI_DONE;
}

static int run_plan(const cli_options *options, const cli_question *q, cli_operands *operands) {
  falt_plan *plan = NULL;
  falt_status done = falt_plan_create(&plan, q->device, &q->problem, &q->budget,
                                      q->problem.operation == FALT_BACKWARD_FILTER ? NULL : operands->set.filter);
  int status = done == FALT_OK ? cli_operands_workspace(operands, plan) : CLI_DONE;
  const double start = cli_seconds();
  if (done == FALT_OK && status == CLI_DONE) done = falt_execute_host(plan, &operands->set);
  if (done == FALT_OK && status == CLI_DONE && !options->quiet) {
    char text[512], time[32];
    falt_plan_print(plan, text, sizeof text);
    fprintf(stderr, "%s: %s, %s\n", q->line, text, cli_duration(cli_seconds() - start, time));
  }
  falt_plan_destroy(&plan);
  return done == FALT_OK ? status : cli_fail_library(done);
}

static int run_layer(const cli_options *options, const cli_question *q) {
  cli_operands operands = {.set = {.input = NULL}};
  const layer_files files = list_files(options, &q->problem, &operands.set);
  int status = check_unused(options, &files);
  for (int i = 0; i < files.read_count && status == CLI_DONE; i++) status = read_slot(&q->problem, &files.reads[i]);
  if (status == CLI_DONE) status = allocate_results(&q->problem, &files);
  if (status == CLI_DONE) status = run_plan(options, q, &operands);
  for (int i = 0; i < files.write_count && status == CLI_DONE; i++) status = write_slot(&q->problem, &files.writes[i]);
  cli_operands_free(&operands);
  return status;
}

int falt_verb_layer(const cli_options *options) {
  cli_question question;
  int status = cli_question_open(options, 0, &question);
  if (status == CLI_DONE && question.problem.is_filter)
    status = cli_fail(CLI_WRONG, "layer: %.20s is a filter; use `faltung correlate` or `faltung convolve` on files",
                      question.line);
  if (status == CLI_DONE) status = run_layer(options, &question);
  cli_question_close(&question);
  return status;
}
