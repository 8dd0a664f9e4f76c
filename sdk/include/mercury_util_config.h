/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version, return codes and attributes of the utilities that come with the RPC library.
 */
#ifndef MERCURY_UTIL_CONFIG_H
#define MERCURY_UTIL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

/* Version of the API that these headers offer. */
#define HG_UTIL_VERSION_MAJOR 4
#define HG_UTIL_VERSION_MINOR 1
#define HG_UTIL_VERSION_PATCH 0

/* Return codes of utility functions. */
#define HG_UTIL_SUCCESS                 0
#define HG_UTIL_FAIL                    -1

#define HG_UTIL_INLINE                  __inline__
#define HG_UTIL_ALIGNED(x, a)           HG_ATTR_ALIGNED(x, a)
#define HG_UTIL_PRINTF(_fmt, _firstarg) HG_ATTR_PRINTF(_fmt, _firstarg)

/* Visibility of a function: exported to programs, or hidden in the library. */
#define HG_UTIL_BUILD_SHARED_LIBS
#define HG_UTIL_PUBLIC  HG_ATTR_ABI_EXPORT
#define HG_UTIL_PRIVATE HG_ATTR_ABI_HIDDEN
#define HG_UTIL_PLUGIN  HG_ATTR_ABI_EXPORT

/* Features of the system that programs check for; Linux has all of them. */
#define HG_UTIL_HAS_ATTR_CONSTRUCTOR_PRIORITY
#define HG_UTIL_HAS_CLOCK_GETTIME
#define HG_UTIL_HAS_CLOCK_MONOTONIC_COARSE
#define HG_UTIL_HAS_EVENTFD_T
#define HG_UTIL_HAS_PTHREAD_CONDATTR_SETCLOCK
#define HG_UTIL_HAS_PTHREAD_MUTEX_ADAPTIVE_NP
#define HG_UTIL_HAS_PTHREAD_SPINLOCK_T
#define HG_UTIL_HAS_STDATOMIC_H
#define HG_UTIL_ATOMIC_LONG_WIDTH __SIZEOF_LONG__
#define HG_UTIL_HAS_SYSEPOLL_H
#define HG_UTIL_HAS_SYSEVENTFD_H
#define HG_UTIL_HAS_SYSPARAM_H
#define HG_UTIL_HAS_SYSQUEUE_H
#define HG_UTIL_HAS_SYSTIME_H
#define HG_UTIL_HAS_TIME_H

#endif /* MERCURY_UTIL_CONFIG_H */
