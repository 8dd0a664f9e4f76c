/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A class as all layers above NA see it: its transports, its contexts, the defaults of its
 * operations. The layers above keep their own state in structures of their own.
 */
#ifndef HG_ENGINE_CLASS_H
#define HG_ENGINE_CLASS_H

#include "engine/counters.h"
#include "mercury.h"
#include "mercury_ext.h"

#include <pthread.h>

struct hg_bulk_class;
struct hg_flow;
struct hg_proc_class;
struct hg_remote;

/*
 * A class has one or two paths: path 0 is the transport of its init string; path 1, if it is open,
 * is shared memory towards peers on the same node (auto_sm). Contexts have the same paths. An
 * address has an NA address for each path on which the peer can be reached.
 */
enum hg_path {
    HG_PATH_MAIN = 0,
    HG_PATH_SM = 1,
    HG_PATH_MAX = 2
};

struct hg_class_path {
    na_class_t *na_class; /* NULL: closed */
    size_t unexpected_size;
    size_t expected_size;
    size_t unexpected_header;
    size_t expected_header;
};

/* Functions of the RPC layer that the engine calls, set when a class is opened. */
struct hg_upper {
    /* Try again the operations that the transport refused for lack of resources. */
    void (*retry)(hg_context_t *context);
    /* Drop the reference of an address that is freed to its flow (RPCs in flight). */
    void (*flow_unref)(struct hg_flow *flow);
    /* Drop the reference of an address that is freed to its sessions. */
    void (*remote_unref)(struct hg_remote *remote);
};

#define HG_NODE_ID_SIZE 40

/* A context's id is a byte. */
#define HG_CONTEXT_IDS   256u
#define HG_CONTEXT_WORDS (HG_CONTEXT_IDS / 64)

struct hg_class {
    struct hg_class_path paths[HG_PATH_MAX];
    const struct hg_upper *upper;
    struct hg_bulk_class *bulk;   /* the bulk layer's part, never NULL */
    struct hg_proc_class *proc;   /* the proc layer's part, never NULL */
    unsigned int forks;           /* hg_forks of the process that opened the class */
    bool is_busy;                 /* progress never sleeps */
    bool is_single_thread;        /* the program promised to use one thread */
    bool owns_na_class;           /* no other class uses its NA class, and so its address */
    uint32_t max_contexts;        /* 0: opened over an NA class, which has the limit */
    _Atomic uint32_t deadline_ms; /* default deadline of operations; 0: none */
    _Atomic uint32_t poll_set_ns; /* HG_Class_set_poll_time(), plus 1; 0: not set */
    _Atomic int32_t addr_count;
    char node_id[HG_NODE_ID_SIZE]; /* of this machine, for auto_sm */

    pthread_mutex_t lock;                   /* guards the members below */
    uint64_t context_ids[HG_CONTEXT_WORDS]; /* bitmap of ids in use */
    struct hg_context *contexts;            /* linked by next */
    struct hg_counters retired;             /* sum of the counters of destroyed contexts */
    uint32_t number;                        /* sequence number in the process, from 0 */
    struct hg_class *next;                  /* in the list of all classes */
    struct hg_class **previous_p;           /* the pointer to this class; NULL: not in the list */
};

/* The lock of the list of open classes; exported for the fork handlers. */
extern UTIL_HIDDEN pthread_mutex_t hg_classes_lock;

/* Add a class to the list of open classes, or remove it. [any thread] */
void hg_class_link(hg_class_t *hg_class);
void hg_class_unlink(hg_class_t *hg_class);

/* Whether this is the address of an open class; the memory is not read. [any thread] */
bool hg_class_is_open(const hg_class_t *hg_class);

/* Call a function for each open class of this process. None can be opened or closed meanwhile. */
void hg_class_for_each(void (*function)(hg_class_t *hg_class, void *arg), void *arg);

/* Find the open context with an id, or NULL. Without a reference: it may be destroyed meanwhile. */
hg_context_t *hg_class_find_context(hg_class_t *hg_class, uint8_t id);

/* The default deadline of operations in milliseconds; 0: none. */
static inline uint32_t hg_class_get_deadline(const hg_class_t *hg_class)
{
    return atomic_load_explicit(&hg_class->deadline_ms, memory_order_relaxed);
}

#endif /* HG_ENGINE_CLASS_H */
