/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: a compact form of addresses for use in messages. Without it the
 * string form is used. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_ADDR_SERIALIZE_H
#define NA_PLUGIN_ADDR_SERIALIZE_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_ADDR_SERIALIZE "na.addr_serialize/1"

struct na_plugin_addr_serialize {
    struct na_plugin_extension extension;

    /* Returns the number of bytes that addr_serialize writes. [any thread] [may not block] */
    uint64_t (*addr_serialize_size)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Writes an address into `size` bytes at `buf`. Returns NA_PLUGIN_OVERFLOW if that is too
     * small. [any thread] [may not block]
     */
    int32_t (*addr_serialize)(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              void *buf, uint64_t size);

    /*
     * Makes an address from such bytes: `*addr_p` is one reference, freed by addr_free. `flags`
     * are set by the caller, 0 so far. `buf` comes from another process: check all of it. Returns
     * NA_PLUGIN_PROTOCOL_ERROR when it is not an address, NA_PLUGIN_NOENTRY when no peer has that
     * address any more. [any thread]
     */
    int32_t (*addr_deserialize)(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                uint64_t flags, struct na_plugin_addr **addr_p);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_addr_serialize, addr_deserialize) == 24);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_ADDR_SERIALIZE_H */
