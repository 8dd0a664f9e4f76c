/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of RPCs in flight to one target. */
#ifndef HG_FLOW_H
#define HG_FLOW_H

#include "hg/waiting.h"

/* What is in flight to one target, or waits for it. */
struct hg_flow {
    struct hg_addr *addr; /* a copy of the target's */
    _Atomic uint32_t max; /* HG_MAX_IN_FLIGHT_DEFAULT: the class's; 0: no limit */
    struct hg_flow *next; /* under the lock of the flows, as ref */
    uint32_t ref;         /* of equal addresses, and of who looks at it */
    pthread_mutex_t lock; /* of what follows */
    uint32_t in_flight;   /* forwards that were started */
    bool is_dispatching;  /* a thread starts what waits */
    bool is_stalled;      /* the transport had no resources; the next poll tries again */
    struct hg_waiting waiting;
};

/*
 * Count a forward, or let it wait. True if the caller is not to start it: it waits, and may be in
 * other hands, or *ret_p is an error.
 */
bool hg_flow_enter(struct hg_handle *handle, size_t payload, uint8_t flags, hg_return_t *ret_p);

/*
 * A forward that was counted ended: start those that wait. True if it did not: it waits again
 * because the transport refused it.
 */
bool hg_flow_leave(struct hg_handle *handle);

/* End a forward that waits; false if it does not. */
bool hg_flow_cancel(struct hg_handle *handle);

/* Try again what the transport refused. */
void hg_flow_retry(hg_context_t *context);

void hg_flow_unref(struct hg_flow *flow);

#endif /* HG_FLOW_H */
