/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of the RPCs in flight to one target. */
#ifndef HG_FLOW_H
#define HG_FLOW_H

#include "hg/waiting.h"

/* The RPCs to one target that are in flight, and those that wait for their turn. */
struct hg_flow {
    struct hg_addr *addr; /* of the target */
    _Atomic uint32_t max; /* HG_MAX_IN_FLIGHT_DEFAULT: as for the class; 0: no limit */
    struct hg_flow *next; /* guarded by hg_flows.lock */
    uint32_t ref;         /* held by equal addresses and threads that use it; guarded likewise */
    pthread_mutex_t lock; /* guards the members below */
    uint32_t in_flight;   /* forwards that were started and have not ended */
    bool is_dispatching;  /* a thread starts forwards that wait */
    bool is_stalled;      /* the transport had no resources; the next poll retries */
    struct hg_waiting waiting;
};

/*
 * Count a forward, or queue it if the limit is reached. Returns true if the caller must not start
 * the forward: either it is queued, and another thread may use it, or *ret_p is an error.
 */
bool hg_flow_enter(struct hg_handle *handle, size_t payload, uint8_t flags, hg_return_t *ret_p);

/*
 * A forward of a flow ended: start those that wait. Returns true if the forward is queued again
 * because the transport had no resources to send it.
 */
bool hg_flow_leave(struct hg_handle *handle);

/* End a forward that waits for its turn as cancelled; returns false if it does not wait. */
bool hg_flow_cancel(struct hg_handle *handle);

/* Retry what the transport refused for lack of resources. */
void hg_flow_retry(hg_context_t *context);

void hg_flow_unref(struct hg_flow *flow);

#endif /* HG_FLOW_H */
