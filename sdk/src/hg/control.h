/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: acknowledgements of fetched data, and ABANDON, by which an origin says that it
 * does not wait for a response any more.
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
    uint32_t sending;                     /* control messages that are not sent yet */
    struct hg_handle *awaiting; /* responses that wait to be fetched, linked by next_awaiting */
    struct hg_abandoned_table *abandoned; /* NULL: no forward was abandoned yet */
};

void hg_controls_init(struct hg_controls *controls);
void hg_controls_fini(hg_context_t *context);

/*
 * Cancel the control messages that are being sent, and the responses that wait to be fetched;
 * returns how many there were.
 */
uint32_t hg_controls_cancel(hg_context_t *context);

/* Send again the control messages that the transport refused. */
void hg_controls_retry(hg_context_t *context);

/* Tell the peer that its input or output was fetched, or, with an error, that it will not be. */
void hg_control_send_ack(struct hg_handle *handle, hg_return_t ret_code);

/* Send an ABANDON to the target. */
void hg_control_send_abandon(struct hg_handle *handle);

/* Process an ABANDON that `handle` received; the caller keeps the handle. */
void hg_control_recv_abandon(struct hg_handle *handle);

/* Register a response as waiting to be fetched; false if an ABANDON for it came before. */
bool hg_control_await(struct hg_handle *handle);
void hg_control_await_end(struct hg_handle *handle);

/*
 * `handle` received an acknowledgement with the cookie of another response: end the wait of that
 * response, if there is one.
 */
void hg_control_pass_ack(const struct hg_handle *handle, hg_id_t id, uint32_t cookie,
                         hg_return_t ret_code);

#endif /* HG_CONTROL_H */
