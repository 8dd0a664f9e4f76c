/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/budget.h"

#include "engine/context_timer.h"
#include "engine/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* Memory is allocated in pages, so charges are rounded up to pages. */
#define HG_BUDGET_PAGE 4096u

/*
 * Requests that wait for the budget hold their message buffers, so their number is limited, per
 * class and per peer.
 */
#define HG_BUDGET_WAITING_MAX      16384u
#define HG_BUDGET_PEER_WAITING_MAX 4096u

/* A peer that holds memory or has requests waiting. Guarded by the budget's lock. */
struct hg_budget_peer {
    na_class_t *na_class;
    na_addr_t *na_addr;
    hg_size_t used;
    uint32_t waiting;
    struct hg_budget_wait *first; /* linked by next */
    struct hg_budget_wait **last; /* where the next waiter is linked */
    struct hg_budget_peer *next;
    struct hg_budget_peer **link; /* the pointer that points to this peer */
};

static hg_return_t hg_budget_check_size(struct hg_budget *budget, hg_size_t size);
static hg_return_t hg_budget_check_queue(struct hg_budget *budget,
                                         const struct hg_budget_peer *peer);
static bool hg_budget_fits(const struct hg_budget *budget, const struct hg_charge *charge);
static void hg_budget_take(struct hg_charge *charge);
static void hg_budget_queue(struct hg_budget_wait *wait, uint64_t end_ns);
static void hg_budget_unqueue(struct hg_budget_wait *wait);
static void hg_budget_end(struct hg_budget_wait *wait, hg_return_t ret);
static bool hg_budget_timer_fires(const struct hg_budget_wait *wait);
static void hg_budget_admit(struct hg_budget *budget);
static struct hg_budget_peer *hg_budget_find(struct hg_budget *budget, na_class_t *na_class,
                                             na_addr_t *na_addr);
static void hg_budget_link(struct hg_budget *budget, struct hg_budget_peer *peer);
static void hg_budget_unlink(struct hg_budget *budget, struct hg_budget_peer *peer);
static void hg_budget_release_peer(struct hg_budget *budget, struct hg_budget_peer *peer);

void hg_budget_init(struct hg_budget *budget)
{
    (void) pthread_mutex_init(&budget->lock, NULL);
    budget->last = &budget->first;
    budget->waiting_max = HG_BUDGET_WAITING_MAX;
    budget->peer_waiting_max = HG_BUDGET_PEER_WAITING_MAX;
    hg_budget_set(budget, HG_OVERFLOW_BUDGET_DEFAULT, HG_OVERFLOW_PEER_BUDGET_DEFAULT, 0);
}

void hg_budget_fini(struct hg_budget *budget)
{
    (void) pthread_mutex_destroy(&budget->lock);
}

void hg_budget_set(struct hg_budget *budget, hg_size_t class_max, hg_size_t peer_max,
                   hg_size_t single_max)
{
    /* "No limit" is small enough that sums of two limits do not overflow. */
    const hg_size_t none = HG_SIZE_MAX / 4;

    (void) pthread_mutex_lock(&budget->lock);
    budget->class_max = class_max != 0 && class_max < none ? class_max : none;
    budget->peer_max = peer_max != 0 && peer_max < none ? peer_max : none;
    budget->single_max = single_max != 0 ? single_max : none;
    if (budget->peer_max > budget->class_max)
        budget->peer_max = budget->class_max;
    hg_budget_admit(budget);
    (void) pthread_mutex_unlock(&budget->lock);
}

hg_return_t hg_budget_enter(struct hg_budget *budget, na_class_t *na_class, na_addr_t *na_addr,
                            hg_size_t size, struct hg_budget_wait *wait, uint64_t end_ns,
                            bool *is_waiting_p)
{
    const hg_size_t bytes = (size + HG_BUDGET_PAGE - 1) / HG_BUDGET_PAGE * HG_BUDGET_PAGE;
    struct hg_budget_peer *peer = NULL;
    hg_return_t ret;

    *is_waiting_p = false;
    (void) pthread_mutex_lock(&budget->lock);
    ret = hg_budget_check_size(budget, size);
    if (ret != HG_SUCCESS)
        goto out;
    peer = hg_budget_find(budget, na_class, na_addr);
    if (peer == NULL) {
        ret = HG_NOMEM;
        goto out;
    }
    wait->charge.budget = budget;
    wait->charge.peer = peer;
    wait->charge.is_oversize = bytes > budget->peer_max;
    wait->charge.bytes = wait->charge.is_oversize ? budget->peer_max : bytes;
    if (peer->first == NULL && hg_budget_fits(budget, &wait->charge)) {
        hg_budget_take(&wait->charge);
    } else {
        ret = hg_budget_check_queue(budget, peer);
        if (ret != HG_SUCCESS) {
            wait->charge.budget = NULL;
            hg_budget_release_peer(budget, peer);
            goto out;
        }
        *is_waiting_p = true;
        hg_budget_queue(wait, end_ns);
        /* A cancel that came before the request was queued did not find it waiting. */
        if (wait->is_canceled_p != NULL && atomic_load(wait->is_canceled_p) &&
            !hg_budget_timer_fires(wait))
            hg_budget_end(wait, HG_CANCELED);
    }

out:
    (void) pthread_mutex_unlock(&budget->lock);
    return ret;
}

void hg_budget_leave(struct hg_charge *charge)
{
    struct hg_budget *budget = charge->budget;

    if (budget == NULL)
        return;
    (void) pthread_mutex_lock(&budget->lock);
    charge->budget = NULL;
    budget->used -= charge->bytes;
    charge->peer->used -= charge->bytes;
    if (charge->is_oversize)
        budget->has_oversize = false;
    hg_budget_release_peer(budget, charge->peer);
    hg_budget_admit(budget);
    (void) pthread_mutex_unlock(&budget->lock);
}

void hg_budget_cancel(struct hg_budget *budget, struct hg_budget_wait *wait, hg_return_t ret,
                      bool has_fired)
{
    (void) pthread_mutex_lock(&budget->lock);
    if (wait->is_waiting && (has_fired || !hg_budget_timer_fires(wait))) {
        hg_budget_end(wait, ret);
        hg_budget_admit(budget);
    }
    (void) pthread_mutex_unlock(&budget->lock);
}

void hg_budget_quiesce(struct hg_budget *budget)
{
    (void) pthread_mutex_lock(&budget->lock);
    (void) pthread_mutex_unlock(&budget->lock);
}

void hg_budget_cancel_all(struct hg_budget *budget, const hg_context_t *context)
{
    struct hg_budget_peer *peer, *next_peer;
    struct hg_budget_wait *wait, *next;

    (void) pthread_mutex_lock(&budget->lock);
    for (peer = budget->first; peer != NULL; peer = next_peer) {
        next_peer = peer->next;
        for (wait = peer->first; wait != NULL; wait = next) {
            next = wait->next;
            if (wait->context == context && !hg_budget_timer_fires(wait))
                hg_budget_end(wait, HG_CANCELED); /* frees the peer with its last waiter */
        }
    }
    hg_budget_admit(budget);
    (void) pthread_mutex_unlock(&budget->lock);
}

void hg_budget_count(struct hg_budget *budget, struct hg_ext_counters *ext)
{
    (void) pthread_mutex_lock(&budget->lock);
    ext->overflow_bytes += budget->used;
    ext->overflow_waiting_count += budget->waiting;
    (void) pthread_mutex_unlock(&budget->lock);
    ext->overflow_queued_count += atomic_load(&budget->queued);
    ext->overflow_refused_count += atomic_load(&budget->refused);
}

/* Refuse data that is larger than the budget can ever allow. */
static hg_return_t hg_budget_check_size(struct hg_budget *budget, hg_size_t size)
{
    if (size <= budget->single_max)
        return HG_SUCCESS;
    HG_LOG_WRITE(hg_count_level(&budget->refused),
                 "a peer has %" PRIu64 " bytes for us beside a message, and the budget is %" PRIu64
                 "; if they are to be taken raise it by HG_Class_set_overflow_budget()",
                 size, budget->single_max);
    return HG_MSGSIZE;
}

/* Refuse to queue another request when too many wait already. */
static hg_return_t hg_budget_check_queue(struct hg_budget *budget,
                                         const struct hg_budget_peer *peer)
{
    if (budget->waiting < budget->waiting_max && peer->waiting < budget->peer_waiting_max)
        return HG_SUCCESS;
    HG_LOG_WRITE(hg_count_level(&budget->refused),
                 "refused data beside a message: %" PRIu32 " others wait for the overflow budget "
                 "of %" PRIu64 " bytes, %" PRIu32 " of them of this peer",
                 budget->waiting, budget->class_max, peer->waiting);
    return HG_AGAIN;
}

static bool hg_budget_fits(const struct hg_budget *budget, const struct hg_charge *charge)
{
    const hg_size_t used = charge->peer->used + charge->bytes;
    const hg_size_t total = budget->used + charge->bytes;

    if (budget->used == 0)
        return true;
    if (charge->is_oversize && budget->has_oversize)
        return false;
    return used <= budget->peer_max && total <= budget->class_max &&
           used <= budget->class_max - total;
}

static void hg_budget_take(struct hg_charge *charge)
{
    charge->budget->used += charge->bytes;
    charge->peer->used += charge->bytes;
    if (charge->is_oversize)
        charge->budget->has_oversize = true;
}

/* Append to the peer's queue; once queued, the timer or a cancel may end the wait. */
static void hg_budget_queue(struct hg_budget_wait *wait, uint64_t end_ns)
{
    struct hg_budget_peer *peer = wait->charge.peer;

    wait->next = NULL;
    wait->link = peer->last;
    *peer->last = wait;
    peer->last = &wait->next;
    peer->waiting++;
    wait->charge.budget->waiting++;
    hg_count(&wait->charge.budget->queued);
    wait->is_waiting = true;
    if (wait->timer != NULL)
        hg_context_arm(wait->context, wait->timer, end_ns);
}

static void hg_budget_unqueue(struct hg_budget_wait *wait)
{
    struct hg_budget_peer *peer = wait->charge.peer;

    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    else
        peer->last = wait->link;
    peer->waiting--;
    wait->charge.budget->waiting--;
    wait->is_waiting = false;
}

/* End a wait: the completion is queued, and the next HG_Trigger() owns the request. */
static void hg_budget_end(struct hg_budget_wait *wait, hg_return_t ret)
{
    struct hg_budget *budget = wait->charge.budget;
    struct hg_budget_peer *peer = wait->charge.peer;

    hg_budget_unqueue(wait);
    wait->ret = ret;
    if (ret == HG_SUCCESS)
        hg_budget_take(&wait->charge);
    else
        wait->charge.budget = NULL;
    hg_context_push(wait->context, wait->completion);
    hg_budget_release_peer(budget, peer);
}

/* Disarm the timer; true if the timer is firing right now and will end the wait itself. */
static bool hg_budget_timer_fires(const struct hg_budget_wait *wait)
{
    return wait->timer != NULL && !hg_context_disarm(wait->context, wait->timer);
}

/* Admit waiting requests that fit, one of each peer per round. */
static void hg_budget_admit(struct hg_budget *budget)
{
    struct hg_budget_peer *peer, *next, *end;
    bool is_admitted = budget->waiting > 0;

    while (is_admitted) {
        is_admitted = false;
        end = util_container_of(budget->last, struct hg_budget_peer, next);
        for (peer = budget->first; peer != NULL; peer = peer != end ? next : NULL) {
            next = peer->next;
            if (peer->first == NULL || !hg_budget_fits(budget, &peer->first->charge) ||
                hg_budget_timer_fires(peer->first))
                continue;
            is_admitted = true;
            hg_budget_unlink(budget, peer);
            hg_budget_link(budget, peer);
            hg_budget_end(peer->first, HG_SUCCESS);
        }
    }
}

/* Find the peer of an address, or create it; NULL: out of memory. */
static struct hg_budget_peer *hg_budget_find(struct hg_budget *budget, na_class_t *na_class,
                                             na_addr_t *na_addr)
{
    struct hg_budget_peer *peer;

    for (peer = budget->first; peer != NULL; peer = peer->next)
        if (peer->na_class == na_class && NA_Addr_cmp(na_class, peer->na_addr, na_addr))
            return peer;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    if (NA_Addr_dup(na_class, na_addr, &peer->na_addr) != NA_SUCCESS) {
        free(peer);
        return NULL;
    }
    peer->na_class = na_class;
    peer->last = &peer->first;
    hg_budget_link(budget, peer);
    return peer;
}

static void hg_budget_link(struct hg_budget *budget, struct hg_budget_peer *peer)
{
    peer->next = NULL;
    peer->link = budget->last;
    *budget->last = peer;
    budget->last = &peer->next;
}

static void hg_budget_unlink(struct hg_budget *budget, struct hg_budget_peer *peer)
{
    *peer->link = peer->next;
    if (peer->next != NULL)
        peer->next->link = peer->link;
    else
        budget->last = peer->link;
}

/* Free a peer that holds nothing and has nothing waiting. */
static void hg_budget_release_peer(struct hg_budget *budget, struct hg_budget_peer *peer)
{
    if (peer->used > 0 || peer->waiting > 0)
        return;
    hg_budget_unlink(budget, peer);
    NA_Addr_free(peer->na_class, peer->na_addr);
    free(peer);
}
