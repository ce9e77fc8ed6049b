/* Sanitizers: detects the one of this build, and marks memory for it. Without one the marks cost nothing. */
#ifndef FALT_CORE_SANITIZE_H
#define FALT_CORE_SANITIZE_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FALT_ASAN 1
#elif __has_feature(memory_sanitizer)
#define FALT_MSAN 1
#elif __has_feature(thread_sanitizer)
#define FALT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(FALT_ASAN)
#define FALT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(FALT_TSAN)
#define FALT_TSAN 1
#endif

#ifdef FALT_ASAN
#include <sanitizer/asan_interface.h>
#define FALT_FORBID(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define FALT_ALLOW(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
/* No access to these bytes is legal, until it is allowed again. */
#define FALT_FORBID(memory, bytes) ((void)(memory), (void)(bytes))
#define FALT_ALLOW(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#ifdef FALT_MSAN
#include <sanitizer/msan_interface.h>
#define FALT_UNWRITTEN(memory, bytes) __msan_allocated_memory(memory, bytes)
#define FALT_WRITTEN(memory, bytes) __msan_unpoison(memory, bytes)
#else
/* Marks bytes as never written: no output may depend on them. And the opposite, for writes that a sanitizer cannot see.
 */
#define FALT_UNWRITTEN(memory, bytes) ((void)(memory), (void)(bytes))
#define FALT_WRITTEN(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* Any of them: slower code, an allocator of its own, and far more address space. */
#if defined(FALT_ASAN) || defined(FALT_MSAN) || defined(FALT_TSAN)
#define FALT_ANY_SANITIZER 1
#else
#define FALT_ANY_SANITIZER 0
#endif

/* Sanitizers that see the end of an allocation to the byte. */
#if defined(FALT_ASAN) || defined(FALT_MSAN)
#define FALT_EXACT_ALLOCATION 1
#else
#define FALT_EXACT_ALLOCATION 0
#endif

#endif
