/* Shapes, types and locations of a layer's arrays: the tensor that an option names, and the check of its file. */
#include "layer_files.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { RANK = 8 };

typedef struct shape {
  int rank;
  int64_t size[RANK];
} shape;

/* Memory orders by name, for each space; of equal orders files have the first. */
enum { LAYOUTS = 3 };
static const char *const data_layouts[4][LAYOUTS] = {{NULL}, {"ncw", "nwc"}, {"nchw", "nhwc"}, {"ncdhw", "ndhwc"}};
static const char *const filter_layouts[4][LAYOUTS] = {
    {NULL}, {"oiw", "owi", "wio"}, {"oihw", "ohwi", "hwio"}, {"oidhw", "odhwi", "dhwio"}};

/* Whether a dense tensor of this layout has the strides of t; dimensions of one element do not matter. */
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

/* Legal array shapes of a tensor, by layout, and a bit for each. None: the problem's strides are not dense. */
static unsigned shapes_of(const falt_problem *p, const cli_layer_file *one, shape shapes[LAYOUTS]) {
  if (!one->tensor) {
    shapes[0] = (shape){1, {cli_bias_count(p)}};
    return 1;
  }
  const char *const *layouts = (one->is_filter ? filter_layouts : data_layouts)[p->space];
  unsigned there = 0;
  for (int i = 0; i < LAYOUTS && layouts[i]; i++) {
    if (!lies_as(one->tensor, layouts[i])) continue;
    shapes[i] = shape_in(one->tensor, layouts[i]);
    there |= 1u << i;
  }
  return there;
}

static int first_of(unsigned layouts) {
  int i = 0;
  while (!(layouts >> i & 1)) i++;
  return i;
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

static falt_type type_of(const falt_problem *p, const cli_layer_file *one) {
  return one->tensor ? one->tensor->type : cli_bias_type(p);
}

static int fail_strides(const cli_layer_file *one) {
  return cli_fail(CLI_WRONG, "--%s: the problem's strides are of no layout that a file can have; leave them out",
                  one->option);
}

/* Removes from *layouts those in which data has another shape than the array. */
static int check_array(const falt_problem *p, const cli_layer_file *one, const io_array *array, unsigned *layouts) {
  char expected[160], found[160];
  shape shapes[LAYOUTS], have = {.rank = array->rank};
  const unsigned there = shapes_of(p, one, shapes);
  unsigned fits = 0;
  for (int i = 0; i < LAYOUTS; i++)
    if (there >> i & 1 && same_shape(&shapes[i], array)) fits |= 1u << i;
  for (int i = 0; i < array->rank; i++) have.size[i] = array->size[i];
  if (!there) return fail_strides(one);
  if (!fits)
    return cli_fail(CLI_WRONG, "--%s: %.200s is %s where the problem has %s; reshape it or change the problem",
                    one->option, one->path, print_shape(&have, found), print_shape(&shapes[first_of(there)], expected));
  if (one->tensor && !one->is_filter) *layouts &= fits;
  if (!same_type(type_of(p, one), array->type))
    return cli_fail(CLI_WRONG,
                    "--%s: %.200s holds %s where the problem has %s; convert it or change the problem's type",
                    one->option, one->path, falt_type_name(array->type), falt_type_name(type_of(p, one)));
  return CLI_DONE;
}

/* ---- which */

static cli_layer_file *add(cli_layer_files *f, const char *option, const char *path, const falt_tensor *tensor,
                           void **operand) {
  cli_layer_file *one = &f->file[f->count++];
  *one = (cli_layer_file){.option = option, .path = path, .tensor = tensor, .operand = operand};
  return one;
}

cli_layer_files cli_layer_files_list(const cli_options *o, const falt_problem *p, falt_operands *set) {
  cli_layer_files f = {.layouts = (1u << LAYOUTS) - 1};
  const falt_operation op = p->operation;
  const bool forward = op == FALT_FORWARD, by_data = op == FALT_BACKWARD_DATA, by_filter = op == FALT_BACKWARD_FILTER;
  const bool reads_input = !by_data && op != FALT_BACKWARD_AVGPOOL;
  const bool backward = by_data || by_filter || op == FALT_BACKWARD_MAXPOOL || op == FALT_BACKWARD_AVGPOOL;
  const falt_tensor *result = by_filter ? &p->filter : backward ? &p->input : &p->output;
  if (reads_input) add(&f, "input", o->input, &p->input, &set->input);
  if (backward) add(&f, "grad", o->grad || reads_input ? o->grad : o->input, &p->output, &set->output);
  if (forward || by_data) add(&f, "weight", o->weight, &p->filter, &set->filter)->is_filter = true;
  if (forward && p->has_scale) add(&f, "scale", o->scale, NULL, &set->scale);
  if (p->has_bias) add(&f, "bias", o->bias, NULL, &set->bias)->is_written = by_filter;
  if (forward && p->has_residual) add(&f, "residual", o->residual, &p->residual, &set->residual);
  cli_layer_file *output = add(&f, "output", o->output, result, cli_result(set, op));
  output->is_filter = by_filter;
  output->is_written = true;
  return f;
}

/* An option that this problem has no use for is a mistake worth saying. */
static int check_unused(const cli_layer_files *f, const cli_options *o) {
  const struct {
    const char *name, *path;
  } given[] = {{"input", o->input}, {"weight", o->weight},     {"bias", o->bias},
               {"scale", o->scale}, {"residual", o->residual}, {"grad", o->grad}};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    bool used = !given[i].path;
    for (int j = 0; j < f->count; j++) used |= given[i].path == f->file[j].path;
    if (!used)
      return cli_fail(CLI_WRONG, "--%s: this problem does not use it; leave it out%s", given[i].name,
                      i >= 2 && i <= 4 ? " or add its word, such as bias=1, to the problem" : "");
  }
  return CLI_DONE;
}

/* The other file that is the same stream; NULL if there is none. */
static const cli_layer_file *sharer(const cli_layer_files *f, const cli_layer_file *one) {
  for (const cli_layer_file *other = f->file; other < one; other++)
    if (other->is_written == one->is_written && strcmp(other->path, "-") == 0) return other;
  return NULL;
}

static int check_path(const cli_layer_files *f, const cli_layer_file *one, const cli_options *o) {
  if (!one->path)
    return cli_fail(CLI_WRONG, "--%s: missing; this problem %s it, so name a file", one->option,
                    one->is_written ? "writes" : "reads");
  if (strcmp(one->path, "-") != 0) return CLI_DONE;
  if (one->is_written && (o->json || o->explain))
    return cli_fail(CLI_WRONG, "--%s: standard output carries the array already; write to a file",
                    o->json ? "json" : "explain");
  const cli_layer_file *other = sharer(f, one);
  if (!other) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--%s: standard %s is --%s already; name a file", one->option,
                  one->is_written ? "output" : "input", other->option);
}

int cli_layer_files_check(const cli_layer_files *f, const cli_options *o) {
  int status = check_unused(f, o);
  for (int i = 0; i < f->count && status == CLI_DONE; i++) status = check_path(f, &f->file[i], o);
  return status;
}

/* ---- in */

static int read_file(const falt_problem *p, const cli_layer_file *one, unsigned *layouts) {
  io_error error;
  io_array array;
  if (!io_array_read(one->path, &array, &error)) return cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
  int status = check_array(p, one, &array, layouts);
  if (status == CLI_DONE) {
    const int64_t bytes = array.count * (int64_t)falt_type_size(array.type);
    *one->operand = cli_allocate(bytes, one->option);
    if (*one->operand) memcpy(*one->operand, array.data, (size_t)bytes);
    if (!*one->operand) status = CLI_IMPOSSIBLE;
  }
  io_array_free(&array);
  return status;
}

int cli_layer_files_read(cli_layer_files *f, const falt_problem *p) {
  int status = CLI_DONE;
  for (int i = 0; i < f->count && status == CLI_DONE; i++)
    if (!f->file[i].is_written) status = read_file(p, &f->file[i], &f->layouts);
  return status;
}

/* ---- out */

static int64_t bytes_of(const falt_problem *p, const cli_layer_file *one) {
  const int64_t count = one->tensor ? falt_tensor_span(one->tensor) : cli_bias_count(p);
  return count * (int64_t)falt_type_size(type_of(p, one));
}

double cli_layer_files_bytes(const cli_layer_files *f, const falt_problem *p, bool written) {
  double bytes = 0;
  for (int i = 0; i < f->count; i++)
    if (f->file[i].is_written == written) bytes += (double)bytes_of(p, &f->file[i]);
  return bytes;
}

static int create_file(const falt_problem *p, cli_layer_file *one) {
  shape shapes[LAYOUTS];
  if (!shapes_of(p, one, shapes)) return fail_strides(one);
  *one->operand = cli_allocate(bytes_of(p, one), one->option);
  if (!*one->operand) return CLI_IMPOSSIBLE;
  io_error error;
  one->writer = io_array_create(one->path, &error);
  return one->writer ? CLI_DONE : cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
}

int cli_layer_files_create(cli_layer_files *f, const falt_problem *p) {
  int status = CLI_DONE;
  for (int i = 0; i < f->count && status == CLI_DONE; i++)
    if (f->file[i].is_written) status = create_file(p, &f->file[i]);
  return status;
}

static int write_file(const falt_problem *p, const cli_layer_file *one, unsigned layouts) {
  shape shapes[LAYOUTS];
  const unsigned there = shapes_of(p, one, shapes);
  const shape *s = &shapes[first_of(there & layouts ? there & layouts : there)];
  io_array array = {.type = type_of(p, one), .rank = s->rank, .count = 1, .data = *one->operand};
  if (array.type == FALT_BF16) array.type = FALT_U16;
  for (int i = 0; i < array.rank; i++) array.size[i] = s->size[i], array.count *= array.size[i];
  io_error error;
  if (io_array_write(one->writer, &array, &error)) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
}

static int finish_file(cli_layer_file *one) {
  io_error error;
  if (io_array_finish(&one->writer, &error)) return CLI_DONE;
  return cli_fail(CLI_WRONG, "--%s: %s", one->option, error.text);
}

int cli_layer_files_write(cli_layer_files *f, const falt_problem *p) {
  int status = CLI_DONE;
  for (int i = 0; i < f->count && status == CLI_DONE; i++)
    if (f->file[i].is_written) status = write_file(p, &f->file[i], f->layouts);
  for (int i = 0; i < f->count && status == CLI_DONE; i++)
    if (f->file[i].is_written) status = finish_file(&f->file[i]);
  return status;
}

void cli_layer_files_abandon(cli_layer_files *f) {
  for (int i = 0; i < f->count; i++)
    if (f->file[i].writer) io_array_abandon(&f->file[i].writer);
}
