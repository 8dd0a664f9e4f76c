/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, to and from which peers may put and get.
 *
 * A region is found by an id and a key of 128 random bits, which only holders of its handle know;
 * access rights and bounds of requests are checked in one place, kit_region_find(). A peer cannot
 * distinguish a deregistered region from one that never existed.
 *
 * A plugin's struct na_plugin_mem contains a struct kit_region. One lock of the caller's guards
 * everything here; nothing blocks. Arguments stay the caller's. The status codes are those of
 * na_plugin.h. Since 1.1.
 */

#ifndef KIT_REGION_H
#define KIT_REGION_H

#include "kit_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a serialized handle, without those that the plugin adds. */
#define KIT_REGION_PACKED 80u

/* Most bytes that a plugin may add, for example a key of its fabric. */
#define KIT_REGION_EXTRA_MAX 4096u

/*
 * A holder to which a region was granted. `index` is unique among the current holders and is
 * reused; `holder`, not 0, is never reused. `epoch` is the time of the grant, as counted by the
 * caller.
 */
struct kit_grant {
    uint64_t holder;
    uint32_t index;
    uint32_t epoch;
};

/* A region of this process, or a handle of a peer's region. */
struct kit_region {
    struct kit_link node; /* in kit_regions.all */
    uint64_t base;        /* address in the owner's process; 0: not told */
    uint64_t length;      /* bytes */
    uint64_t owner;       /* kit_regions.owner of the table in which the region was made */
    uint64_t id;
    struct kit_key key;
    uint32_t flags; /* NA_PLUGIN_MEM_READ, NA_PLUGIN_MEM_WRITE */
    uint32_t mem_type;
    bool is_remote;     /* made by kit_region_unpack() */
    bool is_registered; /* peers can find it */

    struct kit_regions *regions; /* the table; NULL: a peer's region */
    struct kit_grant grant;      /* the first grant; not used once there is a table */
    struct kit_grant *grants;    /* hash table by index; NULL: at most one grant */
    uint32_t grant_room;         /* entries of the hash table, a power of two */
    uint32_t grant_count;        /* number of grants */
};

/* The regions of an endpoint. */
struct kit_regions {
    struct kit_table ids;
    struct kit_keys keys;
    struct kit_link all;
    uint64_t owner;      /* identifies the handles of this table */
    uint64_t grant_room; /* sum over all regions */
};

/*
 * Makes an empty table. Its `owner` is a random number, not 0, which is no secret.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_regions_open(struct kit_regions *regions);

/* Frees the table, whose regions were removed before. Safe on a table of zeroes. */
void kit_regions_close(struct kit_regions *regions);

/*
 * Adds a region of this process to the table, not yet registered. The structure is zero-filled
 * before, and must not move until kit_region_remove(). `flags` are the access rights of peers.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_INVALID_ARG if base + length exceeds the address space.
 */
int32_t kit_region_add(struct kit_regions *regions, struct kit_region *region, const void *base,
                       uint64_t length, uint32_t flags);

/* Removes a region, which is not registered, from the table. */
void kit_region_remove(struct kit_region *region);

/*
 * Registers a region under a new id and a new key. A registered region, or a peer's, is unchanged.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_region_register(struct kit_regions *regions, struct kit_region *region);

/* No peer finds the region any more. The caller ends the transfers that access its memory. */
void kit_region_deregister(struct kit_regions *regions, struct kit_region *region);

/*
 * Finds the region of a peer's request, no part of which is trusted; the region stays in the table.
 * `access` is the requested access, NA_PLUGIN_MEM_*; `offset` and `length` are in bytes.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_PERMISSION if there is no such region, the key is wrong, or the
 * region does not allow the access; NA_PLUGIN_OVERFLOW if the range exceeds the region.
 */
int32_t kit_region_find(const struct kit_regions *regions, uint64_t id, const struct kit_key *key,
                        uint32_t access, uint64_t offset, uint64_t length,
                        struct kit_region **region_p);

/*
 * Grants the region to a holder. kit_region_find() does not check grants: a caller that uses them
 * calls kit_region_is_granted() as well. A grant ends with the registration, or when another grant
 * has the same index.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG if the region is not registered; NA_PLUGIN_NOMEM, also
 * if the regions of the table have KIT_GRANTS_MAX entries.
 */
#define KIT_GRANTS_MAX (UINT32_C(1) << 22)
int32_t kit_region_grant(struct kit_region *region, const struct kit_grant *grant);

/* True if the region was granted to that holder, at that epoch or later. */
bool kit_region_is_granted(struct kit_region *region, const struct kit_grant *asked);

/* Ends all grants; called by kit_region_deregister() and kit_region_remove(). */
void kit_region_revoke(struct kit_region *region);

/*
 * Serializes a handle of the region, followed by `extra_size` bytes of the plugin's. `size` is the
 * size of `buf`. A handle of a peer's region is written as it was received.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG if the region is not registered, or extra_size is above
 * KIT_REGION_EXTRA_MAX; NA_PLUGIN_OVERFLOW if `size` is below KIT_REGION_PACKED + extra_size.
 */
int32_t kit_region_pack(const struct kit_region *region, const void *extra, uint32_t extra_size,
                        void *buf, uint64_t size);

/*
 * Reads a serialized handle, which is not trusted, into a zero-filled structure and adds that to
 * the table. *extra_p points into `buf`.
 *
 * NA_PLUGIN_SUCCESS, or NA_PLUGIN_PROTOCOL_ERROR if the bytes are not a handle.
 */
int32_t kit_region_unpack(struct kit_regions *regions, const void *buf, uint64_t size,
                          struct kit_region *region, const void **extra_p, uint32_t *extra_size_p);

#ifdef __cplusplus
}
#endif

#endif /* KIT_REGION_H */
