/* Words of other libraries and the problem line's word for each. They are refused, not accepted: a line has one
 * spelling for each thing, except for the aliases of boundaries. */
#include <ctype.h>
#include <string.h>

#include "problem/words.h"

/* A table of words: its rows look alike. kind: the word whose value it is; "word" for words themselves, "operation" for
 * the first one. */
static const struct {
  const char *kind, *others, *write; /* others: separated by blanks, in small letters */
} hints[] = {
    {"operation", "conv conv1d conv2d conv3d convolution fprop layer", "forward"},
    {"operation", "filter filter2d correlate1d correlate2d cross-correlation", "correlate"},
    {"operation", "convolve1d convolve2d fftconvolve", "convolve"},
    {"operation",
     "conv_transpose conv_transpose2d convtranspose2d transposed deconvolution deconv dgrad bwd_data backward_data",
     "backward-data"},
    {"operation", "wgrad bwd_weight bwd_weights backward_filter backward_weights backward-weights", "backward-filter"},
    {"operation", "max_pool2d maxpool2d max-pool", "maxpool"},
    {"operation", "avg_pool2d avgpool2d avg-pool meanpool", "avgpool"},
    {"word", "padding pads pad_h pad_w ph pw", "pad=1, or pad=1x2 for height and width"},
    {"word", "strides stride_h stride_w sh sw step", "stride=2, or stride=2x1 for height and width"},
    {"word", "dilations dilation_rate dilation_h dilation_w dh dw", "dilation=2, where 1 means none"},
    {"word", "kernel_size kernel ksize kernel_shape filter_size kh kw kd",
     "r=3 s=3 (t=3 r=3 s=3 in 3D): height and width"},
    {"word", "in_channels input_channels ic channels", "c=64"},
    {"word", "out_channels output_channels oc features", "k=64"},
    {"word", "batch batch_size mb", "n=8"},
    {"word", "height ih", "h=224"},
    {"word", "width iw length", "w=224"},
    {"word", "depth id", "d=32"},
    {"word", "group g", "groups=2"},
    {"word", "padding_mode border border_type bordertype border_mode", "boundary=edge"},
    {"word", "same valid full", "mode=same, mode=valid or mode=full for filters; layers take pad=1"},
    {"word", "cval fillvalue fill_value", "value=0"},
    {"word", "dtype data_type", "type=f32"},
    {"word", "data_format format", "layout=nhwc"},
    {"word", "activation relu", "act=relu"},
    {"word", "output_size output_shape", "out=112x112"},
    {"word", "device threads", "--device or --threads: options of the command"},
    {"pad", "same", "pad=1 for 3 taps, pad=2 for 5: layers have no pad=same"},
    {"pad", "valid", "pad=0"},
    {"boundary", "zero zeros zeropad zeropad2d grid-constant black", "boundary=constant"},
    {"boundary", "replication replicationpad replicationpad2d border_replicate copy extend", "boundary=edge"},
    {"boundary", "symm border_reflect grid-mirror", "boundary=symmetric"},
    {"boundary", "reflection reflectionpad reflectionpad2d reflect_101 reflect-101 border_reflect_101 border_default",
     "boundary=reflect101"},
    {"boundary", "grid-wrap border_wrap circularpad repeat torus", "boundary=wrap"},
    {"boundary", "same valid full none", "mode=same, mode=valid or mode=full; a boundary is another thing"},
    {"type", "float float32 fp32 single", "f32"},
    {"type", "double float64 fp64", "f64"},
    {"type", "half float16 fp16", "f16"},
    {"type", "bfloat16", "bf16"},
    {"type", "uint8 byte", "u8"},
    {"type", "int8 i8", "s8"},
    {"type", "uint16", "u16"},
    {"type", "int16 i16", "s16"},
    {"type", "int int32 i32", "s32"},
    {"layout", "channels_last channels-last", "layout=nhwc"},
    {"layout", "channels_first channels-first", "layout=nchw"},
    {"act", "none linear", "act=identity"},
    {"act", "leaky_relu leakyrelu lrelu", "act=leaky:0.01"},
    {"act", "swish", "act=silu"},
    {"act", "hardtanh clamp", "act=clip:-1:1"},
};

/* Whether text is one of the words in a list; capitals do not matter. */
static bool is_among(const char *list, const char *text, size_t length) {
  while (*list) {
    const size_t size = strcspn(list, " ");
    size_t i = 0;
    while (i < size && size == length && tolower((unsigned char)text[i]) == list[i]) i++;
    if (i == length && size == length) return true;
    list += size + (list[size] == ' ');
  }
  return false;
}

const char *falt_word_hint(const char *kind, const char *text, size_t length) {
  const size_t kind_length = strlen(kind);
  const bool is_type = kind_length >= 4 && strcmp(kind + kind_length - 4, "type") == 0;
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
    const bool same_kind = strcmp(hints[i].kind, is_type || strcmp(kind, "acc") == 0 ? "type" : kind) == 0;
    if (same_kind && is_among(hints[i].others, text, length)) return hints[i].write;
  }
  return NULL;
}
