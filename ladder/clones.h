/* Private to the ladder: hot loops compiled for several instruction sets, if the compiler can; the loader selects one.
 */
#ifndef FALT_LADDER_CLONES_H
#define FALT_LADDER_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define LADDER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LADDER_CLONES
#endif

/* A vector of the widest registers; narrower ones take several for it. */
typedef float ladder_vector __attribute__((vector_size(64), aligned(4), may_alias));
enum { LADDER_LANES = sizeof(ladder_vector) / sizeof(float) };

#endif
