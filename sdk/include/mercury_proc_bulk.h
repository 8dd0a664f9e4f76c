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
 * Handle a bulk descriptor. HG_BULK_NULL arrives as HG_BULK_NULL. With the flag HG_PROC_BULK_EAGER
 * the data of a read-only descriptor travel along if the message has room for them. HG_FREE drops
 * the reference that decoding made; a target that keeps the descriptor takes one more by
 * HG_Bulk_ref_incr().
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     pointer to an hg_bulk_t
 *
 * \return HG_SUCCESS; HG_OVERFLOW if the descriptor runs past the end of what is decoded;
 *         otherwise as HG_Bulk_serialize() and HG_Bulk_deserialize()
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void *data);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_BULK_H */
