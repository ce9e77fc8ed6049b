/* The table of verbs: their texts in help, completions and the manual page, and the functions that run them. */
#include "verbs.h"

#include <stddef.h>

static const char filter_details[] =
    "INPUT and OUTPUT are images, .npy arrays, audio or volumes, by extension; - is standard input or output, whose\n"
    "format is --format. Each channel is filtered separately, including alpha. The output has the input's type, or\n"
    "that of --out-type; integer outputs are rounded to nearest, ties to even, and saturated.\n"
    "\n"
    "Kernels, in the input's number of dimensions where the kernel has a meaning:\n"
    "  gaussian:SIGMA[,TRUNCATE]  gaussian-fast:SIGMA\n"
    "  box:N box:5x5 box:3x3x3  laplace  log:SIGMA[,TRUNCATE]  sharpen\n"
    "  unsharp:SIGMA,AMOUNT  sobel:x|y|z  prewitt:x|y|z  scharr:x|y|z  identity\n"
    "  emboss  motion:LENGTH,ANGLE (images)\n"
    "  \"1 2 1; 2 4 2; 1 2 1\"  rows by ; planes by ;; or / with a blank before it, fractions as 1/16\n"
    "  FILE.npy, FILE.npz:NAME, FILE.wav, or text with one row a line and an empty line between planes\n";

static const char problem_details[] =
    "PROBLEM is one line of words, such as\n"
    "  correlate h=4096 w=4096 r=5 s=5 boundary=symmetric type=f32\n"
    "  forward n=16 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=relu\n"
    "docs/guide/problem-line.md lists them all.\n";

static const char verify_details[] =
    "Without PROBLEM, random problems are checked in separate processes; problem i has seed SEED + i. A failing\n"
    "problem is reduced and printed; `faltung verify LINE --seed SEED` repeats it. PROBLEM is a line such as\n"
    "  forward n=2 c=8 h=9 w=9 k=8 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=relu\n"
    "docs/guide/problem-line.md lists them all.\n";

static const char tune_details[] =
    "PROBLEM is one line of words, such as\n"
    "  correlate h=4096 w=4096 r=5 s=5 boundary=symmetric type=f32\n"
    "`faltung help bench` describes SUITE and FILE.\n"
    "--compile-only measures nothing: for every GPU of --arch it compiles the kernels of every solver that applies, "
    "by\n"
    "estimate, into the cache's directory cuda, which then serves machines that have a driver and no NVRTC.\n";

static const char layer_details[] =
    "PROBLEM is one line of words, such as\n"
    "  forward n=16 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 type=f32 layout=nhwc bias=1 act=relu\n"
    "Arrays have the shape and the order of the layout: 16x56x56x64 here, the filter 64x3x3x64 (nchw: 64x64x3x3).\n"
    "backward-data reads --grad and --weight; backward-filter reads --input and --grad; both write --output.\n"
    "maxpool and avgpool read --input. bf16 arrays hold the bits as u16.\n"
    "FILE is an .npy array, an array of an archive (x.npz:x), or - for standard input or output.\n";

static const char ladder_details[] =
    "PROBLEM is a line such as\n"
    "  correlate h=2048 w=2048 r=5 s=5                  a filter: f32, \"same\", zero beyond the edges\n"
    "  forward n=64 c=1 h=28 w=28 k=16 r=5 s=5 pad=2    a layer: f32, nchw; then ReLU and 2 x 2 max pooling\n"
    "`fft` filters a signal (correlate w=262144 s=129) by transforms. docs/guide/ladder.md explains the steps.\n";

static const char bench_details[] =
    "SUITE is a name (filters-cpu, filters-gpu, layers-cpu, resnet50, sweep, quick) or a file with one problem a "
    "line:\n"
    "  [NAME] PROBLEM [@ KERNEL]   # comment\n"
    "c=[1,2,3] is a walk along these points, {a,b} makes a walk for each; points that are more than twice slower\n"
    "per unit of work than a neighbour are listed at the end.\n"
    "The peers run in Python: that of FALTUNG_PEERS_PYTHON, or the one that `make bench` sets up. All alternate on "
    "the\n"
    "same data; a ratio is the peer's time over Faltung's.\n"
    "`bench choice [SUITE|FILE...]` draws problems from suites (default choice-cpu or choice-gpu), times every "
    "candidate "
    "of\n"
    "each, and compares the planner's choice with the fastest.\n"
    "`bench convolver [channels=N] [block=N] [rate=N] [taps=N]` measures the convolver's CPU time a block.\n";

/* Verbs that exist, in the order of the help. */
static const cli_verb verbs[] = {
    {"convolve", CLI_CONVOLVE, "INPUT... OUTPUT --kernel K",
     "filter a file with the kernel flipped (scipy.ndimage, numpy)", filter_details, falt_verb_convolve},
    {"correlate", CLI_CORRELATE, "INPUT... OUTPUT --kernel K",
     "filter a file with the kernel unflipped (OpenCV filter2D, layers)", filter_details, falt_verb_correlate},
    {"layer", CLI_LAYER, "PROBLEM --input FILE --weight FILE --output FILE", "run a network layer on arrays",
     layer_details, falt_verb_layer},
    {"explain", CLI_EXPLAIN, "PROBLEM", "every candidate: predicted and measured time, or why it was rejected",
     problem_details, falt_verb_explain},
    {"time", CLI_TIME, "PROBLEM", "time the chosen plan on random data", problem_details, falt_verb_time},
    {"tune", CLI_TUNE, "PROBLEM|SUITE|FILE", "measure the candidates and store the winner", tune_details,
     falt_verb_tune},
    {"verify", CLI_VERIFY, "[PROBLEM]", "check every solver against the reference", verify_details, falt_verb_verify},
    {"ladder", CLI_LADDER, "1d|2d|3d|layer|fft [PROBLEM]",
     "the textbook's steps, each checked and timed; --list names them", ladder_details, falt_verb_ladder},
    {"bench", CLI_BENCH, "[choice] SUITE|FILE...", "time suites of problems, with --peers also on other libraries",
     bench_details, falt_verb_bench},
    {"info", CLI_INFO, "", "device, limits, formats, caches, solvers", "", falt_verb_info},
    {"list", CLI_LIST, "kernels|solvers|formats|devices", "names to choose from, one a line", "", falt_verb_list},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

const cli_verb *cli_verb_at(int i) {
  return i >= 0 && i < VERBS ? &verbs[i] : NULL;
}
