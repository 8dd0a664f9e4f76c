/* SPDX-License-Identifier: BSD-3-Clause */
/* The origin's side of sessions: one for each pair of a local and a remote context. */
#ifndef HG_REMOTE_H
#define HG_REMOTE_H

#include "hg/handle.h"

/*
 * Give a forward the session of its peer, or queue it until a HELLO has made one. Returns true if
 * the caller must not start the forward: either it is queued, and another thread may use it, or
 * *ret_p is an error.
 */
bool hg_remote_enter(struct hg_handle *handle, size_t payload, uint8_t flags, hg_return_t *ret_p);

/*
 * Called when a deferred forward without a flow ended. Returns true if the forward is queued again
 * because the transport had no resources to send it.
 */
bool hg_remote_leave(struct hg_handle *handle);

/* End a forward that waits for a session as cancelled; returns false if it does not wait. */
bool hg_remote_cancel(struct hg_handle *handle);

/* The peer may have been restarted: have the next forward ask for a new session. */
void hg_remote_doubt(struct hg_handle *handle);

/* Retry what the transport refused for lack of resources. */
void hg_remotes_retry(hg_context_t *context);

/* Cancel the HELLOs that no forward waits for. */
void hg_remotes_cancel(hg_context_t *context);

/* Drop all sessions that a context has as an origin. */
void hg_remotes_drop(hg_context_t *context);

/* Drop the reference of an address that is freed. */
void hg_remote_unref(struct hg_remote *remote);

#endif /* HG_REMOTE_H */
