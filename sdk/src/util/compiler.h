/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints to the compiler and other helpers that all layers share. Header only. */

#ifndef UTIL_COMPILER_H
#define UTIL_COMPILER_H

#include <stddef.h>

/* Tell the compiler which value a condition has nearly always. */
#define util_likely(condition)   __builtin_expect(!!(condition), 1)
#define util_unlikely(condition) __builtin_expect(!!(condition), 0)

/* For error paths: out of line, and away from the hot code. */
#define UTIL_COLD __attribute__((__cold__, __noinline__))

/* For the hot path only, where the call would cost as much as the function's body. */
#define UTIL_ALWAYS_INLINE inline __attribute__((__always_inline__))

/* For a variable that only this library uses: it is read without the global offset table. */
#define UTIL_HIDDEN __attribute__((__visibility__("hidden")))

/* Returns the object of which `ptr` points to a member. */
#define util_container_of(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

/* Alignment of data that different threads write to, in bytes. */
#define UTIL_CACHE_LINE 64

/* A short pause, for a loop that polls for another core's store. */
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
