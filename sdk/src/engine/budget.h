/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets for the bytes that peers make a class hold.
 *
 * A request that does not fit waits until others release their share. Requests of one peer are
 * admitted in order of arrival, and peers take turns, so that no peer waits for another one's
 * share. A peer has its own limit, and gets no more than it leaves for all others together: even if
 * a few peers hold on to all they can get, some room is left for a new one. When nothing is held,
 * the first request is always admitted. A request larger than a peer's limit is charged that whole
 * limit, and only one such request is admitted at a time.
 */
#ifndef HG_ENGINE_BUDGET_H
#define HG_ENGINE_BUDGET_H

#include "engine/queue.h"

struct hg_budget_peer;

/* Bytes charged to a budget and to a peer. */
struct hg_charge {
    struct hg_budget *budget; /* NULL: nothing is charged */
    struct hg_budget_peer *peer;
    hg_size_t bytes;
    bool is_oversize; /* larger than a peer's limit, and charged that whole limit */
};

struct hg_budget {
    pthread_mutex_t lock;         /* guards the members below; taken before timer and queue locks */
    hg_size_t class_max;          /* limit of all peers together, in bytes */
    hg_size_t peer_max;           /* limit of one peer, in bytes */
    hg_size_t single_max;         /* larger requests are refused, in bytes */
    hg_size_t used;               /* bytes charged to all peers */
    bool has_oversize;            /* a request larger than peer_max is admitted */
    uint32_t waiting;             /* number of requests that wait */
    uint32_t waiting_max;         /* further requests are refused */
    uint32_t peer_waiting_max;    /* limit of waiting requests of one peer */
    struct hg_budget_peer *first; /* peers that hold memory or have requests waiting */
    struct hg_budget_peer **last; /* where the next peer is linked */
    _Atomic uint64_t queued;      /* counter of requests that had to wait */
    _Atomic uint64_t refused;
};

/* A request that may have to wait for the budget. The caller sets the first four members. */
struct hg_budget_wait {
    hg_context_t *context;
    struct hg_completion *completion;  /* queued when the wait ends */
    struct hg_timer *timer;            /* armed during the wait, which it ends; NULL: none */
    const _Atomic bool *is_canceled_p; /* set before hg_budget_cancel(); NULL: no cancel */
    hg_return_t ret;                   /* result of the wait */
    /* Guarded by the budget's lock. */
    struct hg_charge charge; /* owned by the request again once it does not wait */
    bool is_waiting;
    struct hg_budget_wait *next;
    struct hg_budget_wait **link; /* the pointer that points to this request */
};

void hg_budget_init(struct hg_budget *budget);
void hg_budget_fini(struct hg_budget *budget);

/* Set the limits in bytes; 0: no limit. */
void hg_budget_set(struct hg_budget *budget, hg_size_t class_max, hg_size_t peer_max,
                   hg_size_t single_max);

/*
 * Charge `size` bytes to a peer. If they do not fit the request waits, with a timer until `end_ns`
 * at the most, and may already be owned by another thread when this returns. HG_MSGSIZE: the data
 * can never fit; HG_AGAIN: too many requests wait.
 */
hg_return_t hg_budget_enter(struct hg_budget *budget, na_class_t *na_class, na_addr_t *na_addr,
                            hg_size_t size, struct hg_budget_wait *wait, uint64_t end_ns,
                            bool *is_waiting_p);

/* Release charged bytes; does nothing if nothing is charged. */
void hg_budget_leave(struct hg_charge *charge);

/* End a wait with `ret`, if the request waits. `has_fired`: its timer has fired. */
void hg_budget_cancel(struct hg_budget *budget, struct hg_budget_wait *wait, hg_return_t ret,
                      bool has_fired);

/* Wait until no other thread is admitting a request, and so using that request's context. */
void hg_budget_quiesce(struct hg_budget *budget);

/* End the waits of all requests of a context. */
void hg_budget_cancel_all(struct hg_budget *budget, const hg_context_t *context);

/* Add the budget's counters to `ext`. */
void hg_budget_count(struct hg_budget *budget, struct hg_ext_counters *ext);

#endif /* HG_ENGINE_BUDGET_H */
