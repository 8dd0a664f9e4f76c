/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes for clang's thread safety analysis (-Wthread-safety); empty for others.
 */
#ifndef MERCURY_THREAD_ANNOTATION_H
#define MERCURY_THREAD_ANNOTATION_H

#include "mercury_compiler_attributes.h"

/* One of the attributes below. */
#if defined(__clang__)
#    define HG_THREAD_ANNOTATION_ATTRIBUTE__(x) __attribute__((x))
#else
#    define HG_THREAD_ANNOTATION_ATTRIBUTE__(x)
#endif

/* A type that is a lock; x is what messages call it. */
#define HG_LOCK_CAPABILITY(x) HG_THREAD_ANNOTATION_ATTRIBUTE__(capability(x))

/* A function that takes or releases locks, for itself or shared with others. */
#define HG_LOCK_ACQUIRE(...) HG_THREAD_ANNOTATION_ATTRIBUTE__(acquire_capability(__VA_ARGS__))
#define HG_LOCK_ACQUIRE_SHARED(...) \
    HG_THREAD_ANNOTATION_ATTRIBUTE__(acquire_shared_capability(__VA_ARGS__))
#define HG_LOCK_RELEASE(...) HG_THREAD_ANNOTATION_ATTRIBUTE__(release_capability(__VA_ARGS__))
#define HG_LOCK_RELEASE_SHARED(...) \
    HG_THREAD_ANNOTATION_ATTRIBUTE__(release_shared_capability(__VA_ARGS__))

/* A function that tries to; the first argument is what it returns if it has the lock. */
#define HG_LOCK_TRY_ACQUIRE(...) \
    HG_THREAD_ANNOTATION_ATTRIBUTE__(try_acquire_capability(__VA_ARGS__))
#define HG_LOCK_TRY_ACQUIRE_SHARED(...) \
    HG_THREAD_ANNOTATION_ATTRIBUTE__(try_acquire_shared_capability(__VA_ARGS__))

/* A function that is not analyzed. */
#define HG_LOCK_NO_THREAD_SAFETY_ANALYSIS \
    HG_THREAD_ANNOTATION_ATTRIBUTE__(no_thread_safety_analysis)

#endif /* MERCURY_THREAD_ANNOTATION_H */
