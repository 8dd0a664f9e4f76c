/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a handle, and the events that change them: a table for origins' handles and one for
 * targets', which docs/architecture.md shows. They are in a header so that the next state is a
 * constant where the state is one.
 */
#ifndef HG_HANDLE_STATE_H
#define HG_HANDLE_STATE_H

#include <stdint.h>

enum hg_handle_state {
    HG_HANDLE_NONE,     /* in a table: the event is a bug in this state */
    HG_HANDLE_UNUSED,   /* the program does not have the handle */
    HG_HANDLE_POSTED,   /* likewise, and its receive is posted */
    HG_HANDLE_REFUSING, /* likewise, and the library responds, with an error or a HELLO_ACK */
    HG_HANDLE_IDLE,     /* no operation runs; at the target: there was no response yet */
    HG_HANDLE_ACTIVE,   /* an operation runs and will call back */
    HG_HANDLE_DRAINING, /* an operation failed to start, but its receive still has to end */
    HG_HANDLE_DONE,     /* the response was sent */
    HG_HANDLE_STATES
};

enum hg_handle_event {
    HG_EVENT_POST,      /* its receive is about to be posted */
    HG_EVENT_ARRIVE,    /* its receive ended, or was not posted */
    HG_EVENT_HAND_OVER, /* the program gets it, from HG_Create() or in the handler */
    HG_EVENT_REFUSE,    /* the library responds in place of the program */
    HG_EVENT_START,     /* an operation starts */
    HG_EVENT_FAIL,      /* the operation failed to start; nothing is posted */
    HG_EVENT_DRAIN,     /* the operation failed to start; its receive is cancelled */
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
