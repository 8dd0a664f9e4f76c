/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs and outputs that do not fit a message. */
#ifndef HG_OVERFLOW_H
#define HG_OVERFLOW_H

#include "hg/handle.h"

/*
 * Write the descriptor of `extra` into a message whose payload starts at `start`, after the
 * *payload_p bytes that are there; add its size to *payload_p.
 */
hg_return_t hg_overflow_expose(struct hg_handle *handle, struct hg_msg *msg, struct hg_extra *extra,
                               size_t start, size_t *payload_p);

/*
 * Fetch the extra input (at a target) or output (at an origin) that the received message describes.
 * Unless this returns an error, HG_Trigger() calls `done` with the result.
 */
hg_return_t hg_overflow_fetch(struct hg_handle *handle,
                              void (*done)(struct hg_handle *handle, hg_return_t ret));

/* Cancel a fetch that runs or waits for the budget. */
void hg_overflow_cancel(struct hg_handle *handle);

#endif /* HG_OVERFLOW_H */
