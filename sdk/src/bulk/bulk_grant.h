/* SPDX-License-Identifier: BSD-3-Clause */
/* Grants, for the layers above that hand descriptors to peers. */
#ifndef HG_BULK_GRANT_H
#define HG_BULK_GRANT_H

#include "mercury_bulk.h"

/*
 * A peer is about to be told of the descriptor: it may reach the memory in its session. Nothing
 * happens in classes that do not keep memory to sessions, and with memory of another process.
 */
hg_return_t hg_bulk_grant(hg_bulk_t bulk, hg_addr_t addr);

#endif /* HG_BULK_GRANT_H */
