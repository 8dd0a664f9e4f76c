/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of peers: an NA address for each path. */
#ifndef HG_ENGINE_ADDR_H
#define HG_ENGINE_ADDR_H

#include "engine/class.h"

struct hg_addr {
    hg_class_t *hg_class;
    na_addr_t *na_addr[HG_PATH_MAX]; /* NULL: the peer cannot be reached there */
    _Atomic int32_t ref;
    _Atomic uint8_t path; /* of messages; the second one is left when the peer is gone there */
    _Atomic(struct hg_flow *) flow;                  /* the RPC layer's; NULL until it is needed */
    _Atomic(struct hg_remote *) remote[HG_PATH_MAX]; /* likewise */
    bool is_self;                                    /* the class's own */
    bool is_embedded; /* part of a handle: lives as long as the request; is duplicated by a copy */
};

/* The path that messages and transfers to this peer take. [any thread] */
static inline enum hg_path hg_addr_get_path(const struct hg_addr *addr)
{
    return (enum hg_path) atomic_load_explicit(&addr->path, memory_order_relaxed);
}

/*
 * Make an address of a deserialized NA address, for descriptors that are bound. Takes over na_addr,
 * also if it fails (then it returns HG_ADDR_NULL). [any thread]
 */
hg_addr_t hg_addr_wrap(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr);

/* A stand-alone address for one that is part of a handle, or that nobody else is to keep. */
hg_return_t hg_addr_copy(hg_class_t *hg_class, const struct hg_addr *addr, hg_addr_t *new_addr_p);

#endif /* HG_ENGINE_ADDR_H */
