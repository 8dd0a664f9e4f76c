/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bulk layer's part of a context: operations that are not in use, with their transport
 * operations, and those that the transport refused for lack of resources.
 */
#ifndef HG_BULK_POOL_H
#define HG_BULK_POOL_H

#include "bulk/bulk_internal.h"

/* An operation with its lock and pieces set up, from the pool if there is one. */
hg_return_t hg_bulk_pool_get(hg_context_t *context, struct hg_bulk_transfer **op_p);
void hg_bulk_pool_put(struct hg_bulk_transfer *op);

/* Has hg_bulk_op_retry() called later. The operation's lock is held. */
void hg_bulk_pool_retry_later(struct hg_bulk_transfer *op);

/* Posts what was refused, as far as the transport takes it now. */
void hg_bulk_retry(hg_context_t *context);

/* Frees the bulk layer's part of a context, on which nothing runs any more. */
void hg_bulk_pool_fini(hg_context_t *context);

/* bulk_op.c: posts what was refused. */
void hg_bulk_op_retry(struct hg_bulk_transfer *op);

#endif /* HG_BULK_POOL_H */
