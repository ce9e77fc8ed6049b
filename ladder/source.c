/* The source of a step, for reading: the embedded file without the code of its other steps. Kernels keep a step between
 * "#if STEP == N" and "#endif", the CPU's files below a line "---- step N, NAME". */
#include <string.h>

#include "ladder/cuda.h"

extern const falt_cuda_source ladder_sources[];

const ladder_track ladder_tracks[] = {
    {"1d 2d 3d", false, ladder_cpu, "cpu.c"},
    {"layer", false, ladder_cpu_layer, "cpu_layer.c"},
    {"layer", false, ladder_cpu_pooled, "cpu_layer.c"},
    {"fft", false, ladder_cpu_fft, "cpu_fft.c"},
    {"fft", false, ladder_cpu_fft_image, "cpu_fft_image.c"},
    {"1d", true, ladder_cuda_signal, NULL},
    {"2d", true, ladder_cuda_image, NULL},
    {"3d", true, ladder_cuda_volume, NULL},
    {"layer", true, ladder_cuda_layer, NULL},
    {"layer", true, ladder_cuda_pooled, NULL},
    {"fft", true, ladder_cuda_fft, NULL},
    {"fft", true, ladder_cuda_fft_image, NULL},
    {.names = NULL},
};

static const char *text_of(const char *name) {
  for (const falt_cuda_source *s = ladder_sources; s->name; s++)
    if (strcmp(s->name, name) == 0) return s->text;
  return "";
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

static bool starts_with(const char *line, const char *start) {
  return strncmp(line, start, strlen(start)) == 0;
}

/* ---- kernels */

/* 0 in a line outside the steps, else the number of the step that begins there. */
static int kernel_step(const char *line) {
  int step = 0;
  return sscanf(line, "#if STEP == %d", &step) == 1 ? step : 0;
}

static bool has_step(const ladder_step *step, int number) {
  for (int i = 0; i < 3 && step->kernel[i]; i++)
    if (step->kernel[i]->step == number) return true;
  return false;
}

static void print_kernels(FILE *file, const ladder_step *step) {
  bool wanted = true, inside = false;
  const char *next;
  for (const char *line = text_of(step->kernel[0]->source); *line; line = next) {
    next = next_line(line);
    if (kernel_step(line)) {
      wanted = has_step(step, kernel_step(line));
      inside = true;
      continue;
    }
    if (inside && starts_with(line, "#endif")) {
      inside = false;
      if (!wanted && *next == '\n') next++;
      wanted = true;
      continue;
    }
    if (wanted) fwrite(line, 1, (size_t)(next - line), file);
  }
}

/* ---- functions of the CPU */

/* Of "---- step 4, vectorised: ...": is it this step's? */
static bool is_section_of(const char *line, const char *name) {
  const char *comma = strchr(line, ',');
  return comma && comma < strchr(line, '\n') && starts_with(comma + 2, name);
}

static void print_functions(FILE *file, const char *name, const char *text) {
  bool wanted = true;
  const char *next;
  for (const char *line = text; *line; line = next) {
    next = next_line(line);
    if (starts_with(line, "/* ---- ")) wanted = is_section_of(line, name);
    if (wanted) fwrite(line, 1, (size_t)(next - line), file);
  }
}

const char *ladder_source_name(const ladder_track *track, const ladder_step *step) {
  return step->kernel[0] ? step->kernel[0]->source : step->solver ? NULL : track->file;
}

void ladder_print_source(FILE *file, const ladder_track *track, const ladder_step *step) {
  if (step->kernel[0])
    print_kernels(file, step);
  else if (!step->solver)
    print_functions(file, step->name, text_of(track->file));
}
