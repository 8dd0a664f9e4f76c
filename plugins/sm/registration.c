/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of registrations: the memory that peers may access. With cross-memory attach the owner
 * checks nothing, so the peer tells a valid handle from an altered or stale one by this table.
 */

#include "sm.h"

#include "siphash.h"

#include <string.h>
#include <sys/mman.h>

_Static_assert(KIT_TABLE_MAX <= SM_TABLE_ENTRIES, "each region has an entry");

static _Atomic uint64_t *sm_registration_entry(struct na_plugin_class *na_class, uint32_t index);
static int32_t sm_registration_part(struct na_plugin_addr *peer, uint32_t part,
                                    const _Atomic uint64_t **table_p);
static uint32_t sm_part_of(uint32_t index, uint32_t *first_p);
static uint32_t sm_registration_index(const struct na_plugin_mem *mem);
static uint64_t sm_part_size(uint32_t part);
static uint64_t sm_digest(const struct kit_key *secret, const struct na_plugin_mem *mem);

/*
 * Makes the part of the table that has the entry of this region. Without memory for the part,
 * transfers with its regions are copied. The registry's lock is held.
 */
void sm_registration_grow(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    struct sm_segment *segment = &na_class->segment;
    uint32_t first, part = sm_part_of(sm_registration_index(mem), &first);
    uint64_t offset = 0;
    void *map = MAP_FAILED;

    if (kit_likely(na_class->forked || sm_load(&segment->header->registrations[part]) != 0))
        return;
    kit_lock_take(&na_class->connect_lock);
    if (sm_region_take(segment, sm_part_size(part), sm_part_size(part), NA_PLUGIN_LOG_DEBUG,
                       &offset) == NA_PLUGIN_SUCCESS) {
        map = mmap(NULL, sm_part_size(part), PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd,
                   (off_t) offset);
        if (map == MAP_FAILED)
            sm_region_give(segment, offset, sm_part_size(part));
    }
    kit_lock_drop(&na_class->connect_lock);
    if (map == MAP_FAILED) {
        SM_LOG_WARNING("no shared memory to announce more than %u registrations: transfers with "
                       "the others are copied, which is slower; free memory or raise `ulimit -f`",
                       first);
        offset = SM_TABLE_ABSENT;
    } else {
        memset(map, 0, sm_part_size(part)); /* the region may have been used */
        na_class->registry.table[part] = map;
    }
    sm_store_release(&segment->header->registrations[part], offset);
}

void sm_registration_publish(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    _Atomic uint64_t *entry = sm_registration_entry(na_class, sm_registration_index(mem));
    uint64_t digest = sm_digest(&na_class->registry.secret, mem);

    sm_store(&mem->digest, digest);
    if (entry != NULL)
        sm_store_release(entry, digest);
}

/* After the fence the memory may be reused: a peer that reads new bytes then finds no entry. */
void sm_registration_withdraw(struct na_plugin_class *na_class, const struct na_plugin_mem *mem)
{
    _Atomic uint64_t *entry = sm_registration_entry(na_class, sm_registration_index(mem));

    if (entry == NULL)
        return;
    sm_store(entry, 0);
    atomic_thread_fence(memory_order_release);
}

void sm_registration_close(struct na_plugin_class *na_class)
{
    for (uint32_t part = 0; part < SM_TABLE_PARTS; part++) {
        _Atomic uint64_t *table = na_class->registry.table[part];

        if (table == NULL)
            continue;
        for (uint64_t i = 0; i < sm_part_size(part) / sizeof(*table) && !na_class->forked; i++)
            sm_store(&table[i], 0);
        (void) munmap((void *) table, sm_part_size(part));
        na_class->registry.table[part] = NULL;
    }
}

/*
 * Checks whether the handle's memory is registered by the peer. NA_PLUGIN_AGAIN when only the peer
 * itself can tell, so that the transfer must be copied.
 */
int32_t sm_registration_check(struct na_plugin_addr *peer, struct na_plugin_mem *mem)
{
    const uint32_t index = sm_registration_index(mem);
    uint32_t first, part = sm_part_of(index, &first);
    const _Atomic uint64_t *table;
    int32_t status;

    if (kit_unlikely(part >= SM_TABLE_PARTS))
        goto refuse;
    table = sm_load_acquire(&peer->registrations[part]);
    if (kit_unlikely(table == NULL)) {
        status = sm_registration_part(peer, part, &table);
        if (status == NA_PLUGIN_PERMISSION)
            goto refuse;
        if (status != NA_PLUGIN_SUCCESS)
            return status;
    }
    if (kit_likely(sm_load_acquire(&table[index - first]) == sm_registration_digest(peer, mem)))
        return NA_PLUGIN_SUCCESS;

refuse:
    SM_LOG_ERROR("%s has registered no such memory (handle %u): it was deregistered, or the "
                 "handle was altered on its way",
                 peer->name, index);
    return NA_PLUGIN_PERMISSION;
}

/* Returns the digest of a handle of the peer, computed at first use. */
uint64_t sm_registration_digest(const struct na_plugin_addr *peer, struct na_plugin_mem *mem)
{
    uint64_t digest = sm_load(&mem->digest);

    if (kit_unlikely(digest == 0)) {
        digest = sm_digest(&peer->header.secret, mem);
        sm_store(&mem->digest, digest);
    }
    return digest;
}

/* Returns our entry of that index; NULL when the table has no memory for it. */
static _Atomic uint64_t *sm_registration_entry(struct na_plugin_class *na_class, uint32_t index)
{
    uint32_t first, part = sm_part_of(index, &first);

    if (na_class->forked || na_class->registry.table[part] == NULL)
        return NULL; /* a forked child maps the table, which is its parent's */
    return na_class->registry.table[part] + (index - first);
}

/* Maps a part of the peer's table at its first use. */
static int32_t sm_registration_part(struct na_plugin_addr *peer, uint32_t part,
                                    const _Atomic uint64_t **table_p)
{
    uint64_t offset = sm_load_acquire(&peer->base->registrations[part]);
    const _Atomic uint64_t *none = NULL;
    int32_t ret;
    void *map;

    if (offset == 0)
        return NA_PLUGIN_PERMISSION;
    if (offset == SM_TABLE_ABSENT)
        return NA_PLUGIN_AGAIN;
    ret = sm_peer_map(peer, offset, sm_part_size(part), false, &map);
    if (ret == NA_PLUGIN_NOENTRY)
        return NA_PLUGIN_HOSTUNREACH;
    if (ret != NA_PLUGIN_SUCCESS)
        return ret == NA_PLUGIN_NOMEM ? NA_PLUGIN_AGAIN : ret;
    *table_p = map;
    if (!atomic_compare_exchange_strong_explicit(&peer->registrations[part], &none, *table_p,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        (void) munmap(map, sm_part_size(part)); /* another thread has mapped it */
        *table_p = none;
    }
    return NA_PLUGIN_SUCCESS;
}

void sm_registration_forget(struct na_plugin_addr *peer)
{
    for (uint32_t part = 0; part < SM_TABLE_PARTS; part++) {
        const _Atomic uint64_t *table = sm_load(&peer->registrations[part]);

        if (table != NULL)
            (void) munmap((void *) (uintptr_t) table, sm_part_size(part));
    }
}

/* Returns the region's index in its owner's table of regions. */
static uint32_t sm_registration_index(const struct na_plugin_mem *mem)
{
    return (uint32_t) mem->region.id;
}

/* The first part has SM_TABLE_FIRST entries, each further one as many as all before it. */
static uint32_t sm_part_of(uint32_t index, uint32_t *first_p)
{
    uint32_t part;

    *first_p = 0;
    if (index < SM_TABLE_FIRST)
        return 0;
    part = 32 - (uint32_t) __builtin_clz(index / SM_TABLE_FIRST);
    *first_p = SM_TABLE_FIRST << (part - 1);
    return part;
}

static uint64_t sm_part_size(uint32_t part)
{
    return ((uint64_t) SM_TABLE_FIRST << (part == 0 ? 0 : part - 1)) * sizeof(uint64_t);
}

/*
 * Returns the SipHash of everything that a handle grants, never 0. A process that knows a handle
 * but not the owner's secret cannot make another one that is valid.
 */
static uint64_t sm_digest(const struct kit_key *secret, const struct na_plugin_mem *mem)
{
    struct sm_siphash hash = sm_siphash_begin(secret);
    uint64_t digest;

    sm_siphash_word(&hash, mem->region.id);
    sm_siphash_word(&hash, mem->region.key.word[0]);
    sm_siphash_word(&hash, mem->region.key.word[1]);
    sm_siphash_word(&hash, (uint64_t) mem->segment_count << 32 | mem->region.flags);
    for (uint32_t i = 0; i < mem->segment_count; i++) {
        sm_siphash_word(&hash, (uint64_t) (uintptr_t) mem->segments[i].base);
        sm_siphash_word(&hash, mem->segments[i].length);
    }
    digest = sm_siphash_end(&hash);
    return digest != 0 ? digest : 1;
}
