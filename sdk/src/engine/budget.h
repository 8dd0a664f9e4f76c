/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets of the bytes that peers make a class hold.
 *
 * What does not fit now waits, and is let in by what leaves: for each peer in the order in which it
 * came, and peers in turn, so that none waits for another one's share. A peer has its own limit,
 * and gets no more than it leaves for all others together: some that hold on to all they can get
 * leave room for one that comes later. When nothing is held, what comes first is always let in. One
 * that is larger than a peer's limit takes all of that, and there is one such at a time.
 */
#ifndef HG_ENGINE_BUDGET_H
#define HG_ENGINE_BUDGET_H

#include "engine/queue.h"

struct hg_budget_peer;

/* Bytes that count in a budget. */
struct hg_charge {
    struct hg_budget *budget; /* NULL: none */
    struct hg_budget_peer *peer;
    hg_size_t bytes;
    bool is_oversize; /* it has all that a peer can get, and is larger than that */
};

struct hg_budget {
    pthread_mutex_t lock;         /* of what follows; taken before those of timers and the queue */
    hg_size_t class_max;          /* bytes of all */
    hg_size_t peer_max;           /* bytes of one peer */
    hg_size_t single_max;         /* what is larger is refused */
    hg_size_t used;               /* bytes of all */
    bool has_oversize;            /* one that is larger than peer_max */
    uint32_t waiting;             /* that do not fit now */
    uint32_t waiting_max;         /* more are refused */
    uint32_t peer_waiting_max;    /* likewise, of one peer */
    struct hg_budget_peer *first; /* those that have something, or wait */
    struct hg_budget_peer **last; /* where the next one is linked */
    _Atomic uint64_t queued;      /* had to wait */
    _Atomic uint64_t refused;
};

/* One that wants room for its data. Its owner sets what it waits with. */
struct hg_budget_wait {
    hg_context_t *context;
    struct hg_completion *completion;  /* queued when it need not wait any more */
    struct hg_timer *timer;            /* armed while it waits, and ends that; NULL: none */
    const _Atomic bool *is_canceled_p; /* set before a cancel looks for it; NULL: there is none */
    hg_return_t ret;                   /* how its wait ended */
    /* Under the budget's lock. */
    struct hg_charge charge; /* its own when it waits no more */
    bool is_waiting;
    struct hg_budget_wait *next;
    struct hg_budget_wait **link; /* what points here */
};

void hg_budget_init(struct hg_budget *budget);
void hg_budget_fini(struct hg_budget *budget);

/* 0: no limit. */
void hg_budget_set(struct hg_budget *budget, hg_size_t class_max, hg_size_t peer_max,
                   hg_size_t single_max);

/*
 * Charge a peer with so many bytes, or let them wait, if there is a timer until `end_ns`. One that
 * waits may be in other hands when this returns. HG_MSGSIZE: they can never fit; HG_AGAIN: too many
 * wait.
 */
hg_return_t hg_budget_enter(struct hg_budget *budget, na_class_t *na_class, na_addr_t *na_addr,
                            hg_size_t size, struct hg_budget_wait *wait, uint64_t end_ns,
                            bool *is_waiting_p);

/* They are released; nothing if there are none. */
void hg_budget_leave(struct hg_charge *charge);

/* End one that waits, if it does. `is_over` says that its timer has fired. */
void hg_budget_cancel(struct hg_budget *budget, struct hg_budget_wait *wait, hg_return_t ret,
                      bool is_over);

/* Wait until nobody touches a context any more for whom it let something of that one in. */
void hg_budget_quiesce(struct hg_budget *budget);

/* End all that wait with a context. */
void hg_budget_cancel_all(struct hg_budget *budget, const hg_context_t *context);

/* Add what it has counted. */
void hg_budget_count(struct hg_budget *budget, struct hg_ext_counters *ext);

#endif /* HG_ENGINE_BUDGET_H */
