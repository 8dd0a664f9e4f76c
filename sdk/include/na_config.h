/* SPDX-License-Identifier: BSD-3-Clause */
/* Version and features of the network abstraction (NA) layer. Nothing in this header depends on how
 * the library was built. */

#ifndef NA_CONFIG_H
#define NA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

/* Version of the NA programming interface that these headers describe. */
#define NA_VERSION_MAJOR 6 /* incompatible changes */
#define NA_VERSION_MINOR 0 /* compatible additions */
#define NA_VERSION_PATCH 0 /* corrections */

/* Attributes, under the layer's own names. */
#define NA_WARN_UNUSED_RESULT      HG_ATTR_WARN_UNUSED_RESULT
#define NA_UNUSED                  HG_ATTR_UNUSED
#define NA_ALIGNED(x, a)           HG_ATTR_ALIGNED(x, a)
#define NA_PRINTF(_fmt, _firstarg) HG_ATTR_PRINTF(_fmt, _firstarg)
#define NA_PACKED(x)               HG_ATTR_PACKED(x)
#define NA_FALLTHROUGH             HG_ATTR_FALLTHROUGH
#define NA_INLINE                  __inline__

/* Symbol visibility. */
#define NA_BUILD_SHARED_LIBS
#define NA_PUBLIC  HG_ATTR_ABI_EXPORT
#define NA_PRIVATE HG_ATTR_ABI_HIDDEN

/* Every transport is a plugin that is loaded at run time. */
#define NA_HAS_DYNAMIC_PLUGINS
#define NA_PLUGIN            HG_ATTR_ABI_EXPORT
#define NA_PLUGIN_VISIBILITY NA_PUBLIC

/* Several threads may progress one context at the same time. */
#define NA_HAS_MULTI_PROGRESS

/* For programs that check at compile time which transports exist: any of them may exist.
 * NA_Get_protocol_info() tells which are usable on the machine that the program runs on. */
#define NA_HAS_BMI
#define NA_HAS_MPI
#define NA_HAS_OFI
#define NA_HAS_SM
#define NA_HAS_UCX

/* Host identifiers (na_sm.h) are 16 bytes long. */
#define NA_SM_HAS_UUID

#endif /* NA_CONFIG_H */
