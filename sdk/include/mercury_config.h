/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version, visibility and feature macros of the RPC layer, and its fixed-width type names.
 */
#ifndef MERCURY_CONFIG_H
#define MERCURY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

/* Type names that older clients use; new code uses those of <stdint.h>. */
typedef int64_t hg_int64_t;
typedef int32_t hg_int32_t;
typedef int16_t hg_int16_t;
typedef int8_t hg_int8_t;
typedef uint64_t hg_uint64_t;
typedef uint32_t hg_uint32_t;
typedef uint16_t hg_uint16_t;
typedef uint8_t hg_uint8_t;

typedef hg_uint64_t hg_ptr_t; /* A pointer encoded as a number */
typedef hg_uint8_t hg_bool_t; /* HG_TRUE or HG_FALSE */

#define HG_TRUE  1
#define HG_FALSE 0

/* Version of the API that these headers offer. */
#define HG_VERSION_MAJOR 2
#define HG_VERSION_MINOR 4
#define HG_VERSION_PATCH 1

/* Short names of the compiler attributes. */
#define HG_WARN_UNUSED_RESULT HG_ATTR_WARN_UNUSED_RESULT
#define HG_UNUSED             HG_ATTR_UNUSED
#define HG_PACKED(x)          HG_ATTR_PACKED(x)
#define HG_FALLTHROUGH        HG_ATTR_FALLTHROUGH
#define HG_INLINE             __inline__

/* Casts of the macros and inline functions of these headers: clean at -Wold-style-cast, too. */
#ifdef __cplusplus
#    define HG_CAST(type, value)     static_cast<type>(value)
#    define HG_CAST_PTR(type, value) reinterpret_cast<type>(value)
#    define HG_NULL(type)            static_cast<type>(nullptr)
#else
#    define HG_CAST(type, value)     ((type) (value))
#    define HG_CAST_PTR(type, value) ((type) (value))
#    define HG_NULL(type)            ((type) 0)
#endif

/* Visibility of a function: exported to programs, or hidden in the library. */
#define HG_BUILD_SHARED_LIBS
#define HG_PUBLIC  HG_ATTR_ABI_EXPORT
#define HG_PRIVATE HG_ATTR_ABI_HIDDEN

/* Counters are always kept; they cost no shared cache line. */
#define HG_HAS_DIAG

/* Payload checksums can be enabled at run time (struct hg_init_info, checksum_level). */
#define HG_HAS_CHECKSUMS

/* Several threads may make progress on one context at the same time. */
#define HG_HAS_MULTI_PROGRESS

/*
 * Not defined: HG_HAS_BOOST (mercury_macros.h needs no Boost), HG_HAS_XDR (the portable encoding
 * is chosen for a class at run time, see mercury_proc_ext.h), HG_HAS_DEBUG.
 */

#endif /* MERCURY_CONFIG_H */
