/* SPDX-License-Identifier: BSD-3-Clause */
/* Grants, for the layers above that hand descriptors to peers. */
#ifndef HG_BULK_GRANT_H
#define HG_BULK_GRANT_H

#include "mercury_bulk.h"

/*
 * Let a peer that will be sent the descriptor reach the memory in its session. Does nothing without
 * mem_per_session, or for memory of another process.
 */
hg_return_t hg_bulk_grant(hg_bulk_t bulk, hg_addr_t addr);

#endif /* HG_BULK_GRANT_H */
