/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the bulk and proc layers may know of the RPC layer's inside: the NA objects under its
 * objects, completions, and where they hang data of their own. Nothing else of src/hg is theirs to
 * include.
 */
#ifndef HG_INTERNAL_H
#define HG_INTERNAL_H

#include "hg/timer.h"
#include "mercury.h"
#include "util/compiler.h"
#include "util/mpsc_queue.h"

#include <stdatomic.h>

struct hg_proc_class;

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

/* Classes [any thread] */

/* Whether this points to a class at all, which is not read to find out. */
bool hg_class_is_open(const hg_class_t *hg_class);

/* Whether the class is the parent's, from before a fork(), with a line in the log if it is. */
bool hg_fork_refuses(const hg_class_t *hg_class, const char *function);

/* Forks between the first process that watched and this one. Written by a child alone. */
extern UTIL_HIDDEN unsigned int hg_forks;

/* Of the bulk layer, for a fork(): all locks of its registry, and what is in it is the parent's. */
void hg_bulk_registry_lock(void);
void hg_bulk_registry_unlock(void);
void hg_bulk_registry_clear(void);

/* The class's NA class on a path, NULL if that is not open. */
na_class_t *hg_class_get_na(const hg_class_t *hg_class, enum hg_path path);

/* Whether no other class is over its NA class, and so at its address. */
bool hg_class_owns_address(const hg_class_t *hg_class);

/* Whether small bulk data may travel inside of descriptors. */
bool hg_class_has_bulk_eager(const hg_class_t *hg_class);

/* Where the class keeps the proc layer's settings. Never NULL. */
struct hg_proc_class *hg_class_get_proc_class(hg_class_t *hg_class);

/* Milliseconds that operations of the class have, unless it is said for one; 0: no deadline. */
uint32_t hg_class_get_deadline(const hg_class_t *hg_class);

/* Count the bulk descriptors of a class; a class that has some cannot be closed. */
void hg_class_bulk_incr(hg_class_t *hg_class);
void hg_class_bulk_decr(hg_class_t *hg_class);

/* Contexts [any thread] */

/* The context's NA context on a path, NULL if that is not open. */
na_context_t *hg_context_get_na(const hg_context_t *context, enum hg_path path);

/* Count one bulk transfer, HG_PATH_MAIN if it needs no transport. */
void hg_context_count_bulk(hg_context_t *context, enum hg_path path);

/*
 * Count operations that still have to push a completion; a context that has some cannot be
 * destroyed. To be called before the operation starts, and after its completion was run or it
 * failed to start.
 */
void hg_context_op_begin(hg_context_t *context);
void hg_context_op_end(hg_context_t *context);

/*
 * The bulk layer's own data of a context, NULL at first. Setting succeeds once: it returns false if
 * another thread was faster, and then frees nothing. free_callback is called by
 * HG_Context_destroy().
 */
void *hg_context_get_bulk_data(const hg_context_t *context);
bool hg_context_set_bulk_data(hg_context_t *context, void *data, void (*free_callback)(void *));

/*
 * Count bulk transfers that the transport refused for lack of resources. While there are some, each
 * progress calls hg_bulk_retry() and does not sleep.
 */
void hg_context_refused_add(hg_context_t *context, int32_t count);

/*
 * Timers of a context, see timer.h. Arming one is followed by hg_context_wake(), for those who
 * sleep until a later one.
 */
void hg_context_arm(hg_context_t *context, struct hg_timer *timer, uint64_t at_ns);
bool hg_context_disarm(hg_context_t *context, struct hg_timer *timer);
void hg_context_expedite(hg_context_t *context, struct hg_timer *timer, uint64_t at_ns);

/* Monotonic time in nanoseconds. */
uint64_t hg_clock_ns(void);

/* A number that nobody knows; where the system has none, one that no other process has. */
uint64_t hg_random(void);

/* Bytes that nobody knows; false where the system has none. */
bool hg_random_bytes(void *buf, size_t size);

/* Count operations that their deadline ended, and those that the transport still has. */
void hg_context_count_timeout(hg_context_t *context);
void hg_context_count_detached(hg_context_t *context);

/* Count how a bulk transfer ended, and what is tried again after the transport refused it. */
void hg_context_count_bulk_end(hg_context_t *context, hg_return_t ret, hg_size_t size);
void hg_context_count_retry(hg_context_t *context);

/* How long a cancelled operation with a deadline waits for the transport, at the most. */
#define HG_CANCEL_NS UINT64_C(20000000)

/* When to look again at what could not end when its time was over. */
#define HG_FINISH_AGAIN_NS UINT64_C(5000000)

#define HG_NS_PER_MS       UINT64_C(1000000)

/* Of the bulk layer: call a function with the last reference to a local descriptor. */
void hg_bulk_own(hg_bulk_t bulk, void (*free_callback)(void *), void *arg);

/* Of the bulk layer: post what was refused, as far as the transport takes it now. */
void hg_bulk_retry(hg_context_t *context);

/* Addresses [any thread] */

/* The path that messages and transfers to this peer take. */
enum hg_path hg_addr_get_path(const struct hg_addr *addr);

/* The NA address of the peer on a given path, NULL if it cannot be reached there. */
na_addr_t *hg_addr_get_na_path(const struct hg_addr *addr, enum hg_path path);

/* Whether it is the class's own address. */
bool hg_addr_is_self(const struct hg_addr *addr);

/* The class of an address. */
hg_class_t *hg_addr_get_class(const struct hg_addr *addr);

/*
 * Make an address of a serialized NA address or take a counted reference to one, for descriptors
 * that are bound. hg_addr_wrap() takes over na_addr, also if it fails (then it returns
 * HG_ADDR_NULL).
 */
hg_addr_t hg_addr_wrap(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr);

/* Completions */

/*
 * Something to be run by HG_Trigger(), embedded in the operation that it ends. `run` may free or
 * reuse it. It calls the program's callback; what that returns is its own business to log.
 */
struct hg_completion {
    struct mpsc_node node;
    void (*run)(struct hg_completion *completion);
};

/* Queue a completion, and wake who waits for one. [any thread] [may not block] */
void hg_context_push(hg_context_t *context, struct hg_completion *completion);

/*
 * Wake who waits in HG_Progress() or on the wait descriptor. Also needed after an NA operation was
 * started that may have completed within the call: its completion then waits in NA's queue for
 * somebody to run it. Costs one load when nobody sleeps. [any thread] [may not block]
 */
void hg_context_wake(hg_context_t *context);

/* Blocks of memory for what does not fit a message [any thread] */

struct hg_budget;
struct hg_budget_peer;

/* Bytes that count in a budget, see hg_private.h. */
struct hg_charge {
    struct hg_budget *budget; /* NULL: none */
    struct hg_budget_peer *peer;
    hg_size_t bytes;
    bool is_oversize; /* it has all that a peer can get, and is larger than that */
};

/* A block that its holder alone uses. */
struct hg_block {
    hg_class_t *hg_class;
    void *memory;            /* page-aligned; what is in it is left from an earlier use */
    hg_size_t capacity;      /* bytes of it, a multiple of the page size */
    hg_bulk_t source;        /* describes what is in it for peers to read, from when it is asked for
                           until the block is given back */
    hg_bulk_t sink;          /* all of it for us to write to, HG_BULK_NULL until asked for */
    uint32_t index;          /* of its list in the class */
    struct hg_charge charge; /* what it counts for, until it is given back */
    struct hg_block *next;
};

/* Take a block of at least `size` bytes; a class of NULL keeps none. NULL if memory is out. */
struct hg_block *hg_block_get(hg_class_t *hg_class, hg_size_t size);

/* Give it back, to be used again. */
void hg_block_put(struct hg_block *block);

/* Keep its memory, to be freed by free(), and free the rest. */
void *hg_block_take(struct hg_block *block);

/*
 * The descriptor of the first `size` bytes of a block for peers to read, or of all of it for us to
 * write to. It stays the block's.
 */
hg_return_t hg_block_expose(struct hg_block *block, hg_size_t size, hg_bulk_t *bulk_p);
hg_return_t hg_block_describe(struct hg_block *block, hg_bulk_t *bulk_p);

/* Return codes */

/* The HG code of an NA code. The common ones are numerically equal. */
static inline hg_return_t hg_return_from_na(na_return_t na_return)
{
    return na_return < NA_RETURN_MAX ? (hg_return_t) na_return : HG_NA_ERROR;
}

#endif /* HG_INTERNAL_H */
