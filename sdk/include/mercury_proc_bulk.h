/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processing of bulk descriptors, so that they can be RPC arguments.
 */
#ifndef MERCURY_PROC_BULK_H
#define MERCURY_PROC_BULK_H

#include "mercury_proc.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Process a bulk descriptor. HG_BULK_NULL is decoded as HG_BULK_NULL. With the flag
 * HG_PROC_BULK_EAGER the data of a read-only descriptor are included if the message has room for
 * them. HG_FREE drops the reference of the decoded descriptor; a target that keeps it takes another
 * reference by HG_Bulk_ref_incr().
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     pointer to an hg_bulk_t
 *
 * \return HG_SUCCESS; HG_OVERFLOW if the descriptor exceeds the message being decoded; otherwise as
 *         HG_Bulk_serialize() and HG_Bulk_deserialize()
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_BULK_H */
