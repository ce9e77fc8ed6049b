/* Helpers of all CUDA solvers: refusals, the accumulator type, uploads, the fallback lists, and kernel argument
 * structs. */
#include "solver/cuda/common/cuda.h"

#include <math.h>
#include <stdio.h>

falt_plan *falt_cuda_refuse(falt_ask *ask, falt_status status) {
  ask->no_memory = status == FALT_NO_MEMORY;
  return falt_refuse(ask, "%.150s", falt_message());
}

double falt_cuda_bound(const falt_problem *p) {
  const falt_tensor *factor = falt_problem_factor(p, 0);
  const double constant = factor == &p->input ? p->boundary_value : 0;
  if (falt_is_pooling(p->operation) || constant != rint(constant)) return INFINITY;
  return (double)falt_problem_depth(p) * fmax(falt_type_largest(factor->type), fabs(constant)) *
         falt_type_largest(falt_problem_factor(p, 1)->type);
}

const char *falt_cuda_sum(const falt_problem *p, const char *real) {
  const double bound = falt_cuda_bound(p);
  if (isinf(bound) || fabs(p->boundary_value) >= 0x1p53) return real;
  return bound < 0x1p62 ? "long long" : "__int128";
}

bool falt_cuda_finishes_in_float(const falt_problem *p) {
  const falt_type y = p->output.type;
  if (y == FALT_F64 || p->input.type == FALT_F64) return false;
  if (!falt_type_is_integer(p->filter.type) || !falt_type_is_integer(y)) return true;
  if (fabs(p->beta) >= 0x1p23 || (p->has_residual && p->residual.type == FALT_S32)) return false;
  return falt_type_is_byte(y) || (y != FALT_S32 && falt_cuda_bound(p) < 0x1p24);
}

bool falt_cuda_is_flat(const falt_problem *p) {
  return p->input.size[FALT_D] == 1 && p->output.size[FALT_D] == 1 && p->filter.size[FALT_D] == 1 &&
         p->axis[0].pad[0] == 0;
}

bool falt_cuda_one_filter(const falt_problem *p) {
  return p->filter.size[FALT_K] == 1 && (p->filter.size[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
}

falt_machine falt_cuda_machine(const falt_device *device) {
  const falt_gpu_facts *gpu = falt_gpu_about(device->gpu);
  return (falt_machine){.arch = gpu->architecture,
                        .multiprocessors = gpu->multiprocessors,
                        .bytes_per_s = device->limits.copy_bytes_per_s,
                        .flops = device->limits.f32_flops,
                        .wide_flops = device->limits.f64_flops,
                        .clock_hz = 1e3 * gpu->clock_khz,
                        .cache_bytes = gpu->l2_bytes};
}

falt_status falt_cuda_upload(falt_gpu *gpu, void **memory, const void *from, size_t bytes) {
  FALT_TRY(falt_gpu_allocate(gpu, memory, bytes));
  return falt_gpu_copy_in(gpu, *memory, from, bytes);
}

extern const falt_solver falt_solver_cuda_igemm, falt_solver_cuda_igemm_sm90, falt_solver_cuda_wgrad,
    falt_solver_cuda_generic, falt_solver_cuda_depthwise, falt_solver_cuda_depthwise_wgrad;
const falt_solver *const falt_cuda_fallbacks[] = {&falt_solver_cuda_igemm, &falt_solver_cuda_wgrad,
                                                  &falt_solver_cuda_generic, NULL};
const falt_solver *const falt_cuda_products_solvers[] = {&falt_solver_cuda_igemm_sm90, &falt_solver_cuda_igemm, NULL};
const falt_solver *const falt_cuda_depthwise_fallbacks[] = {&falt_solver_cuda_depthwise,
                                                            &falt_solver_cuda_depthwise_wgrad, NULL};

char *falt_cuda_element(void *data, const falt_tensor *t) {
  return data ? (char *)data + t->offset * (int64_t)falt_type_size(t->type) : NULL;
}

int64_t falt_cuda_stride(const falt_tensor *t, int dim) {
  return t->size[dim] == 1 ? 0 : t->stride[dim];
}

falt_cuda_tensor falt_cuda_tensor_of(const falt_tensor *t) {
  falt_cuda_tensor made = {.type = (int)t->type};
  for (int i = 0; i < FALT_DIMS; i++) {
    made.size[i] = t->size[i];
    made.stride[i] = t->stride[i];
  }
  return made;
}

falt_cuda_axis falt_cuda_axis_of(const falt_axis *a) {
  return (falt_cuda_axis){a->stride, a->dilation, {a->pad[0], a->pad[1]}, {(int)a->boundary[0], (int)a->boundary[1]}};
}

falt_cuda_epilogue falt_cuda_epilogue_of(const falt_problem *p) {
  return (falt_cuda_epilogue){.alpha = p->alpha,
                              .beta = p->beta,
                              .act_a = p->act_a,
                              .act_b = p->act_b,
                              .vector_type = (int)falt_type_real(p->output.type),
                              .activation = (int)p->activation};
}

bool falt_cuda_epilogue_is_linear(const falt_problem *p) {
  return !p->has_scale && !p->has_bias && !p->has_residual && p->activation == FALT_IDENTITY;
}

int falt_cuda_epilogue_parts(const falt_problem *p) {
  return falt_epilogue_is_identity(p) ? 0 : falt_cuda_epilogue_is_linear(p) ? 1 : 2;
}

void falt_cuda_epilogue_bind(falt_cuda_epilogue *epilogue, const falt_problem *p, const falt_operands *o) {
  if (p->has_bias) epilogue->bias = o->bias;
  if (p->has_scale) epilogue->scale = o->scale;
}
