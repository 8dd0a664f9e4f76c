/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the lower RPC interface, included by mercury.h for clients that use them. Its functions
 * are not offered; mercury.h has everything they do.
 */
#ifndef MERCURY_CORE_H
#define MERCURY_CORE_H

#include "mercury_core_header.h"
#include "mercury_core_types.h"

#include "na.h"

/* Types that clients name; there are no objects of these types. */
typedef struct hg_core_class hg_core_class_t;
typedef struct hg_core_context hg_core_context_t;
typedef struct hg_core_addr *hg_core_addr_t;
typedef struct hg_core_handle *hg_core_handle_t;
typedef struct hg_core_op_id *hg_core_op_id_t;

/* Null values of these types. */
#define HG_CORE_ADDR_NULL    HG_NULL(hg_core_addr_t)
#define HG_CORE_HANDLE_NULL  HG_NULL(hg_core_handle_t)
#define HG_CORE_OP_ID_NULL   HG_NULL(hg_core_op_id_t)
#define HG_CORE_OP_ID_IGNORE HG_CAST_PTR(hg_core_op_id_t *, 1)

/* Flag: more data have to be fetched than the message contains. */
#define HG_CORE_MORE_DATA (1 << 0)

#endif /* MERCURY_CORE_H */
