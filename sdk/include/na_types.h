/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types, constants and return codes of the network abstraction (NA) layer.
 */

#ifndef NA_TYPES_H
#define NA_TYPES_H

#include "na_config.h"

#include <limits.h>

typedef struct na_class na_class_t;           /* One open transport, opaque */
typedef struct na_context na_context_t;       /* One queue of completions in a class, opaque */
typedef struct na_addr na_addr_t;             /* Address of a peer, opaque */
typedef uint32_t na_tag_t;                    /* Tag that matches expected messages */
typedef struct na_op_id na_op_id_t;           /* Operation, reusable once completed, opaque */
typedef struct na_mem_handle na_mem_handle_t; /* Memory that takes part in RMA, opaque */
typedef uint64_t na_offset_t;                 /* Offset into a memory handle, in bytes */

/* Wanted format of the address that a class listens on. */
enum na_addr_format {
    NA_ADDR_UNSPEC, /* The plugin chooses */
    NA_ADDR_IPV4,   /* IPv4 if there is a choice */
    NA_ADDR_IPV6,   /* IPv6 if there is a choice */
    NA_ADDR_NATIVE  /* The fabric's own format if there is a choice */
};

/* Flags of NA_Addr_deserialize(). */
enum na_addr_flags {
    NA_ADDR_FIREWALL = (1 << 0), /* The peer is behind a firewall: it must connect to us */
};

/* Wanted traffic class, for fabrics that tell them apart. */
enum na_traffic_class {
    NA_TC_UNSPEC,           /* The plugin chooses */
    NA_TC_BEST_EFFORT,      /* No promise */
    NA_TC_LOW_LATENCY,      /* Latency first */
    NA_TC_BULK_DATA,        /* Bandwidth first */
    NA_TC_DEDICATED_ACCESS, /* Highest priority */
    NA_TC_SCAVENGER,        /* Bandwidth that other classes leave */
    NA_TC_NETWORK_CTRL      /* Management of the network, privileged */
};

/* Kind of memory behind a memory handle. */
enum na_mem_type {
    NA_MEM_TYPE_HOST, /* Main memory */
    NA_MEM_TYPE_CUDA, /* NVIDIA CUDA device */
    NA_MEM_TYPE_ROCM, /* AMD ROCm device */
    NA_MEM_TYPE_ZE,   /* Intel Level Zero device */
    NA_MEM_TYPE_MAX,
    NA_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_MAX
};

/* Options of NA_Initialize_opt2(). Strings are copied and need not be valid after the call. */
struct na_init_info {
    const char *ip_subnet;           /* Subnet to use, "address/length", or NULL */
    const char *auth_key;            /* Key shared by the processes of a job, NULL or "" for
                                      * none: processes with another key are refused, and fabrics
                                      * with keys use it, too (docs/security.md) */
    size_t max_unexpected_size;      /* Wanted limit of unexpected messages, in bytes, the same in
                                        all processes; 0: default, which is 68 KiB with HG */
    size_t max_expected_size;        /* Wanted limit of expected messages, likewise */
    uint8_t progress_mode;           /* NA_NO_BLOCK | NA_NO_RETRY */
    enum na_addr_format addr_format; /* Wanted format of the own address */
    uint8_t max_contexts;            /* How many contexts will be created, 0 means 1 */
    uint8_t thread_mode;             /* NA_THREAD_MODE_*, 0: any thread, any time */
    bool request_mem_device;         /* Transfers to and from device memory are wanted */
    enum na_traffic_class traffic_class; /* Wanted traffic class (since version 5.0) */
    const char *auth_key_also;           /* A second key that is accepted besides auth_key, NULL
                                          * or "" for none: to change keys without stopping the
                                          * other processes (docs/security.md). \since 1.1 */
    bool encrypt; /* Nothing that is sent can be read without auth_key, bulk data included: a
                     transport that cannot do that is refused. Needs auth_key. \since 1.1 */
    bool mem_per_session; /* A peer reaches memory only in the session in which it was granted by
                           * NA_Mem_handle_grant(): a transport that cannot do that is refused.
                           * Needs auth_key (docs/security.md). \since 1.1 */
};

/* Options of version 4.0, as read by NA_Initialize_opt(). */
struct na_init_info_4_0 {
    const char *ip_subnet;
    const char *auth_key;
    size_t max_unexpected_size;
    size_t max_expected_size;
    uint8_t progress_mode;
    enum na_addr_format addr_format;
    uint8_t max_contexts;
    uint8_t thread_mode;
    bool request_mem_device;
};

/* A contiguous piece of memory. */
struct na_segment {
    void *base; /* Where it begins */
    size_t len; /* How long it is, in bytes */
};

/* One protocol that a plugin offers, an element of the list of NA_Get_protocol_info(). */
struct na_protocol_info {
    struct na_protocol_info *next; /* Next element or NULL */
    char *class_name;              /* Class name, the part of an init string before the '+' */
    char *protocol_name;           /* Protocol name, the part after it */
    char *device_name;             /* Device that the protocol would use */
};

/* Return codes: zero is success. */
#define NA_RETURN_VALUES                                                              \
    X(NA_SUCCESS)        /* Done */                                                   \
    X(NA_PERMISSION)     /* The operation is not allowed to this user */              \
    X(NA_NOENTRY)        /* There is no such entry */                                 \
    X(NA_INTERRUPT)      /* Interrupted by a signal */                                \
    X(NA_AGAIN)          /* Resources are short now: progress and try again */        \
    X(NA_NOMEM)          /* No memory */                                              \
    X(NA_ACCESS)         /* Access refused */                                         \
    X(NA_FAULT)          /* Internal error: an invalid address or state */            \
    X(NA_BUSY)           /* The object is in use */                                   \
    X(NA_EXIST)          /* The entry exists already */                               \
    X(NA_NODEV)          /* There is no such device */                                \
    X(NA_INVALID_ARG)    /* An argument makes no sense */                             \
    X(NA_PROTOCOL_ERROR) /* The peer, or a plugin, violates the rules */              \
    X(NA_OVERFLOW)       /* A value does not fit into the buffer or the limit */      \
    X(NA_MSGSIZE)        /* The message is longer than the buffer that receives it */ \
    X(NA_PROTONOSUPPORT) /* No plugin offers the protocol */                          \
    X(NA_OPNOTSUPPORTED) /* The plugin does not offer the operation */                \
    X(NA_ADDRINUSE)      /* Another process listens on the address */                 \
    X(NA_ADDRNOTAVAIL)   /* The address is not one of this machine */                 \
    X(NA_HOSTUNREACH)    /* The peer cannot be reached, or is gone */                 \
    X(NA_TIMEOUT)        /* Nothing happened in the time given */                     \
    X(NA_CANCELED)       /* The operation was canceled */                             \
    X(NA_IO_ERROR)       /* The fabric or the system failed */                        \
    X(NA_HOSTFIREWALL)   /* The peer cannot be reached because of a firewall */       \
    X(NA_RETURN_MAX)

#define X(a) a,
typedef enum na_return {
    NA_RETURN_VALUES
} na_return_t;
#undef X

/* Kinds of operations, as reported to callbacks. */
#define NA_CB_TYPES                                                     \
    X(NA_CB_SEND_UNEXPECTED)       /* NA_Msg_send_unexpected() */       \
    X(NA_CB_RECV_UNEXPECTED)       /* NA_Msg_recv_unexpected() */       \
    X(NA_CB_MULTI_RECV_UNEXPECTED) /* NA_Msg_multi_recv_unexpected() */ \
    X(NA_CB_SEND_EXPECTED)         /* NA_Msg_send_expected() */         \
    X(NA_CB_RECV_EXPECTED)         /* NA_Msg_recv_expected() */         \
    X(NA_CB_PUT)                   /* NA_Put() */                       \
    X(NA_CB_GET)                   /* NA_Get() */                       \
    X(NA_CB_MAX)

#define X(a) a,
typedef enum na_cb_type {
    NA_CB_TYPES
} na_cb_type_t;
#undef X

/* Result of NA_Msg_recv_unexpected(). */
struct na_cb_info_recv_unexpected {
    size_t actual_buf_size; /* Bytes received */
    na_addr_t *source;      /* Sender; the callback owns it and gives it to NA_Addr_free() */
    na_tag_t tag;           /* Tag that the sender gave */
};

/* One of the messages that NA_Msg_multi_recv_unexpected() received. */
struct na_cb_info_multi_recv_unexpected {
    size_t actual_buf_size; /* Bytes received */
    na_addr_t *source;      /* Sender; the callback owns it and gives it to NA_Addr_free() */
    na_tag_t tag;           /* Tag that the sender gave */
    void *actual_buf;       /* Where the message is, inside the buffer of the operation */
    bool last;              /* The operation is over: no further event, it may be posted again */
};

/* Result of NA_Msg_recv_expected(). */
struct na_cb_info_recv_expected {
    size_t actual_buf_size; /* Bytes received */
};

/* Argument of a callback. */
struct na_cb_info {
    union { /* Valid for the receiving types, if ret is NA_SUCCESS */
        struct na_cb_info_recv_unexpected recv_unexpected;
        struct na_cb_info_multi_recv_unexpected multi_recv_unexpected;
        struct na_cb_info_recv_expected recv_expected;
    } info;            /* What was received */
    void *arg;         /* As given when the operation was posted */
    na_cb_type_t type; /* Kind of the completed operation */
    na_return_t ret;   /* Result: NA_SUCCESS, NA_CANCELED or the error */
};

/* A callback. It runs inside NA_Trigger(), in the calling thread. */
typedef void (*na_cb_t)(const struct na_cb_info *callback_info);

/* Versions as one number. Its top bits tell which fields these headers have at the end of the init
 * info beyond those of the version; comparisons ignore them. */
#define NA_VERSION_ADDITIONS     (1 << 28)
#define NA_VERSION_MASK          (NA_VERSION_ADDITIONS - 1)
#define NA_VERSION(major, minor) (NA_VERSION_ADDITIONS | ((major) << 16) | (minor))
#define NA_MAJOR(version)        (((version) &NA_VERSION_MASK) >> 16)
#define NA_MINOR(version)        ((version) &0xffff)
#define NA_VERSION_GE(v1, v2)    (((v1) &NA_VERSION_MASK) >= ((v2) &NA_VERSION_MASK))
#define NA_VERSION_LT(v1, v2)    (((v1) &NA_VERSION_MASK) < ((v2) &NA_VERSION_MASK))

/* Features to ask NA_Has_opt_feature() for. */
#define NA_OPT_MULTI_RECV    (1 << 0) /* NA_Msg_multi_recv_unexpected() */
#define NA_OPT_FIREWALL_ADDR (1 << 1) /* Addresses behind a firewall */

/* Longest useful timeout, in milliseconds. */
#define NA_MAX_IDLE_TIME (3600 * 1000)

/* Highest context id that the type can hold. */
#define NA_CONTEXT_ID_MAX UINT8_MAX

/* Intended use of a message buffer: flags of NA_Msg_buf_alloc(). */
#define NA_SEND       (1 << 0)
#define NA_RECV       (1 << 1)
#define NA_MULTI_RECV (1 << 2)
#define NA_ALLOC_MAX  (1 << 3) /* Above all flags */

/* Flags of NA_Op_create(). */
#define NA_OP_SINGLE 0x00 /* One event for each time it is posted */
#define NA_OP_MULTI  0x01 /* Several events: for NA_Msg_multi_recv_unexpected() */

/* Highest tag that the type can hold; the class's own limit is NA_Msg_get_max_tag(). */
#define NA_TAG_MAX UINT_MAX

/* Access rights of peers to the memory of a handle. */
#define NA_MEM_READ_ONLY  0x01
#define NA_MEM_WRITE_ONLY 0x02
#define NA_MEM_READWRITE  0x03

/* Progress modes. */
#define NA_NO_BLOCK 0x01 /* Spin: never sleep, and never wake other threads */
#define NA_NO_RETRY 0x02 /* Return NA_AGAIN to the caller instead of retrying internally */

/* Thread modes; without any of them every function may be called by any thread at any time. */
#define NA_THREAD_MODE_SINGLE_CLS (0x01) /* One thread at a time uses the class */
#define NA_THREAD_MODE_SINGLE_CTX (0x02) /* One thread at a time uses each context */
#define NA_THREAD_MODE_SINGLE     (NA_THREAD_MODE_SINGLE_CLS | NA_THREAD_MODE_SINGLE_CTX)

/* Default options. */
#ifdef __cplusplus
#    define NA_INIT_INFO_INITIALIZER                                                               \
        (na_init_info{NULL, NULL, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false, NA_TC_UNSPEC, NULL, false, \
                      false})
#    define NA_INIT_INFO_INITIALIZER_4_0 \
        (na_init_info_4_0{NULL, NULL, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false})
#else
#    define NA_INIT_INFO_INITIALIZER                          \
        ((struct na_init_info){.ip_subnet = NULL,             \
                               .auth_key = NULL,              \
                               .max_unexpected_size = 0,      \
                               .max_expected_size = 0,        \
                               .progress_mode = 0,            \
                               .addr_format = NA_ADDR_UNSPEC, \
                               .max_contexts = 1,             \
                               .thread_mode = 0,              \
                               .request_mem_device = false,   \
                               .traffic_class = NA_TC_UNSPEC, \
                               .auth_key_also = NULL,         \
                               .encrypt = false,              \
                               .mem_per_session = false})
#    define NA_INIT_INFO_INITIALIZER_4_0                          \
        ((struct na_init_info_4_0){.ip_subnet = NULL,             \
                                   .auth_key = NULL,              \
                                   .max_unexpected_size = 0,      \
                                   .max_expected_size = 0,        \
                                   .progress_mode = 0,            \
                                   .addr_format = NA_ADDR_UNSPEC, \
                                   .max_contexts = 1,             \
                                   .thread_mode = 0,              \
                                   .request_mem_device = false})
#endif

#endif /* NA_TYPES_H */
