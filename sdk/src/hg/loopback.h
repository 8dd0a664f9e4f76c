/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs to the class's own address. */
#ifndef HG_LOOPBACK_H
#define HG_LOOPBACK_H

#include "hg/handle.h"

static inline bool hg_loopback_applies(const struct hg_handle *handle)
{
    return handle->info.addr->is_self && !hg_rpc_class(handle->info.hg_class)->no_loopback;
}

hg_return_t hg_loopback_forward(struct hg_handle *origin, size_t payload, uint8_t flags);
void hg_loopback_respond(struct hg_handle *target, hg_return_t ret, size_t payload, uint8_t flags);
void hg_loopback_cancel(struct hg_handle *origin);

/* The target's handle is released; the origin may still wait for a response. */
void hg_loopback_release(struct hg_handle *target);

#endif /* HG_LOOPBACK_H */
