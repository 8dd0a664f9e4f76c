/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A class as all layers above NA see it: its transports, its contexts, what its operations start
 * with. The layers above keep what is theirs in structures of their own.
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

/* What the engine asks of the RPC layer, which sets it when it opens a class. */
struct hg_upper {
    /* Try again what the transport refused for lack of resources. */
    void (*retry)(hg_context_t *context);
    /* An address that counts RPCs in flight is freed. */
    void (*flow_unref)(struct hg_flow *flow);
    /* An address that has sessions is freed. */
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
    unsigned int forks;           /* hg_forks of the process that opened it */
    bool is_busy;                 /* never sleeps */
    bool is_single_thread;        /* the program promised so */
    bool owns_na_class;           /* no other class is over its NA class, and so at its address */
    uint32_t max_contexts;        /* 0: the class was opened over an NA class, which knows */
    _Atomic uint32_t deadline_ms; /* of operations for which none is set; 0: none */
    _Atomic int32_t addr_count;
    char node_id[HG_NODE_ID_SIZE]; /* of this machine, for auto_sm */

    pthread_mutex_t lock;                   /* of what follows */
    uint64_t context_ids[HG_CONTEXT_WORDS]; /* bitmap: ids of contexts, opened or being opened */
    struct hg_context *contexts;            /* linked by next */
    struct hg_counters retired;             /* sum over destroyed contexts */
    uint32_t number;                        /* of the class in the process, from 0 */
    struct hg_class *next;                  /* in the list of all classes */
    struct hg_class **previous_p;           /* what points here; NULL: not in that list */
};

/* The lock of the list of open classes, for a fork(). */
extern UTIL_HIDDEN pthread_mutex_t hg_classes_lock;

/* Have a class in the list of open ones. [any thread] */
void hg_class_link(hg_class_t *hg_class);
void hg_class_unlink(hg_class_t *hg_class);

/* Whether this points to a class at all, which is not read to find out. [any thread] */
bool hg_class_is_open(const hg_class_t *hg_class);

/*
 * Call a function for each open class of this process. Classes cannot be opened or closed
 * meanwhile.
 */
void hg_class_for_each(void (*function)(hg_class_t *hg_class, void *arg), void *arg);

/* The open context of a class with an id, or NULL. It is not kept from being destroyed. */
hg_context_t *hg_class_find_context(hg_class_t *hg_class, uint8_t id);

/* The deadline in milliseconds of operations for which none is set; 0: none. */
static inline uint32_t hg_class_get_deadline(const hg_class_t *hg_class)
{
    return atomic_load_explicit(&hg_class->deadline_ms, memory_order_relaxed);
}

#endif /* HG_ENGINE_CLASS_H */
