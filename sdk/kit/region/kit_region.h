/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory: what a process lets its peers put to and get from.
 *
 * A region is found by an id and a key of 128 random bits, which only those know that were given
 * its handle; rights and bounds are checked in one place, kit_region_find(). A peer cannot tell a
 * region that was deregistered from one that never was.
 *
 * A plugin's struct na_plugin_mem contains a struct kit_region. Everything here is called under one
 * lock of the caller's, and does not block. What it is given stays the caller's. The status codes
 * are those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_REGION_H
#define KIT_REGION_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a handle that travels, without what the plugin adds to it. */
#define KIT_REGION_PACKED 80u

/* Most bytes that a plugin may add: a key of its fabric's. */
#define KIT_REGION_EXTRA_MAX 4096u

/*
 * Somebody who was handed a region. `index` tells apart those that are there at a time, and is used
 * again; `holder`, not 0, never is. `epoch` says when.
 */
struct kit_grant {
    uint64_t holder;
    uint32_t index;
    uint32_t epoch;
};

/* A region of this process, or what is known of a peer's. */
struct kit_region {
    struct kit_link node; /* in the table: all of its regions */
    uint64_t base;        /* an address in the owner's process; 0 where it is not told */
    uint64_t length;      /* bytes */
    uint64_t owner;       /* the table's it was made in */
    uint64_t id;
    struct kit_key key;
    uint32_t flags; /* NA_PLUGIN_MEM_READ, NA_PLUGIN_MEM_WRITE */
    uint32_t mem_type;
    bool is_remote;     /* it came out of a handle */
    bool is_registered; /* peers find it */

    struct kit_regions *regions; /* the table; NULL: a peer's */
    struct kit_grant grant;      /* the only one so far */
    struct kit_grant *grants;    /* NULL: there was no second one */
    uint32_t grant_room;         /* of the array, a power of two */
    uint32_t grant_count;        /* of both */
};

/* The regions of an endpoint. */
struct kit_regions {
    struct kit_table ids;
    struct kit_keys keys;
    struct kit_link all;
    uint64_t owner;      /* tells the handles of this table from others */
    uint64_t grant_room; /* of all regions */
};

/*
 * Makes an empty table. Its `owner` is a random number, not 0, that peers may know.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_IO_ERROR when the system has no random numbers.
 */
int32_t kit_regions_open(struct kit_regions *regions);

/* Frees what the table itself holds; its regions were removed. Safe on a table of zeroes. */
void kit_regions_close(struct kit_regions *regions);

/*
 * Puts a region of this process into the table, not yet registered; the structure is zero-filled
 * and stays where it is until kit_region_remove(). `flags` are the rights of peers.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_INVALID_ARG when the range does not lie in the address space.
 */
int32_t kit_region_add(struct kit_regions *regions, struct kit_region *region, const void *base,
                       uint64_t length, uint32_t flags);

/* Takes a region out of the table; it is deregistered, or was never registered. */
void kit_region_remove(struct kit_region *region);

/*
 * Lets peers find the region, under a new id and a new key. One that is registered, or a peer's,
 * stays as it is.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR when the system has no random numbers.
 */
int32_t kit_region_register(struct kit_regions *regions, struct kit_region *region);

/* No peer finds the region any more. The caller ends the transfers that touch its memory. */
void kit_region_deregister(struct kit_regions *regions, struct kit_region *region);

/*
 * The region that a peer names, which stays in the table. Every bit of the question may be forged.
 * `access` is what the peer wants to do, NA_PLUGIN_MEM_*; `offset` and `length` are bytes.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_PERMISSION when there is no such region, the key is another one, or
 * the region does not grant the access; NA_PLUGIN_OVERFLOW when the range does not lie in it.
 */
int32_t kit_region_find(const struct kit_regions *regions, uint64_t id, const struct kit_key *key,
                        uint32_t access, uint64_t offset, uint64_t length,
                        struct kit_region **region_p);

/*
 * Notes down that the region was handed to somebody, as its user asks before it lets a peer do what
 * kit_region_find() allows. A grant ends with the registration, or when another one has its index.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG when the region is not registered; NA_PLUGIN_NOMEM, also
 * when the regions of the table have KIT_GRANTS_MAX.
 */
#define KIT_GRANTS_MAX (UINT32_C(1) << 22)
int32_t kit_region_grant(struct kit_region *region, const struct kit_grant *grant);

/* Whether that holder was handed the region, at that epoch or later. */
bool kit_region_is_granted(struct kit_region *region, const struct kit_grant *asked);

/* Forgets all grants; kit_region_deregister() and kit_region_remove() do. */
void kit_region_revoke(struct kit_region *region);

/*
 * Writes the handle by which a peer reaches the region, and behind it `extra_size` bytes that only
 * the plugin understands. `size` is what `buf` has room for. A peer's region is written as it came.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG when the region is not registered, or extra_size is
 * above KIT_REGION_EXTRA_MAX; NA_PLUGIN_OVERFLOW when `size` is below KIT_REGION_PACKED +
 * extra_size.
 */
int32_t kit_region_pack(const struct kit_region *region, const void *extra, uint32_t extra_size,
                        void *buf, uint64_t size);

/*
 * Reads a handle, which may be forged or damaged, into a zero-filled structure and puts that into
 * the table. *extra_p points into `buf`.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_PROTOCOL_ERROR when the bytes are not a handle.
 */
int32_t kit_region_unpack(struct kit_regions *regions, const void *buf, uint64_t size,
                          struct kit_region *region, const void **extra_p, uint32_t *extra_size_p);

#ifdef __cplusplus
}
#endif

#endif /* KIT_REGION_H */
