/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of a response. */
#ifndef HG_RESPOND_H
#define HG_RESPOND_H

#include "hg/handle.h"

/*
 * Error responses that wait to be sent again; more are dropped, and only their origins' deadlines
 * end those RPCs.
 */
#define HG_RESPOND_REFUSED_MAX 256u

/*
 * Response for the program to be told that the RPC failed; the handle is released when it is sent.
 * With HG_SUCCESS it is the answer to a HELLO, which is in the message: deferred_payload bytes.
 */
void hg_respond_error(struct hg_handle *handle, hg_return_t ret_code);

/* Send again the error responses that the transport refused. */
void hg_respond_retry(hg_context_t *context);

/* Release the handles of those instead; returns how many there were. */
uint32_t hg_respond_drop_refused(hg_context_t *context);

/* What the kind of targets' handles does: end a response, and cancel it. */
void hg_respond_ended(struct hg_handle *handle);
hg_return_t hg_respond_cancel(struct hg_handle *handle);

#endif /* HG_RESPOND_H */
