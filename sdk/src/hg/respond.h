/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of a response. */
#ifndef HG_RESPOND_H
#define HG_RESPOND_H

#include "hg/handle.h"

/*
 * Error responses that can wait to be sent again. More are dropped, and then only a deadline of the
 * origin ends the RPC.
 */
#define HG_RESPOND_REFUSED_MAX 256u

/*
 * Respond with an error in place of the program, and release the handle when that is sent. With
 * HG_SUCCESS the response is a HELLO_ACK of deferred_payload bytes, which is in the message.
 */
void hg_respond_error(struct hg_handle *handle, hg_return_t ret_code);

/* Send again the error responses that the transport refused. */
void hg_respond_retry(hg_context_t *context);

/* Release the handles of these responses instead; returns how many there were. */
uint32_t hg_respond_drop_refused(hg_context_t *context);

/* `ended` and `cancel` of the kind of targets' handles. */
void hg_respond_ended(struct hg_handle *handle);
hg_return_t hg_respond_cancel(struct hg_handle *handle);

#endif /* HG_RESPOND_H */
