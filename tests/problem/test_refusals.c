/* Problem lines and problems that are refused, and with which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "problem/problem.h"

enum { LONGEST = 2048 };

static void parse(falt_problem *problem, const char *line) {
  falt_status status = falt_problem_parse(problem, NULL, line);
  if (status != FALT_OK) fail_msg("%s: %s", line, falt_message());
}

static void test_bad_lines(void **state) {
  (void)state;
  static const struct {
    const char *line;
    falt_status status;
    const char *says;
  } bad[] = {
      {"", FALT_INVALID_TEXT, "empty"},
      {" \t ", FALT_INVALID_TEXT, "empty"},
      {"corelate h=9 w=9 r=3 s=3", FALT_INVALID_TEXT, "unknown operation 'corelate'; did you mean 'correlate'?"},
      {"h=9 w=9", FALT_INVALID_TEXT, "unknown operation"},
      {"conv2d c=4 k=4 h=9 w=9 r=3 s=3", FALT_INVALID_TEXT, "unknown operation 'conv2d'; write forward"},
      {"dgrad c=4 k=4 h=9 w=9 r=3 s=3", FALT_INVALID_TEXT, "unknown operation 'dgrad'; write backward-data"},
      {"forward c=4 k=4 h=9 w=9 r=3 s=3 padding=1", FALT_INVALID_TEXT, "unknown word 'padding'; write pad=1"},
      {"forward c=4 k=4 h=9 w=9 kernel_size=3", FALT_INVALID_TEXT, "unknown word 'kernel_size'; write r=3 s=3"},
      {"forward c=4 k=4 h=9 w=9 r=3 s=3 strides=2", FALT_INVALID_TEXT, "unknown word 'strides'; write stride=2"},
      {"forward in_channels=4 k=4 h=9 w=9 r=3 s=3", FALT_INVALID_TEXT, "unknown word 'in_channels'; write c=64"},
      {"forward c=4 k=4 h=9 w=9 r=3 s=3 pad=same", FALT_INVALID_TEXT, "pad=same: unknown; write pad=1 for 3 taps"},
      {"forward c=4 k=4 h=9 w=9 r=3 s=3 same", FALT_INVALID_TEXT, "unknown word 'same'; write mode=same"},
      {"forward c=4 k=4 w=9 s=3 boundary=zeros", FALT_INVALID_TEXT, "boundary=zeros: unknown; write boundary=constant"},
      {"correlate w=9 s=3 boundary=ReflectionPad2d", FALT_INVALID_TEXT, "unknown; write boundary=reflect101"},
      {"correlate w=9 s=3 boundary=x=BORDER_REFLECT", FALT_INVALID_TEXT, "unknown; write boundary=symmetric"},
      {"correlate w=9 s=3 type=float32", FALT_INVALID_TEXT, "type=float32: unknown; write type=f32"},
      {"correlate w=9 s=3 out-type=half", FALT_INVALID_TEXT, "out-type=half: unknown; write out-type=f16"},
      {"forward c=4 k=4 w=9 s=3 layout=channels_last", FALT_INVALID_TEXT, "unknown; write layout=nhwc"},
      {"forward c=4 k=4 w=9 s=3 act=swish", FALT_INVALID_TEXT, "act=swish: unknown; write act=silu"},
      {"correlate h=9 w=9 r=3 s=3 strid=2", FALT_INVALID_TEXT, "unknown word 'strid'; did you mean 'stride'?"},
      {"correlate h=9 w=9 r=3 s=3 qqqqqqqqqq=2", FALT_INVALID_TEXT, "docs/guide/problem-line.md"},
      {"correlate h=9 w=9 r=3 s=3 groups=2", FALT_INVALID_TEXT, "'groups' is no word of correlate"},
      {"forward c=1 k=1 w=9 s=3 pixel=2", FALT_INVALID_TEXT, "'pixel' is no word of forward"},
      {"maxpool w=9 s=3 alpha=2", FALT_INVALID_TEXT, "'alpha' is no word of maxpool"},
      {"correlate h=9 w=9 r=3 s=3 tf32=1", FALT_INVALID_TEXT, "budget"},
      {"correlate h=9 h=9 w=9 r=3 s=3", FALT_INVALID_TEXT, "'h' is given twice"},
      {"correlate h w=9 r=3 s=3", FALT_INVALID_TEXT, "'h' has no value"},
      {"correlate h= w=9 r=3 s=3", FALT_INVALID_TEXT, "'h' has no value"},
      {"correlate", FALT_INVALID_TEXT, "w is missing"},
      {"correlate h=9 r=3 s=3", FALT_INVALID_TEXT, "w is missing"},
      {"correlate d=9 w=9 t=3 s=3", FALT_INVALID_TEXT, "h is missing"},
      {"correlate h=9 w=9 s=3", FALT_INVALID_TEXT, "r is missing"},
      {"correlate w=9 r=3 s=3", FALT_INVALID_TEXT, "r needs h"},
      {"forward w=9 s=3 k=2", FALT_INVALID_TEXT, "c is missing"},
      {"forward w=9 s=3 c=2", FALT_INVALID_TEXT, "k is missing"},
      {"correlate h=0 w=9 r=3 s=3", FALT_INVALID_SIZE, "h=0"},
      {"correlate h=-4 w=9 r=3 s=3", FALT_INVALID_SIZE, "h=-4"},
      {"correlate h=99999999999999999999 w=9 r=3 s=3", FALT_INVALID_SIZE, "2^63"},
      {"correlate h=9223372036854775807 w=9 r=3 s=3", FALT_INVALID_SIZE, "problem:"},
      {"correlate h=4294967296 w=4294967296 r=3 s=3", FALT_INVALID_SIZE, "2^63"},
      {"forward n=2097152 c=2097152 h=2097152 w=4 k=1 r=1 s=1", FALT_INVALID_SIZE, "2^63"},
      {"correlate w=9 s=9223372036854775807", FALT_INVALID_SIZE, "below 2^60"},
      {"correlate w=9 s=1000000000000000000 dilation=3", FALT_INVALID_SIZE, "taps"},
      {"correlate w=9 s=3 dilation=9223372036854775807", FALT_INVALID_SIZE, "dilation"},
      {"correlate w=9 s=3 stride=9223372036854775807", FALT_INVALID_SIZE, "stride"},
      {"correlate w=9 s=3 pad=9223372036854775807", FALT_INVALID_SIZE, "pad"},
      {"correlate w=9 s=3 out=9223372036854775807", FALT_INVALID_SIZE, "problem:"},
      {"correlate w=9.5 s=3", FALT_INVALID_TEXT, "whole number"},
      {"correlate w=9 s=3 stride=0", FALT_INVALID_SIZE, "at least 1"},
      {"correlate w=9 s=3 dilation=-1", FALT_INVALID_SIZE, "at least 1"},
      {"correlate w=9 s=3 stride=1x2", FALT_INVALID_TEXT, "2 numbers for 1 axes"},
      {"correlate w=9 s=3 stride=1x2x3x4", FALT_INVALID_TEXT, "three"},
      {"correlate w=9 s=3 stride=1x", FALT_INVALID_TEXT, "whole number"},
      {"correlate w=3 s=9 mode=valid", FALT_INVALID_SHAPE, "no output on axis w"},
      {"correlate w=3 s=3 dilation=2 mode=valid", FALT_INVALID_SHAPE, "covers 5"},
      {"forward c=1 k=1 w=3 s=9", FALT_INVALID_SHAPE, "no output on axis w"},
      {"forward c=1 k=1 w=5 s=3 pool=max:4", FALT_INVALID_SHAPE, "pool takes 4 values and the sums are 3"},
      {"forward c=1 k=1 w=5 s=3 pool=2", FALT_INVALID_TEXT, "max:SIZE is expected"},
      {"forward c=1 k=1 w=5 s=3 pool=max:", FALT_INVALID_TEXT, "max:SIZE is expected"},
      {"forward c=1 k=1 w=5 s=3 pool=max:0", FALT_INVALID_SIZE, "at least 1"},
      {"forward c=1 k=1 w=5 s=3 pool=max:2x2", FALT_INVALID_TEXT, "2 numbers for 1 axes"},
      {"forward c=1 k=1 w=5 s=3 pool=max:3 residual=1", FALT_INVALID_ARGUMENT, "pool and residual"},
      {"backward-data c=1 k=1 w=5 s=3 pool=max:3", FALT_INVALID_ARGUMENT, "only forward layers"},
      {"correlate w=5 s=3 pool=max:3", FALT_INVALID_TEXT, "pool"},
      {"correlate w=9 s=3 mode=sane", FALT_INVALID_TEXT, "did you mean 'same'?"},
      {"correlate w=9 s=3 mode=zzz", FALT_INVALID_TEXT, "same valid full"},
      {"correlate w=9 s=3 anchor=3", FALT_INVALID_SHAPE, "anchor 3"},
      {"correlate w=9 s=3 anchor=-1", FALT_INVALID_SHAPE, "anchor -1"},
      {"correlate w=9 s=4 origin=2", FALT_INVALID_SHAPE, "(-2 to 1)"},
      {"convolve w=9 s=4 origin=-3", FALT_INVALID_SHAPE, "(-2 to 1)"},
      {"correlate w=9 s=3 anchor=1 origin=0", FALT_INVALID_TEXT, "anchor and origin exclude"},
      {"correlate w=9 s=3 anchor=1 mode=full", FALT_INVALID_TEXT, "exclude"},
      {"correlate w=9 s=3 mode=same out=9", FALT_INVALID_TEXT, "out and mode"},
      {"correlate w=9 s=3 pad=1 anchor=1", FALT_INVALID_TEXT, "pad and anchor"},
      {"correlate c=2 pixel=2 w=9 s=3", FALT_INVALID_TEXT, "c and pixel"},
      {"correlate w=9 s=3 boundary=reflect", FALT_INVALID_TEXT, "c b a [a b c d] d c b"},
      {"correlate w=9 s=3 boundary=mirror", FALT_INVALID_TEXT, "d c b [a b c d] c b a"},
      {"correlate w=9 s=3 boundary=symetric", FALT_INVALID_TEXT, "did you mean 'symmetric'?"},
      {"correlate w=9 s=3 boundary=edge=3", FALT_INVALID_TEXT, "only constant takes a value"},
      {"correlate w=9 s=3 boundary=constant=3 value=4", FALT_INVALID_TEXT, "conflict"},
      {"correlate h=9 w=9 r=3 s=3 boundary=y=constant=1,x=constant=2", FALT_INVALID_TEXT, "conflict"},
      {"correlate w=9 s=3 stride=y=2", FALT_INVALID_TEXT, "stride names axis h"},
      {"correlate h=9 w=9 r=3 s=3 stride=y=2,y=3", FALT_INVALID_TEXT, "an axis is named twice"},
      {"correlate h=9 w=9 r=3 s=3 stride=y=2,3", FALT_INVALID_TEXT, "AXIS=VALUE is expected"},
      {"correlate h=9 w=9 r=3 s=3 stride=y=0", FALT_INVALID_SIZE, "at least 1"},
      {"correlate h=9 w=9 r=3 s=3 anchor=y=3", FALT_INVALID_SHAPE, "anchor 3 on axis h"},
      {"forward c=4 k=4 h=9 w=9 r=3 s=3 pad=y=1x1", FALT_INVALID_TEXT, "a whole number is expected"},
      {"correlate w=9 s=3 boundary=y=wrap", FALT_INVALID_TEXT, "names axis h"},
      {"correlate w=9 s=3 boundary=x=wrap,x=edge", FALT_INVALID_TEXT, "twice"},
      {"correlate w=9 s=3 boundary=x=wrap,edge", FALT_INVALID_TEXT, "AXIS=VALUE"},
      {"correlate w=9 s=3 boundary=x=", FALT_INVALID_TEXT, "unknown boundary"},
      {"correlate w=9 s=3 value=nan", FALT_INVALID_ARGUMENT, "not a number"},
      {"correlate w=9 s=3 value=inf", FALT_INVALID_ARGUMENT, "finite"},
      {"correlate w=9 s=3 value=1e300", FALT_INVALID_ARGUMENT, "f32"},
      {"correlate w=9 s=3 alpha=1e999", FALT_INVALID_TEXT, "number"},
      {"correlate w=9 s=3 alpha=x", FALT_INVALID_TEXT, "number"},
      {"correlate w=9 s=3 type=f23", FALT_INVALID_TEXT, "did you mean 'f32'?"},
      {"correlate w=9 s=3 type=complex", FALT_INVALID_TEXT, "u8 s8 u16"},
      {"correlate w=9 s=3 acc=u8", FALT_INVALID_TYPE, "acc is f32, f64 or s32"},
      {"correlate w=9 s=3 acc=s32", FALT_INVALID_TYPE, "acc=s32 needs integer"},
      {"correlate w=9 s=3 type=u8 weight-type=s8 acc=s32 value=0.5", FALT_INVALID_TYPE, "s32"},
      {"backward-data c=1 k=1 w=9 s=3 type=u8", FALT_INVALID_TYPE, "floating-point"},
      {"backward-filter c=1 k=1 w=9 s=3 weight-type=s8", FALT_INVALID_TYPE, "floating-point"},
      {"backward-maxpool w=9 s=3 type=s16", FALT_INVALID_TYPE, "floating-point"},
      {"maxpool w=9 s=3 type=u8 out-type=f32", FALT_INVALID_TYPE, "integers keep their type"},
      {"backward-data c=1 k=1 w=9 s=3 bias=1", FALT_INVALID_ARGUMENT, "has no alpha"},
      {"backward-filter c=1 k=1 w=9 s=3 act=relu", FALT_INVALID_ARGUMENT, "has no alpha"},
      {"maxpool w=9 s=3 boundary=edge", FALT_INVALID_ARGUMENT, "constant"},
      {"maxpool w=9 s=3 pad=3:0", FALT_INVALID_SHAPE, "sees no input"},
      {"maxpool w=9 s=3 out=4", FALT_INVALID_SHAPE, "sees no input"},
      {"maxpool w=2 s=3 dilation=3 pad=1:4", FALT_INVALID_SHAPE, "sees no input"},
      {"forward c=4 k=4 w=9 s=3 groups=3", FALT_INVALID_SHAPE, "c=4 is not divisible by groups=3"},
      {"forward c=3 k=4 w=9 s=3 groups=3", FALT_INVALID_SHAPE, "k=4 is not divisible by groups=3"},
      {"forward c=4 k=4 w=9 s=3 layout=nhwc", FALT_INVALID_TEXT, "say nwc"},
      {"forward c=4 k=4 w=9 s=3 weight-layout=oihw", FALT_INVALID_TEXT, "say oiw"},
      {"forward c=4 k=4 w=9 s=3 layout=nchv", FALT_INVALID_TEXT, "unknown layout 'nchv'; did you mean"},
      {"forward c=4 k=4 w=9 s=3 act=rela", FALT_INVALID_TEXT, "did you mean 'relu'?"},
      {"forward c=4 k=4 w=9 s=3 act=relu:3", FALT_INVALID_TEXT, "too many"},
      {"forward c=4 k=4 w=9 s=3 act=clip:3", FALT_INVALID_TEXT, "clip:LOW:HIGH"},
      {"forward c=4 k=4 w=9 s=3 act=clip:3:1", FALT_INVALID_ARGUMENT, "empty"},
      {"forward c=4 k=4 w=9 s=3 bias=yes", FALT_INVALID_TEXT, "0 or 1"},
      {"forward c=4 k=4 w=9 s=3 rank=0", FALT_INVALID_SIZE, "rank=0"},
      {"correlate w=9 s=3 factors=0", FALT_INVALID_SIZE, "factors=0"},
      {"correlate w=9 s=3 factors=3000000000", FALT_INVALID_SIZE, "factors is too large"},
      {"correlate w=9 s=3 factors=1 rank=1", FALT_INVALID_ARGUMENT, "factors and rank exclude each other"},
      {"correlate w=9 s=3 factors=1 weight-type=s8", FALT_INVALID_TYPE, "add weight-type=f32"},
      {"correlate w=9 s=3 factors=1 filter-offset=1", FALT_INVALID_ARGUMENT, "leave filter-strides and filter-offset"},
      {"correlate w=9 s=3 factors=1 filter-strides=0,0,0,0,0,2", FALT_INVALID_ARGUMENT, "factors lie densely"},
      {"forward c=4 k=4 w=9 s=3 factors=1", FALT_INVALID_TEXT, "'factors' is no word of forward"},
      {"forward c=4 k=4 w=9 s=3 filter=knwon", FALT_INVALID_TEXT, "did you mean 'known'?"},
      {"backward-filter c=4 k=4 w=9 s=3 filter=given", FALT_INVALID_ARGUMENT, "backward-filter reads no filter"},
      {"maxpool w=9 s=3 filter=known", FALT_INVALID_TEXT, "'filter' is no word of maxpool"},
      {"forward c=4 k=4 w=9 s=3 residual-type=f16", FALT_INVALID_TEXT, "residual=1"},
      {"correlate w=9 s=3 input-strides=1,2,3", FALT_INVALID_TEXT, "six numbers"},
      {"correlate w=9 s=3 input-strides=1,2,3,4,5,6,7", FALT_INVALID_TEXT, "six numbers"},
      {"correlate w=9 s=3 input-strides=0,0,0,0,0,9223372036854775807", FALT_INVALID_SIZE, "2^60"},
      {"correlate w=9 s=3 input-strides=0,0,0,0,0,1000000000000000000", FALT_INVALID_SIZE, "2^60"},
      {"correlate w=9 s=3 input-offset=-1", FALT_INVALID_ARGUMENT, "before data[0]"},
      {"correlate w=9 s=3 output-strides=0,0,0,0,0,0", FALT_INVALID_ARGUMENT, "overlap"},
      {"correlate h=9 w=9 r=3 s=3 output-strides=0,0,0,0,8,1", FALT_INVALID_ARGUMENT, "overlap"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    falt_problem p;
    falt_status status = falt_problem_parse(&p, NULL, bad[i].line);
    if (status != bad[i].status || !strstr(falt_message(), bad[i].says))
      fail_msg("%s: %s, %s", bad[i].line, falt_status_name(status), status ? falt_message() : "");
    assert_null(strchr(falt_message(), '\n'));
  }
}

static void test_bad_budgets(void **state) {
  (void)state;
  static const char *const bad[] = {"max-workspace=-1",
                                    "max-workspace=M",
                                    "max-workspace=9000000000000G",
                                    "max-workspace=1T",
                                    "max-error=-1",
                                    "tune=inf",
                                    "deterministic=2",
                                    "tf32=",
                                    "max-error=nan",
                                    "method=an-overlong-name-of-a-solver-indeed"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    falt_problem p;
    falt_budget budget;
    char line[128];
    snprintf(line, sizeof line, "correlate w=9 s=3 %s", bad[i]);
    if (falt_problem_parse(&p, &budget, line) == FALT_OK) fail_msg("accepted: %s", line);
  }
}

static void test_messages_quote_safely(void **state) {
  (void)state;
  falt_problem p;
  char line[600] = "correlate w=9 s=3 x\x1b\x01=1";
  assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_INVALID_TEXT);
  for (const char *at = falt_message(); *at; at++) assert_true((unsigned char)*at >= ' ');
  memset(line, 'q', sizeof line - 1);
  line[sizeof line - 1] = '\0';
  assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_INVALID_TEXT);
  assert_true(strlen(falt_message()) < 200);
}

#define FIELD(member) offsetof(falt_problem, member), sizeof(((falt_problem *)0)->member)
#define NAN_BITS INT64_C(0x7ff8000000000000)

static void test_check_refuses(void **state) {
  (void)state;
  static const struct {
    size_t field, size;
    int64_t value;
    falt_status status;
    const char *word; /* what the problem has besides */
  } cases[] = {{FIELD(operation), FALT_OPERATION_COUNT, FALT_INVALID_ARGUMENT, ""},
               {FIELD(activation), -1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(space), 4, FALT_INVALID_ARGUMENT, ""},
               {FIELD(space), 1, FALT_INVALID_SHAPE, ""},
               {FIELD(rank), -1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(filter_when), FALT_FILTER_KNOWN + 1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(filter_when), -1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(factors), 1, FALT_INVALID_ARGUMENT, ""}, /* of a layer */
               {FIELD(factors), -1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(reserved[3]), 1, FALT_INVALID_ARGUMENT, ""},
               {FIELD(pool[1]), 0, FALT_INVALID_SIZE, ""},
               {FIELD(pool[2]), INT64_MAX, FALT_INVALID_SIZE, ""},
               {FIELD(pool[0]), 2, FALT_INVALID_SHAPE, ""},
               {FIELD(pool[2]), 2, FALT_INVALID_ARGUMENT, "residual=1"},
               {FIELD(filter.type), FALT_TYPE_COUNT, FALT_INVALID_ARGUMENT, ""},
               {FIELD(residual.type), -1, FALT_INVALID_ARGUMENT, "residual=1"},
               {FIELD(axis[1].boundary[1]), FALT_BOUNDARY_COUNT, FALT_INVALID_ARGUMENT, ""},
               {FIELD(axis[0].pad[0]), 1, FALT_INVALID_SHAPE, ""},
               {FIELD(axis[2].pad[0]), INT64_MIN, FALT_INVALID_SIZE, ""},
               {FIELD(axis[2].stride), 0, FALT_INVALID_SIZE, ""},
               {FIELD(filter.size[FALT_C]), 0, FALT_INVALID_SIZE, ""},
               {FIELD(filter.size[FALT_C]), 3, FALT_INVALID_SHAPE, ""},
               {FIELD(filter.size[FALT_G]), 3, FALT_INVALID_SHAPE, ""},
               {FIELD(output.size[FALT_N]), 3, FALT_INVALID_SHAPE, ""},
               {FIELD(output.size[FALT_C]), 3, FALT_INVALID_SHAPE, ""},
               {FIELD(residual.size[FALT_W]), 3, FALT_INVALID_SHAPE, "residual=1"},
               {FIELD(input.offset), INT64_MAX, FALT_INVALID_SIZE, ""},
               {FIELD(input.stride[FALT_H]), INT64_MIN, FALT_INVALID_SIZE, ""},
               {FIELD(alpha), NAN_BITS, FALT_INVALID_ARGUMENT, ""},
               {FIELD(act_a), NAN_BITS, FALT_INVALID_ARGUMENT, "act=leaky"},
               {FIELD(act_b), NAN_BITS, FALT_INVALID_ARGUMENT, "act=clip:0:1"},
               {FIELD(is_filter), 1, FALT_INVALID_SHAPE, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem p;
    char text[LONGEST];
    snprintf(text, sizeof text, "forward n=2 c=4 h=9 w=9 k=8 r=3 s=3 groups=2 %s", cases[i].word);
    parse(&p, text);
    memcpy((char *)&p + cases[i].field, &cases[i].value, cases[i].size); /* the low bytes come first */
    if (falt_problem_check(&p) != cases[i].status) fail_msg("case %zu: %s", i, falt_message());
    falt_problem_print(&p, NULL, text, sizeof text); /* says why, and does not stumble */
    assert_int_equal(text[0], '(');
  }
  assert_int_equal(falt_problem_check(NULL), FALT_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_lines),
      cmocka_unit_test(test_bad_budgets),
      cmocka_unit_test(test_messages_quote_safely),
      cmocka_unit_test(test_check_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
