/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages beside requests and responses: acknowledgements of fetched data, and the word that
 * an origin has abandoned a request.
 */
#ifndef HG_CONTROL_H
#define HG_CONTROL_H

#include "hg/class.h"

struct hg_control;

struct hg_controls {
    pthread_mutex_t lock;
    struct hg_control *free[HG_PATH_MAX]; /* linked by next_free */
    struct hg_control *all;               /* linked by next_all */
    struct hg_control *retry;             /* linked by next_free */
    _Atomic bool has_retry;               /* counted in hg_context.refused_count */
    uint32_t sending;
    struct hg_handle *awaiting; /* responses that wait to be fetched, linked by next_awaiting */
    struct hg_abandoned_table *abandoned; /* NULL: no forward was abandoned yet */
};

void hg_controls_init(struct hg_controls *controls);
void hg_controls_fini(hg_context_t *context);

/*
 * Cancel control messages that are being sent, and waits for fetches; returns how many there were.
 */
uint32_t hg_controls_cancel(hg_context_t *context);

/* Send again what the transport could not take. */
void hg_controls_retry(hg_context_t *context);

/* Tell the other side that what it exposed was fetched (or will not be). */
void hg_control_send_ack(struct hg_handle *handle, hg_return_t ret_code);

/* Tell the target that nobody will fetch its response. */
void hg_control_send_abandon(struct hg_handle *handle);

/* That message came. `handle` received it and is not kept. */
void hg_control_recv_abandon(struct hg_handle *handle);

/* Register a handle as waiting to be fetched; false if its origin abandoned it before. */
bool hg_control_await(struct hg_handle *handle);
void hg_control_await_end(struct hg_handle *handle);

/*
 * `handle` received an acknowledgement with the cookie of another response: end the wait of the one
 * that it is for, if there is one.
 */
void hg_control_pass_ack(const struct hg_handle *handle, hg_id_t id, uint32_t cookie,
                         hg_return_t ret_code);

#endif /* HG_CONTROL_H */
