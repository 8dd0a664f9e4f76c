/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints to the compiler and other helpers that all layers share. Header only. */

#ifndef UTIL_COMPILER_H
#define UTIL_COMPILER_H

#include <stddef.h>

/* Which way a branch goes nearly always. */
#define util_likely(condition)   __builtin_expect(!!(condition), 1)
#define util_unlikely(condition) __builtin_expect(!!(condition), 0)

/* Error paths: kept out of line and away from the hot code. */
#define UTIL_COLD __attribute__((__cold__, __noinline__))

/* For the hot path only, where a call costs as much as what is called. */
#define UTIL_ALWAYS_INLINE inline __attribute__((__always_inline__))

/* A variable of the library, read without a detour through its table of offsets. */
#define UTIL_HIDDEN __attribute__((__visibility__("hidden")))

/* The object that has `ptr` as its member. */
#define util_container_of(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

/* What two threads write to is kept this far apart. */
#define UTIL_CACHE_LINE 64

/* A short pause inside a loop that waits for another core. */
static inline void util_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif /* UTIL_COMPILER_H */
