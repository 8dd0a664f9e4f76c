/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types of the RPC API: opaque objects, callback information, bulk attributes.
 */
#ifndef MERCURY_TYPES_H
#define MERCURY_TYPES_H

#include "mercury_core_types.h"

typedef struct hg_class hg_class_t;     /* An open endpoint with its registered RPCs */
typedef struct hg_context hg_context_t; /* A queue of completions, and progress on it */
typedef struct hg_addr *hg_addr_t;      /* A peer's address */
typedef struct hg_handle *hg_handle_t;  /* One RPC, at its origin or at its target */
typedef struct hg_bulk *hg_bulk_t;      /* A descriptor of local or remote memory */
typedef struct hg_proc *hg_proc_t;      /* An encoder and decoder */
typedef struct hg_op_id *hg_op_id_t;    /* A running lookup or bulk transfer */

/* Information about a handle, from HG_Get_info(). */
struct hg_info {
    hg_class_t *hg_class;  /* Class of the handle */
    hg_context_t *context; /* Context of the handle */
    hg_addr_t addr;        /* At the origin the target's address, at the target the origin's */
    hg_id_t id;            /* RPC id */
    uint8_t context_id;    /* At the origin the target's context id, at the target the origin's */
};

/* Where the memory of a bulk descriptor is. */
typedef enum hg_mem_type {
    HG_MEM_TYPE_HOST = NA_MEM_TYPE_HOST, /* Ordinary memory */
    HG_MEM_TYPE_CUDA = NA_MEM_TYPE_CUDA, /* NVIDIA CUDA device */
    HG_MEM_TYPE_ROCM = NA_MEM_TYPE_ROCM, /* AMD ROCm device */
    HG_MEM_TYPE_ZE = NA_MEM_TYPE_ZE,     /* Intel Level Zero device */
    HG_MEM_TYPE_MAX = NA_MEM_TYPE_MAX,
    HG_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_UNKNOWN
} hg_mem_type_t;

/* Attributes of the memory of a bulk descriptor. */
struct hg_bulk_attr {
    hg_mem_type_t mem_type; /* Type of memory */
    uint64_t device;        /* Device number, if that type has several */
};

/* Direction of a bulk transfer, seen from the side that starts it. */
typedef enum hg_bulk_op {
    HG_BULK_PUSH, /* From local memory to the origin's */
    HG_BULK_PULL  /* From the origin's memory to local memory */
} hg_bulk_op_t;

/* Result of a lookup. */
struct hg_cb_info_lookup {
    hg_addr_t addr; /* The address, to be freed by HG_Addr_free(); HG_ADDR_NULL on failure */
};

/* Result of a forwarded RPC. */
struct hg_cb_info_forward {
    hg_handle_t handle; /* The forwarded handle */
};

/* Result of a response. */
struct hg_cb_info_respond {
    hg_handle_t handle; /* The handle that was responded to */
};

/* Result of a bulk transfer. */
struct hg_cb_info_bulk {
    hg_bulk_t origin_handle; /* The origin's descriptor */
    hg_bulk_t local_handle;  /* The local descriptor */
    hg_bulk_op_t op;         /* Direction */
    hg_size_t size;          /* Bytes transferred */
};

/* Argument of a callback. Valid during the callback. */
struct hg_cb_info {
    union {
        struct hg_cb_info_lookup lookup;   /* For HG_CB_LOOKUP */
        struct hg_cb_info_forward forward; /* For HG_CB_FORWARD */
        struct hg_cb_info_respond respond; /* For HG_CB_RESPOND */
        struct hg_cb_info_bulk bulk;       /* For HG_CB_BULK */
    } info;                                /* Details of the operation */
    void *arg;                             /* The caller's argument */
    hg_cb_type_t type;                     /* Which member of info is valid */
    hg_return_t ret;                       /* Result of the operation */
};

/* Handler of an RPC at its target; it owns one reference of the handle. */
typedef hg_return_t (*hg_rpc_cb_t)(hg_handle_t handle);

/* Callback of an operation. A return value other than HG_SUCCESS is logged. */
typedef hg_return_t (*hg_cb_t)(const struct hg_cb_info *callback_info);

/* Encoder and decoder of one structure. */
typedef hg_return_t (*hg_proc_cb_t)(hg_proc_t proc, void *data);

/* Null values. */
#define HG_ADDR_NULL    HG_NULL(hg_addr_t)
#define HG_HANDLE_NULL  HG_NULL(hg_handle_t)
#define HG_BULK_NULL    HG_NULL(hg_bulk_t)
#define HG_PROC_NULL    HG_NULL(hg_proc_t)
#define HG_OP_ID_NULL   HG_NULL(hg_op_id_t)
#define HG_OP_ID_IGNORE HG_CAST_PTR(hg_op_id_t *, 1) /* The caller does not want the operation id */

#endif /* MERCURY_TYPES_H */
