/* Conversion of rows of one element type to lanes and back. A template without include guard; filter_move_tmpl.c
 * includes it for each ELEMENT. */

/* Parameters of the template:
 *   NAME(f)       f with the element's suffix
 *   FROM(x)       element to a number of at most the element's precision
 *   TO_F32(x)     f32 to element, rounded once
 *   TO_F64(x)     f64 to element, rounded once
 *   ARITHMETIC    how the epilogue of f32 sums is computed
 *   LOAD, STORE   VEC elements, where compilers do not vectorize the conversion
 *   LOWEST, HIGHEST  the range, for integers of at most 16 bits whose ARITHMETIC is IN_F32_IF_EXACT (beta is 0 then)
 */

FALT_INLINE void NAME(into_f32)(float *dst, const ELEMENT *src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = (float)FROM(src[i * stride]);
}
FALT_INLINE void NAME(into_f64)(double *dst, const ELEMENT *src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = (double)FROM(src[i * stride]);
}

#ifdef LOAD
/* Neighbours, a register at a time. */
static void NAME(neighbours)(float *dst, const ELEMENT *src, int64_t n) {
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC) vec_store(dst + i, LOAD(src + i));
  NAME(into_f32)(dst + i, src + i, 1, n - i);
}
#else
static void NAME(neighbours)(float *dst, const ELEMENT *src, int64_t n) {
  NAME(into_f32)(dst, src, 1, n);
}
#endif

/* Strides that compilers vectorise when they know them have their own loops. */
static void NAME(load_f32)(void *dst, const void *src, int64_t stride, int64_t n) {
  if (stride == 1)
    NAME(neighbours)(dst, src, n);
  else if (stride == 2)
    NAME(into_f32)(dst, src, 2, n);
  else if (stride == -1)
    NAME(into_f32)(dst, src, -1, n);
  else
    NAME(into_f32)(dst, src, stride, n);
}
static void NAME(load_f64)(void *dst, const void *src, int64_t stride, int64_t n) {
  if (stride == 1)
    NAME(into_f64)(dst, src, 1, n);
  else
    NAME(into_f64)(dst, src, stride, n);
}

FALT_INLINE void NAME(out_in_f32)(ELEMENT *dst, int64_t stride, const float *src, int64_t n,
                                  const falt_row_epilogue *e) {
  float alpha = (float)e->alpha, beta = (float)e->beta, low = (float)e->low, high = (float)e->high;
  for (int64_t i = 0; i < n; i++) dst[i * stride] = TO_F32(clip_f32(alpha * src[i] + beta, low, high));
}
FALT_INLINE void NAME(out_in_f64)(ELEMENT *dst, int64_t stride, const void *src, bool src_f32, int64_t n,
                                  const falt_row_epilogue *e) {
  double alpha = e->alpha, beta = e->beta, low = e->low, high = e->high;
  for (int64_t i = 0; i < n; i++) {
    double sum = src_f32 ? (double)((const float *)src)[i] : ((const double *)src)[i];
    dst[i * stride] = TO_F64(clip_f64(alpha * sum + beta, low, high));
  }
}

#ifdef LOWEST
/* Small integers, a register at a time: clipping and saturation are one range. */
static void NAME(out_rounded)(ELEMENT *dst, const float *src, int64_t n, const falt_row_epilogue *e) {
  vec low = vec_all(clip_f32((float)e->low, LOWEST, HIGHEST)),
      high = vec_all(clip_f32((float)e->high, LOWEST, HIGHEST));
  vec alpha = vec_all((float)e->alpha);
  int64_t i = 0;
  for (; i + 4 * VEC <= n; i += 4 * VEC) {
    vec_bits rounded[4];
    FALT_UNROLL
    for (int k = 0; k < 4; k++)
      rounded[k] = vec_round(vec_at_most(vec_at_least(vec_load(src + i + k * VEC) * alpha, low), high));
    store_four(dst + i, sizeof(ELEMENT), rounded);
  }
  for (; i + VEC <= n; i += VEC) {
    vec inside = vec_at_most(vec_at_least(vec_load(src + i) * alpha, low), high);
    store_narrow(dst + i, sizeof(ELEMENT), vec_round(inside));
  }
  NAME(out_in_f32)(dst + i, 1, src + i, n - i, e);
}
#elif defined(STORE)
static void NAME(out_rounded)(ELEMENT *dst, const float *src, int64_t n, const falt_row_epilogue *e) {
  const vec alpha = vec_all((float)e->alpha), beta = vec_all((float)e->beta);
  const vec low = vec_all((float)e->low), high = vec_all((float)e->high);
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC) STORE(dst + i, vec_at_most(vec_at_least(vec_load(src + i) * alpha + beta, low), high));
  NAME(out_in_f32)(dst + i, 1, src + i, n - i, e);
}
#else
static void NAME(out_rounded)(ELEMENT *dst, const float *src, int64_t n, const falt_row_epilogue *e) {
  NAME(out_in_f32)(dst, 1, src, n, e);
}
#endif

static void NAME(convert_f32)(void *dst, int64_t stride, const void *src, int64_t n, const falt_row_epilogue *e) {
  bool f32 = ARITHMETIC == IN_F32 || (ARITHMETIC == IN_F32_IF_EXACT && exact_in_f32(e));
  if (f32 && stride == 1)
    NAME(out_rounded)(dst, src, n, e);
  else if (f32)
    NAME(out_in_f32)(dst, stride, src, n, e);
  else if (stride == 1)
    NAME(out_in_f64)(dst, 1, src, true, n, e);
  else
    NAME(out_in_f64)(dst, stride, src, true, n, e);
}
static void NAME(convert_f64)(void *dst, int64_t stride, const void *src, int64_t n, const falt_row_epilogue *e) {
  if (stride == 1)
    NAME(out_in_f64)(dst, 1, src, false, n, e);
  else
    NAME(out_in_f64)(dst, stride, src, false, n, e);
}

static void NAME(store_f32)(void *dst, int64_t stride, const void *src, int64_t n, const falt_row_epilogue *e,
                            bool stream) {
  if (stream && stride == 1)
    stream_row(NAME(convert_f32), dst, sizeof(ELEMENT), src, sizeof(float), n, e);
  else
    NAME(convert_f32)(dst, stride, src, n, e);
}
static void NAME(store_f64)(void *dst, int64_t stride, const void *src, int64_t n, const falt_row_epilogue *e,
                            bool stream) {
  if (stream && stride == 1)
    stream_row(NAME(convert_f64), dst, sizeof(ELEMENT), src, sizeof(double), n, e);
  else
    NAME(convert_f64)(dst, stride, src, n, e);
}

static void NAME(fill)(falt_filter_kernels *kernels, falt_type type) {
  kernels->load[FALT_LANE_F32][type] = NAME(load_f32);
  kernels->load[FALT_LANE_F64][type] = NAME(load_f64);
  kernels->store[FALT_LANE_F32][type] = NAME(store_f32);
  kernels->store[FALT_LANE_F64][type] = NAME(store_f64);
}

#undef ELEMENT
#undef NAME
#undef FROM
#undef TO_F32
#undef TO_F64
#undef ARITHMETIC
#undef LOAD
#undef STORE
#undef LOWEST
#undef HIGHEST
