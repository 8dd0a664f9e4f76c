/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPC layer's part of a class. */
#ifndef HG_CLASS_H
#define HG_CLASS_H

#include "bulk/block.h"
#include "engine/log.h"
#include "engine/queue.h"
#include "hg/hello.h"
#include "hg/registry.h"
#include "proc/proc_internal.h"

/* Bits of a path's tags: acknowledgement, generation, slot. */
struct hg_tag_layout {
    uint32_t slot_bits;
    uint32_t slot_mask;
    uint32_t generation_bits;
    uint32_t generation_mask;
    uint32_t ack_bit;
};

/* The flows of a class, see flow.h. */
struct hg_flows {
    _Atomic bool has_limits;  /* the class or a target has a limit */
    _Atomic uint32_t max;     /* for each target; 0: no limit */
    _Atomic uint32_t waiting; /* forwards that wait for their turn */
    pthread_mutex_t lock;     /* guards the members below */
    uint32_t own_count;       /* flows with a limit of their own */
    struct hg_flow *first;
};

/* The remotes of a class, see remote.c. */
struct hg_remotes {
    pthread_mutex_t lock;
    struct hg_remote *first;
};

struct hg_rpc_class {
    struct hg_class base;
    struct hg_tag_layout tags[HG_PATH_MAX];
    bool is_listening;
    bool no_loopback;
    bool no_overflow;
    bool release_input_early;
    bool stats;
    uint8_t msg_flags[HG_PATH_MAX]; /* HG_CORE_HEADER_ flags of all messages on a path */
    struct kit_auth_secret *secrets[HG_HELLO_KEYS]; /* NULL: no key, or the transports prove it */
    uint8_t instance[HG_HELLO_INSTANCE];            /* random; set if there are secrets */
    struct hg_remotes remotes;
    void (*answer_hello)(struct hg_completion *completion); /* see answer.c */
    uint32_t post_init;
    uint32_t post_incr;
    _Atomic uint32_t overflow_ms; /* default time limit for fetching extra data; 0: none */
    hg_size_t in_offset;
    hg_size_t out_offset;
    struct hg_registry registry;
    struct hg_bulk_class bulk;
    struct hg_proc_class proc;
    struct hg_budget in_budget;  /* extra inputs, from the fetch until they are released */
    struct hg_budget out_budget; /* extra outputs, while they are fetched */
    struct hg_flows flows;
    _Atomic uint64_t deferrals; /* forwards that were deferred so far, see waiting.h */
    hg_return_t (*handle_create)(hg_handle_t, void *);
    void *handle_create_arg;
    void *data;
    void (*data_free)(void *);
    hg_peer_lost_cb_t peer_lost;
    void *peer_lost_arg;
    bool has_key;                   /* auth_key is set; the transport or HG proves it */
    _Atomic bool has_warned_of_key; /* the log has the warning that a peer may need a key */
    pthread_mutex_t self_lock; /* guards hg_handle.peer and other_end, of RPCs to the own address */
};

/* Every hg_class is the base of an hg_rpc_class. */
static inline struct hg_rpc_class *hg_rpc_class(const hg_class_t *hg_class)
{
    return util_container_of(hg_class, struct hg_rpc_class, base);
}

#endif /* HG_CLASS_H */
