/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin's side of an RPC. */
#ifndef HG_FORWARD_H
#define HG_FORWARD_H

#include "hg/handle.h"

/* The kind of origins' handles, for their pools. */
extern UTIL_HIDDEN const struct hg_handle_kind hg_forward_kind;

/* Forward a HELLO whose payload is in the request; the callback reads the HELLO_ACK. */
hg_return_t hg_forward_hello(struct hg_handle *handle, hg_cb_t callback, void *arg, size_t payload);

/* Start a deferred forward, in this thread or in the next HG_Trigger() of its context. */
void hg_forward_start_deferred(struct hg_handle *handle);
void hg_forward_push_deferred(struct hg_handle *handle);

#endif /* HG_FORWARD_H */
