/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bulk layer's part of a context: a pool of operations, with their transport operations, and
 * the queue of operations that the transport refused for lack of resources.
 */
#ifndef HG_BULK_POOL_H
#define HG_BULK_POOL_H

#include "bulk/bulk_internal.h"

/* Take an initialized operation from the pool, or create one; put it back. */
hg_return_t hg_bulk_pool_get(hg_context_t *context, struct hg_bulk_transfer **op_p);
void hg_bulk_pool_put(struct hg_bulk_transfer *op);

/* Queue an operation for hg_bulk_op_retry(). The operation's lock is held. */
void hg_bulk_pool_retry_later(struct hg_bulk_transfer *op);

/* Post the refused pieces of all queued operations again. */
void hg_bulk_retry(hg_context_t *context);

/* Free the bulk layer's part of a context without running transfers. */
void hg_bulk_pool_fini(hg_context_t *context);

/* bulk_op.c: post the refused pieces of an operation again. */
void hg_bulk_op_retry(struct hg_bulk_transfer *op);

#endif /* HG_BULK_POOL_H */
