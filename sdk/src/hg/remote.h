/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers that are called in sessions, and those sessions. */
#ifndef HG_REMOTE_H
#define HG_REMOTE_H

#include "hg/handle.h"

/* The remotes of a class. */
struct hg_remotes;

/*
 * Give a forward the session of its peer, or have it wait for one, which is made. True if the
 * caller is not to start it: it waits, and may be in other hands, or *ret_p is an error.
 */
bool hg_remote_enter(struct hg_handle *handle, size_t payload, uint8_t flags, hg_return_t *ret_p);

/*
 * A forward that had waited, and that no limit counts, ended. True if it did not: it waits again
 * because the transport refused it.
 */
bool hg_remote_leave(struct hg_handle *handle);

/* End a forward that waits; false if it does not. */
bool hg_remote_cancel(struct hg_handle *handle);

/* The peer may have been restarted: the next forward asks for another session. */
void hg_remote_doubt(struct hg_handle *handle);

/* Try again what the transport refused. */
void hg_remotes_retry(hg_context_t *context);

/* Cancel HELLOs for which nothing waits. */
void hg_remotes_cancel(hg_context_t *context);

/* Forget the sessions of a context. */
void hg_remotes_drop(hg_context_t *context);

/* An address that has sessions is freed. */
void hg_remote_unref(struct hg_remote *remote);

#endif /* HG_REMOTE_H */
