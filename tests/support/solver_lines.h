/* Problems that together reach every CPU solver that runs on any machine. */
#ifndef FALT_TESTS_SOLVER_LINES_H
#define FALT_TESTS_SOLVER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char *const solver_lines[] = {
    "correlate h=37 w=60 r=5 s=5 boundary=edge type=f32",
    "correlate h=24 w=50 pixel=3 r=5 s=5 boundary=reflect101 type=u8",
    "correlate h=24 w=50 r=3 s=3 boundary=wrap type=u8 weight-type=s8",
    "correlate w=900 s=7 boundary=wrap type=f64",
    "correlate h=37 w=60 r=9 s=21 rank=1 filter=known boundary=symmetric",
    "correlate h=24 w=50 pixel=3 r=15 s=11 factors=2 value=1 type=u8 filter=given",
    "convolve d=9 h=14 w=20 t=15 r=11 s=9 factors=1 boundary=edge",
    "correlate w=3000 s=301 boundary=reflect101",
    "forward n=3 c=5 w=700 k=5 s=200 pad=199:0 groups=5 type=f32 layout=ncw bias=1 scale=1",
    "correlate h=70 w=90 r=31 s=33 boundary=edge type=f32",
    "forward n=2 c=9 h=6 w=15 k=70 r=3 s=3 pad=1 type=f64 scale=1 residual=1 act=gelu",
    "forward n=3 c=21 h=13 w=11 k=133 r=3 s=3 pad=1 type=f32 layout=nhwc residual=1 scale=1",
    "forward n=2 c=9 h=6 w=15 k=70 r=3 s=3 pad=1 type=f32 bias=1 residual=1 act=relu",
    "forward n=2 c=40 h=9 w=13 k=70 r=3 s=3 pad=1 type=f32 layout=nhwc residual=1 act=silu",
    "forward n=1 c=128 h=9 w=10 k=20 r=5 s=5 pad=2 groups=2 type=f32 bias=1 residual=1",
    ("forward n=3 c=64 h=14 w=14 k=40 r=3 s=3 pad=1 type=u8 weight-type=s8 out-type=u8 alpha=0.01 layout=nhwc "
     "residual=1"),
    "forward n=2 c=72 h=7 w=7 k=80 r=3 s=3 pad=1 type=bf16",
    "forward n=2 c=37 h=9 w=12 k=40 r=1 s=1 type=bf16 bias=1 residual=1",
    "forward n=2 c=32 h=20 w=25 k=33 r=3 s=3 pad=1 stride=2 type=bf16 layout=nhwc residual=1 act=silu",
    "forward n=1 c=70 w=300 k=77 s=5 pad=9:3 dilation=4 type=bf16 layout=ncw bias=1 residual=1 act=gelu",
    "forward n=2 c=48 h=13 w=29 k=40 r=3 s=3 pad=1 type=f16 layout=nhwc residual=1 act=relu6",
    "forward n=2 c=96 h=9 w=8 k=48 r=3 s=3 pad=1 groups=12 type=f32 value=2 layout=nhwc bias=1 residual=1",
    "forward n=1 c=150 h=6 w=7 k=150 r=3 s=3 pad=1 groups=150 type=f32 layout=nhwc residual=1",
    "forward n=1 c=20 h=7 w=9 k=40 r=9 s=9 pad=4 groups=20 type=f32 layout=nhwc residual=1",
    "forward n=2 c=40 h=7 w=7 k=40 r=3 s=3 pad=1 groups=40 type=f32",
    "forward n=2 c=33 h=9 w=8 k=33 r=3 s=3 pad=1 groups=33 type=bf16 layout=nhwc residual=1",
    "forward n=2 c=33 h=9 w=8 k=33 r=3 s=3 pad=1 groups=33 type=u8 out-type=u8 layout=nhwc residual=1",
    "forward n=4 c=150 h=7 w=7 k=90 r=1 s=1 type=f32 residual=1 act=relu",
    "forward n=3 c=67 h=3 w=5 k=43 r=3 s=5 type=bf16 bias=1 residual=1 act=gelu",
    "forward n=1 c=515 h=1 w=2 k=130 r=1 s=1 type=f32 layout=nhwc scale=1",
    "forward n=1 c=24 h=16 w=24 k=3 r=3 s=3 pad=1 type=f32 layout=nhwc residual=1",
    "forward n=1 c=16 h=9 w=12 k=2 r=3 s=3 pad=1 type=f32 layout=nhwc residual=1",
    "forward n=1 c=1 h=40 w=30 k=1 r=5 s=5 pad=2 type=f32 residual=1",
    "forward n=1 c=64 h=16 w=40 k=64 r=3 s=3 pad=1 groups=64 type=f32 layout=nhwc",
    "forward n=1 c=24 h=16 w=24 k=3 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1",
    "forward n=5 c=1 h=28 w=28 k=16 r=5 s=5 pad=2 type=f32 bias=1 act=relu pool=max:2",
    "forward n=1 c=24 h=190 w=90 k=32 r=3 s=3 pad=40 stride=2 dilation=2 groups=2 type=f32 value=1 pool=max:2x3",
    "forward n=2 c=64 h=9 w=9 k=64 r=3 s=3 pad=1 type=s16 out-type=s16 alpha=0.001 residual=1",
    "backward-data n=2 c=70 h=13 w=29 k=64 r=3 s=3 pad=1 stride=2 type=bf16 layout=nhwc",
    "backward-data n=2 c=10 h=14 w=13 k=70 r=3 s=3 pad=1 stride=2 type=f32",
    "backward-data n=2 c=10 h=14 w=13 k=70 r=3 s=3 pad=1 stride=2 type=bf16",
    "backward-data n=1 c=40 h=5 w=6 k=40 r=3 s=3 pad=7 boundary=reflect101 groups=40 type=f32 layout=nhwc",
    "backward-data n=2 c=3 h=19 w=30 k=40 r=7 s=7 pad=3 stride=2 type=f32 layout=nhwc",
    "backward-data n=1 c=3 h=16 w=24 k=70 r=8 s=8 stride=8 type=f32 layout=nhwc",
    "backward-data n=2 c=16 h=6 w=12 k=1 r=4 s=8 pad=-1:4x-1:1 stride=3 type=f32 layout=nhwc",
    "backward-data n=2 c=96 h=9 w=8 k=96 r=3 s=3 pad=1 groups=12 type=f32 layout=nhwc",
    "backward-filter n=3 c=30 h=12 w=11 k=20 r=3 s=3 pad=1 type=f32 bias=1",
    "backward-filter n=2 c=40 h=9 w=10 k=35 r=3 s=3 pad=1 type=bf16 layout=nhwc bias=1",
    "backward-filter n=3 c=70 h=29 w=30 k=45 r=1 s=1 stride=2 type=bf16 layout=nhwc",
    "backward-filter n=2 c=40 h=19 w=10 k=35 r=3 s=3 pad=1 type=bf16",
    "backward-filter n=2 c=140 h=13 w=11 k=133 r=3 s=2 type=f32 layout=nhwc bias=1",
    "backward-filter n=2 c=20 h=12 w=11 k=24 r=3 s=3 pad=1 type=f32 layout=nhwc",
    "backward-filter n=2 c=90 h=9 w=9 k=90 r=3 s=3 pad=1 groups=90 type=f32 layout=nhwc bias=1",
    "backward-filter n=2 c=9 h=9 w=90 k=9 r=3 s=3 pad=1 groups=9 type=f32",
    "backward-filter n=2 c=96 h=9 w=8 k=96 r=3 s=3 pad=1 groups=12 type=f32 layout=nhwc bias=1",
    "backward-filter n=3 c=3 h=37 w=35 k=70 r=7 s=7 stride=2 pad=3 type=f32 layout=nhwc bias=1",
    "backward-filter n=2 c=33 h=19 w=17 k=20 r=5 s=3 pad=2 stride=2x3 dilation=3x2 type=bf16 boundary=wrap",
    "maxpool n=2 c=20 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc",
    "avgpool n=3 c=7 h=21 w=13 r=3 s=3 stride=2 pad=1 type=u8",
    "backward-maxpool n=2 c=14 h=9 w=8 r=3 s=3 stride=2 pad=1 type=f32 layout=nhwc",
    "backward-avgpool n=2 c=2 h=9 w=140 r=2 s=3 pad=1 count-pad=1 type=f64",
};

enum { SOLVER_LINES = sizeof solver_lines / sizeof *solver_lines };

/* im2col needs a BLAS, which a machine may lack. */
static inline bool solver_may_be_absent(const char *solver) {
  return strcmp(solver, "im2col") == 0;
}

#endif
