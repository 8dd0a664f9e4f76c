/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process-wide registry of serialized local descriptors. A serialized descriptor has a random
 * name; when it comes back to its class, the name finds the memory without trusting an address from
 * the wire. Knowing one name reveals no other.
 */
#include "bulk/bulk_registry.h"

#include "engine/fork.h"
#include "engine/random.h"

#include <string.h>

#define HG_BULK_BUCKETS 1024u
#define HG_BULK_LOCKS   16u

/* Number of names drawn by one system call. */
#define HG_BULK_NAMES 64u

static struct hg_bulk *hg_bulk_buckets[HG_BULK_BUCKETS];
static pthread_mutex_t hg_bulk_locks[HG_BULK_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER};

/* Guards the two variables below; taken before a lock of hg_bulk_locks. */
static pthread_mutex_t hg_bulk_name_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_bulk_name hg_bulk_names[HG_BULK_NAMES];
static uint32_t hg_bulk_names_left;

static uint32_t hg_bulk_process_number(void);
static void hg_bulk_registry_add(struct hg_bulk *bulk);
static bool hg_bulk_name_draw(struct hg_bulk_name *name);
static bool hg_bulk_name_equals(const struct hg_bulk_name *one, const struct hg_bulk_name *other);
static struct hg_bulk **hg_bulk_bucket(const struct hg_bulk_name *name);
static pthread_mutex_t *hg_bulk_lock(const struct hg_bulk_name *name);
static bool hg_bulk_try_ref(struct hg_bulk *bulk);

struct hg_bulk_name hg_bulk_registry_name(struct hg_bulk *bulk)
{
    const struct hg_bulk_name none = {{0, 0}};

    if (atomic_load_explicit(&bulk->named, memory_order_acquire) != hg_bulk_process_number())
        hg_bulk_registry_add(bulk);
    return atomic_load_explicit(&bulk->named, memory_order_acquire) == hg_bulk_process_number()
               ? bulk->name
               : none;
}

struct hg_bulk *hg_bulk_registry_find(const hg_class_t *hg_class, const struct hg_bulk_name *name)
{
    const struct hg_bulk_name none = {{0, 0}};
    pthread_mutex_t *lock = hg_bulk_lock(name);
    struct hg_bulk *bulk;

    if (hg_bulk_name_equals(name, &none))
        return NULL;
    (void) pthread_mutex_lock(lock);
    bulk = *hg_bulk_bucket(name);
    while (bulk != NULL && !hg_bulk_name_equals(&bulk->name, name))
        bulk = bulk->registry_next;
    if (bulk != NULL && (bulk->hg_class != hg_class || !hg_bulk_try_ref(bulk)))
        bulk = NULL;
    (void) pthread_mutex_unlock(lock);
    return bulk;
}

void hg_bulk_registry_remove(struct hg_bulk *bulk)
{
    struct hg_bulk **link_p;
    pthread_mutex_t *lock;

    if (atomic_load_explicit(&bulk->named, memory_order_relaxed) != hg_bulk_process_number())
        return;
    lock = hg_bulk_lock(&bulk->name);
    (void) pthread_mutex_lock(lock);
    link_p = hg_bulk_bucket(&bulk->name);
    while (*link_p != bulk)
        link_p = &(*link_p)->registry_next;
    *link_p = bulk->registry_next;
    (void) pthread_mutex_unlock(lock);
}

void hg_bulk_registry_lock(void)
{
    (void) pthread_mutex_lock(&hg_bulk_name_lock);
    for (uint32_t i = 0; i < HG_BULK_LOCKS; i++)
        (void) pthread_mutex_lock(&hg_bulk_locks[i]);
}

void hg_bulk_registry_unlock(void)
{
    for (uint32_t i = 0; i < HG_BULK_LOCKS; i++)
        (void) pthread_mutex_unlock(&hg_bulk_locks[i]);
    (void) pthread_mutex_unlock(&hg_bulk_name_lock);
}

void hg_bulk_registry_clear(void)
{
    hg_bulk_names_left = 0;
    memset(hg_bulk_buckets, 0, sizeof(hg_bulk_buckets));
}

/* The number of this process in hg_bulk.named; never 0. */
static uint32_t hg_bulk_process_number(void)
{
    return hg_forks + 1;
}

/* Give a descriptor a name. Without one it is not recognized when it comes back. */
static void hg_bulk_registry_add(struct hg_bulk *bulk)
{
    pthread_mutex_t *lock;

    (void) pthread_mutex_lock(&hg_bulk_name_lock);
    /* Another thread may have named the descriptor meanwhile. */
    if (atomic_load_explicit(&bulk->named, memory_order_relaxed) != hg_bulk_process_number() &&
        hg_bulk_name_draw(&bulk->name)) {
        lock = hg_bulk_lock(&bulk->name);
        (void) pthread_mutex_lock(lock);
        bulk->registry_next = *hg_bulk_bucket(&bulk->name);
        *hg_bulk_bucket(&bulk->name) = bulk;
        (void) pthread_mutex_unlock(lock);
        atomic_store_explicit(&bulk->named, hg_bulk_process_number(), memory_order_release);
    }
    (void) pthread_mutex_unlock(&hg_bulk_name_lock);
}

static bool hg_bulk_name_draw(struct hg_bulk_name *name)
{
    if (hg_bulk_names_left == 0) {
        if (!hg_random_bytes(hg_bulk_names, sizeof(hg_bulk_names))) {
            HG_LOG_ERROR("cannot name a bulk descriptor: the system gives no random numbers; here "
                         "it counts as another process's when it comes back");
            return false;
        }
        hg_bulk_names_left = HG_BULK_NAMES;
    }
    *name = hg_bulk_names[--hg_bulk_names_left];
    return true;
}

/* Compare in constant time, so that the time says nothing about a name. */
static bool hg_bulk_name_equals(const struct hg_bulk_name *one, const struct hg_bulk_name *other)
{
    return ((one->half[0] ^ other->half[0]) | (one->half[1] ^ other->half[1])) == 0;
}

static struct hg_bulk **hg_bulk_bucket(const struct hg_bulk_name *name)
{
    return &hg_bulk_buckets[name->half[0] % HG_BULK_BUCKETS];
}

/* The lock of a bucket; several buckets share one. */
static pthread_mutex_t *hg_bulk_lock(const struct hg_bulk_name *name)
{
    return &hg_bulk_locks[name->half[0] % HG_BULK_LOCKS];
}

/* Take a reference, unless the last one is gone and the descriptor is about to be removed. */
static bool hg_bulk_try_ref(struct hg_bulk *bulk)
{
    uint32_t refs = atomic_load_explicit(&bulk->refs, memory_order_relaxed);

    while (refs != 0)
        if (atomic_compare_exchange_weak(&bulk->refs, &refs, refs + 1))
            return true;
    return false;
}
