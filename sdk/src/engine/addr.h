/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of peers: an NA address for each path. */
#ifndef HG_ENGINE_ADDR_H
#define HG_ENGINE_ADDR_H

#include "engine/class.h"

struct hg_addr {
    hg_class_t *hg_class;
    na_addr_t *na_addr[HG_PATH_MAX]; /* NULL: the peer cannot be reached on this path */
    _Atomic int32_t ref;
    _Atomic uint8_t path;           /* enum hg_path; HG_PATH_MAIN once the peer left HG_PATH_SM */
    _Atomic(struct hg_flow *) flow; /* owned by the RPC layer; NULL until needed */
    _Atomic(struct hg_remote *) remote[HG_PATH_MAX]; /* likewise */
    bool is_self;                                    /* is the address of the class itself */
    bool is_embedded; /* part of a handle, valid as long as its request; HG_Addr_dup() copies it */
};

/* The path that messages and transfers to this peer take. [any thread] */
static inline enum hg_path hg_addr_get_path(const struct hg_addr *addr)
{
    return (enum hg_path) atomic_load_explicit(&addr->path, memory_order_relaxed);
}

/*
 * Make an HG address from a deserialized NA address, for descriptors with an embedded address.
 * Takes ownership of na_addr, also on failure (then it returns HG_ADDR_NULL). [any thread]
 */
hg_addr_t hg_addr_wrap(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr);

/* Return a new, independent address with one reference, e.g. from one embedded in a handle. */
hg_return_t hg_addr_copy(hg_class_t *hg_class, const struct hg_addr *addr, hg_addr_t *new_addr_p);

#endif /* HG_ENGINE_ADDR_H */
