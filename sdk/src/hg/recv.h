/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of a request. */
#ifndef HG_RECV_H
#define HG_RECV_H

#include "hg/handle.h"

/* The kind of targets' handles, for their pools. */
extern UTIL_HIDDEN const struct hg_handle_kind hg_recv_kind;

/* Post receives until the window is full. */
hg_return_t hg_recv_fill(hg_context_t *context, enum hg_path path);

/* Post receives again on the paths where none could be posted. */
void hg_recv_retry(hg_context_t *context);

/*
 * Release the requests that the program destroyed without a response. Returns false, and does
 * nothing, if other handles of requests are in use.
 */
bool hg_recv_release_unanswered(hg_context_t *context);

/* Cancel all receives and wait until they have ended; post them again. */
hg_return_t hg_recv_stop(hg_context_t *context);
void hg_recv_restart(hg_context_t *context);

/* Queue a request, so that HG_Trigger() calls its handler. */
void hg_recv_dispatch(struct hg_handle *handle);

#endif /* HG_RECV_H */
