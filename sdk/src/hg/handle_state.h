/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an operation on a handle is, and what may happen to it there: a table for each end of an
 * RPC, which docs/architecture.md shows. Header only: where the state is known the next one is a
 * constant.
 */
#ifndef HG_HANDLE_STATE_H
#define HG_HANDLE_STATE_H

#include <stdint.h>

enum hg_handle_state {
    HG_HANDLE_NONE,     /* in a table: the event does not happen in this state */
    HG_HANDLE_UNUSED,   /* no program has the handle: it is free, or about to be handed over */
    HG_HANDLE_POSTED,   /* nor this one: its receive is posted */
    HG_HANDLE_REFUSING, /* nor this one: the library answers the request with an error */
    HG_HANDLE_IDLE,     /* nothing runs; at the target: there was no response yet */
    HG_HANDLE_ACTIVE,   /* an operation runs; its callback will run */
    HG_HANDLE_DRAINING, /* an operation failed to start, but part of it still has to end */
    HG_HANDLE_DONE,     /* the response was sent */
    HG_HANDLE_STATES
};

enum hg_handle_event {
    HG_EVENT_POST,      /* its receive is about to be posted */
    HG_EVENT_ARRIVE,    /* that ended: by a request, an error, or because it was not accepted */
    HG_EVENT_HAND_OVER, /* a program gets it: from HG_Create(), in the handler */
    HG_EVENT_REFUSE,    /* the library answers the request */
    HG_EVENT_START,     /* the program forwards or responds */
    HG_EVENT_FAIL,      /* that did not start, and left nothing behind */
    HG_EVENT_DRAIN,     /* that did not start, and its receive has to be taken back */
    HG_EVENT_END,       /* all parts of the operation ended */
    HG_EVENT_RELEASE,   /* the last reference is gone */
    HG_EVENTS
};

static const uint8_t hg_origin_next[HG_HANDLE_STATES][HG_EVENTS] = {
    [HG_HANDLE_UNUSED] =
        {[HG_EVENT_HAND_OVER] = HG_HANDLE_IDLE, [HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_IDLE] = {[HG_EVENT_START] = HG_HANDLE_ACTIVE, [HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_ACTIVE] = {[HG_EVENT_FAIL] = HG_HANDLE_IDLE,
                          [HG_EVENT_DRAIN] = HG_HANDLE_DRAINING,
                          [HG_EVENT_END] = HG_HANDLE_IDLE},
    [HG_HANDLE_DRAINING] = {[HG_EVENT_END] = HG_HANDLE_IDLE},
};

static const uint8_t hg_target_next[HG_HANDLE_STATES][HG_EVENTS] = {
    [HG_HANDLE_UNUSED] = {[HG_EVENT_POST] = HG_HANDLE_POSTED,
                          [HG_EVENT_HAND_OVER] = HG_HANDLE_IDLE,
                          [HG_EVENT_REFUSE] = HG_HANDLE_REFUSING,
                          [HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_POSTED] = {[HG_EVENT_ARRIVE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_REFUSING] = {[HG_EVENT_REFUSE] = HG_HANDLE_REFUSING,
                            [HG_EVENT_END] = HG_HANDLE_DONE,
                            [HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_IDLE] = {[HG_EVENT_REFUSE] = HG_HANDLE_REFUSING,
                        [HG_EVENT_START] = HG_HANDLE_ACTIVE,
                        [HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
    [HG_HANDLE_ACTIVE] = {[HG_EVENT_FAIL] = HG_HANDLE_IDLE, [HG_EVENT_END] = HG_HANDLE_DONE},
    [HG_HANDLE_DONE] = {[HG_EVENT_RELEASE] = HG_HANDLE_UNUSED},
};

#endif /* HG_HANDLE_STATE_H */
