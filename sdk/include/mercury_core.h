/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the lower RPC interface that mercury.h includes for its clients' sake. Its functions
 * are not offered; everything they do is reached through mercury.h.
 */
#ifndef MERCURY_CORE_H
#define MERCURY_CORE_H

#include "mercury_core_header.h"
#include "mercury_core_types.h"

#include "na.h"

/* Types that clients name; nothing makes an object of them. */
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

/* Flag: more data have to be fetched than the message carries. */
#define HG_CORE_MORE_DATA (1 << 0)

#endif /* MERCURY_CORE_H */
