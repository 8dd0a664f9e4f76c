/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types shared by all parts of the RPC layer: sizes, return codes, init info, counters.
 */
#ifndef MERCURY_CORE_TYPES_H
#define MERCURY_CORE_TYPES_H

#include "mercury_config.h"
#include "na_types.h"

typedef uint64_t hg_size_t; /* A size or an offset in bytes */
typedef uint64_t hg_id_t;   /* The number that names an RPC on the wire */

/* How much of an RPC message is protected by a checksum. Bulk data never is. */
typedef enum hg_checksum_level {
    HG_CHECKSUM_NONE,        /* Nothing */
    HG_CHECKSUM_RPC_HEADERS, /* The RPC header only */
    HG_CHECKSUM_RPC_PAYLOAD  /* The RPC header and the encoded input or output */
} hg_checksum_level_t;

/*
 * Options of HG_Init_opt() and HG_Init_opt2(). Set one up with HG_INIT_INFO_INITIALIZER and then
 * change single fields, so that fields added later get their defaults.
 */
struct hg_init_info {
    /* Options of the transport, see na_types.h. */
    struct na_init_info_4_0 na_init_info;

    /* An open NA class to use instead of opening one from the init string, which is then not read.
     * The caller owns it, and HG_Finalize() does not close it. NULL: open one. */
    na_class_t *na_class;

    /* How many receives for requests a listening context posts when it is created.
     * 0: the default, 512. */
    uint32_t request_post_init;

    /* By how many receives that number grows whenever all of them hold requests that handlers are
     * still working on. 0: the default, 512; negative: never. While none is posted, requests wait
     * in the transport. */
    int32_t request_post_incr;

    /* Use shared memory towards peers on the same node. Both sides must set it: the string of an
     * own address is then "<address>;sm=<node>@<address in shared memory>", where <node> is the
     * boot id of the machine, and a lookup of such a string tries the second part if the boot id is
     * the same. Classes without auto_sm look up the first part. A peer that cannot be reached
     * through shared memory (for instance in another container) is reached as other peers are. So
     * is, after one HG_HOSTUNREACH, a peer that is gone from shared memory: its process may be
     * restarted at the first part. HG_Addr_is_auto_sm() and counters (mercury_ext.h) tell which
     * path was taken. */
    uint8_t auto_sm;

    /* Init string for that shared-memory endpoint, NULL for the default. */
    const char *sm_info_string;

    /* What to protect by a checksum. Each side verifies the checksums it receives, whatever it
     * sends. */
    hg_checksum_level_t checksum_level;

    /* Never carry small bulk data inside of a bulk descriptor. */
    uint8_t no_bulk_eager;

    /* Send requests to the own address through the transport, too. */
    uint8_t no_loopback;

    /* Write the class's counters to the log in HG_Finalize(). */
    uint8_t stats;

    /* Post one buffer for each receive even if the transport can fill one buffer with many
     * messages. This is always the case: a request is handled in the buffer it was received in, for
     * as long as its handle exists, so a shared buffer would be occupied by its slowest request, or
     * each request would be copied. The few receives that are posted at a time are reused at once
     * and stay in the cache, and transports that gain from larger buffers have such buffers
     * themselves. (Since 2.3.) */
    uint8_t no_multi_recv;

    /* Give the input buffer back to the transport in HG_Get_input() rather than in HG_Destroy().
     * (Since 2.3.) */
    uint8_t release_input_early;

    /* Traffic class wanted from the transport. (Since 2.4.) */
    enum na_traffic_class traffic_class;

    /* Refuse (HG_MSGSIZE) input and output that do not fit one eager message instead of
     * transferring them by RMA. (Since 2.4.) */
    bool no_overflow;

    /* How many multi-receive buffers are posted; 0: the default, 4. There are none, see
     * no_multi_recv: the value is checked and not used; request_post_init and request_post_incr set
     * the number of receives. (Since 2.4.) */
    unsigned int multi_recv_op_max;

    /* Copy requests out of the multi-receive buffers when at most so many of them are left; 0:
     * never. May not exceed multi_recv_op_max, is checked and not used. (Since 2.4.) */
    unsigned int multi_recv_copy_threshold;

    /* A second key that is accepted besides na_init_info.auth_key, NULL or "" for none: to change
     * keys without stopping the other processes (docs/security.md). Read by HG_Init_opt2() and
     * HG_Init_reason(), as are `encrypt` and `mem_per_session`. \since 1.1 */
    const char *auth_key_also;

    /* Nothing that is sent can be read without auth_key, bulk data included: a transport that
     * cannot do that is refused. Needs auth_key. \since 1.1 */
    bool encrypt;

    /* A peer reaches memory only in the session in which its descriptor was sent to that peer: in
     * an RPC's input or output, or after HG_Bulk_grant(). A descriptor that peers pass on is of no
     * use to others. A transport that cannot do that is refused. Needs auth_key (docs/security.md).
     * \since 1.1 */
    bool mem_per_session;
};

/* Return codes. The first ones, up to HG_HOSTFIREWALL, are numerically those of NA. */
#define HG_RETURN_VALUES                                                            \
    X(HG_SUCCESS)        /* Done */                                                 \
    X(HG_PERMISSION)     /* Operation not permitted */                              \
    X(HG_NOENTRY)        /* No such entry, e.g. an RPC id that is not registered */ \
    X(HG_INTERRUPT)      /* Interrupted */                                          \
    X(HG_AGAIN)          /* Not possible now, try again */                          \
    X(HG_NOMEM)          /* Out of memory */                                        \
    X(HG_ACCESS)         /* Access refused */                                       \
    X(HG_FAULT)          /* Bad address, or state broken */                         \
    X(HG_BUSY)           /* In use */                                               \
    X(HG_EXIST)          /* Exists already */                                       \
    X(HG_NODEV)          /* No such device */                                       \
    X(HG_INVALID_ARG)    /* An argument is wrong */                                 \
    X(HG_PROTOCOL_ERROR) /* The peer's data violate the protocol */                 \
    X(HG_OVERFLOW)       /* A value does not fit */                                 \
    X(HG_MSGSIZE)        /* A message does not fit */                               \
    X(HG_PROTONOSUPPORT) /* Protocol not supported */                               \
    X(HG_OPNOTSUPPORTED) /* Operation not supported */                              \
    X(HG_ADDRINUSE)      /* Address in use */                                       \
    X(HG_ADDRNOTAVAIL)   /* Address not available */                                \
    X(HG_HOSTUNREACH)    /* Peer not reachable, or gone */                          \
    X(HG_TIMEOUT)        /* Timeout expired */                                      \
    X(HG_CANCELED)       /* Cancelled */                                            \
    X(HG_IO_ERROR)       /* Input/output error */                                   \
    X(HG_HOSTFIREWALL)   /* Peer behind a firewall */                               \
    X(HG_CHECKSUM_ERROR) /* Checksum does not match */                              \
    X(HG_NA_ERROR)       /* Unspecified error of NA */                              \
    X(HG_OTHER_ERROR)    /* Unspecified error */                                    \
    X(HG_RETURN_MAX)

#define X(a) a,
typedef enum hg_return {
    HG_RETURN_VALUES
} hg_return_t;
#undef X

/* Names that older clients use for the same codes. */
#define HG_INVALID_PARAM HG_INVALID_ARG
#define HG_SIZE_ERROR    HG_MSGSIZE
#define HG_NOMEM_ERROR   HG_NOMEM
#define HG_NO_MATCH      HG_NOENTRY

/* Which operation a callback reports. */
typedef enum hg_cb_type {
    HG_CB_LOOKUP,  /* Address lookup */
    HG_CB_FORWARD, /* Forwarded RPC */
    HG_CB_RESPOND, /* Response */
    HG_CB_BULK     /* Bulk transfer */
} hg_cb_type_t;

/* Which of an RPC's two messages. */
typedef enum {
    HG_UNDEF,
    HG_INPUT,
    HG_OUTPUT
} hg_op_t;

/* Operation of a proc function. */
typedef enum {
    HG_ENCODE, /* Write the value to the stream */
    HG_DECODE, /* Read the value from the stream */
    HG_FREE    /* Release what decoding the value allocated */
} hg_proc_op_t;

/* Flag: the message travels through shared memory. */
#define HG_CORE_SM (1 << 0)

/* Counters of a class, or of the process; see HG_Class_get_counters(). */
struct hg_diag_counters {
    uint64_t rpc_req_sent_count;        /* Requests sent */
    uint64_t rpc_req_recv_count;        /* Requests received */
    uint64_t rpc_resp_sent_count;       /* Responses sent */
    uint64_t rpc_resp_recv_count;       /* Responses received */
    uint64_t rpc_req_extra_count;       /* Requests whose input did not fit a message */
    uint64_t rpc_resp_extra_count;      /* Responses whose output did not fit a message */
    uint64_t rpc_req_recv_active_count; /* Received requests not destroyed yet */
    uint64_t rpc_multi_recv_copy_count; /* Requests copied out of a multi-receive buffer: 0 */
    uint64_t bulk_count;                /* Bulk transfers started */
};

/* Version numbers as one integer, and comparisons of such. Its top bits tell which fields these
 * headers have at the end of the init info beyond those of the version; comparisons ignore them. */
#define HG_VERSION_ADDITIONS     (1 << 28)
#define HG_VERSION_MASK          (HG_VERSION_ADDITIONS - 1)
#define HG_VERSION(major, minor) (HG_VERSION_ADDITIONS | ((major) << 16) | (minor))
#define HG_MAJOR(version)        (((version) &HG_VERSION_MASK) >> 16)
#define HG_MINOR(version)        ((version) &0xffff)
#define HG_VERSION_GE(v1, v2)    (((v1) &HG_VERSION_MASK) >= ((v2) &HG_VERSION_MASK))
#define HG_VERSION_LT(v1, v2)    (((v1) &HG_VERSION_MASK) < ((v2) &HG_VERSION_MASK))

/* A timeout that means "very long", in milliseconds. */
#define HG_MAX_IDLE_TIME (3600 * 1000)

/* The largest hg_size_t. */
#define HG_SIZE_MAX (UINT64_MAX)

/* Default options. */
#define HG_INIT_INFO_INITIALIZER                                                                \
    (struct hg_init_info)                                                                       \
    {                                                                                           \
        .na_init_info = NA_INIT_INFO_INITIALIZER_4_0, .na_class = NULL, .request_post_init = 0, \
        .request_post_incr = 0, .auto_sm = false, .sm_info_string = NULL,                       \
        .checksum_level = HG_CHECKSUM_NONE, .no_bulk_eager = false, .no_loopback = false,       \
        .stats = false, .no_multi_recv = false, .release_input_early = false,                   \
        .traffic_class = NA_TC_UNSPEC, .no_overflow = false, .multi_recv_op_max = 0,            \
        .multi_recv_copy_threshold = 0, .auth_key_also = NULL, .encrypt = false,                \
        .mem_per_session = false                                                                \
    }

#endif /* MERCURY_CORE_TYPES_H */
