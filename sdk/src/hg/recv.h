/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of a request. */
#ifndef HG_RECV_H
#define HG_RECV_H

#include "hg/handle.h"

/* What the pools of targets' handles are given. */
extern UTIL_HIDDEN const struct hg_handle_kind hg_recv_kind;

/* Keep enough receives posted. */
hg_return_t hg_recv_fill(hg_context_t *context, enum hg_path path);

/* Post receives where none could be posted. */
void hg_recv_retry(hg_context_t *context);

/*
 * Release the requests that the program has destroyed and not answered, if it has no others: false
 * if it has, then nothing was done.
 */
bool hg_recv_release_unanswered(hg_context_t *context);

/* Cancel all receives and wait until they ended; receive again. */
hg_return_t hg_recv_stop(hg_context_t *context);
void hg_recv_restart(hg_context_t *context);

/* Have the handler called by HG_Trigger(). */
void hg_recv_dispatch(struct hg_handle *handle);

#endif /* HG_RECV_H */
