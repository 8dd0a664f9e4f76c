/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the local descriptors that were ever serialized. A descriptor that comes back to its own
 * class carries the name; so memory is found without trusting an address from the wire. A name is
 * random: whoever has one can tell no other.
 */
#include "bulk/bulk_registry.h"

#include "engine/fork.h"
#include "engine/random.h"

#include <string.h>

#define HG_BULK_BUCKETS 1024u
#define HG_BULK_LOCKS   16u

/* Names that are drawn at once. */
#define HG_BULK_NAMES 64u

static struct hg_bulk *hg_bulk_buckets[HG_BULK_BUCKETS];
static pthread_mutex_t hg_bulk_locks[HG_BULK_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER};

/* The lock of the naming, taken before one of those above, and what it protects. */
static pthread_mutex_t hg_bulk_name_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_bulk_name hg_bulk_names[HG_BULK_NAMES];
static uint32_t hg_bulk_names_left;

static uint32_t hg_bulk_process(void);
static void hg_bulk_registry_add(struct hg_bulk *bulk);
static bool hg_bulk_name_draw(struct hg_bulk_name *name);
static bool hg_bulk_name_equals(const struct hg_bulk_name *one, const struct hg_bulk_name *other);
static struct hg_bulk **hg_bulk_bucket(const struct hg_bulk_name *name);
static pthread_mutex_t *hg_bulk_lock(const struct hg_bulk_name *name);
static bool hg_bulk_try_ref(struct hg_bulk *bulk);

struct hg_bulk_name hg_bulk_registry_name(struct hg_bulk *bulk)
{
    const struct hg_bulk_name none = {{0, 0}};

    if (atomic_load_explicit(&bulk->named, memory_order_acquire) != hg_bulk_process())
        hg_bulk_registry_add(bulk);
    return atomic_load_explicit(&bulk->named, memory_order_acquire) == hg_bulk_process()
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

    if (atomic_load_explicit(&bulk->named, memory_order_relaxed) != hg_bulk_process())
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

/* The number that named descriptors of this process carry; 0 is none. */
static uint32_t hg_bulk_process(void)
{
    return hg_forks + 1;
}

/* Without a name, if none can be drawn, it is not recognized when it comes back. */
static void hg_bulk_registry_add(struct hg_bulk *bulk)
{
    pthread_mutex_t *lock;

    (void) pthread_mutex_lock(&hg_bulk_name_lock);
    /* Two threads may serialize at the same time: the first one names the descriptor. */
    if (atomic_load_explicit(&bulk->named, memory_order_relaxed) != hg_bulk_process() &&
        hg_bulk_name_draw(&bulk->name)) {
        lock = hg_bulk_lock(&bulk->name);
        (void) pthread_mutex_lock(lock);
        bulk->registry_next = *hg_bulk_bucket(&bulk->name);
        *hg_bulk_bucket(&bulk->name) = bulk;
        (void) pthread_mutex_unlock(lock);
        atomic_store_explicit(&bulk->named, hg_bulk_process(), memory_order_release);
    }
    (void) pthread_mutex_unlock(&hg_bulk_name_lock);
}

/* Many at a time, for each draw is a system call. */
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

/* In the same time wherever they differ. */
static bool hg_bulk_name_equals(const struct hg_bulk_name *one, const struct hg_bulk_name *other)
{
    return ((one->half[0] ^ other->half[0]) | (one->half[1] ^ other->half[1])) == 0;
}

static struct hg_bulk **hg_bulk_bucket(const struct hg_bulk_name *name)
{
    return &hg_bulk_buckets[name->half[0] % HG_BULK_BUCKETS];
}

/* Of the bucket, among others. */
static pthread_mutex_t *hg_bulk_lock(const struct hg_bulk_name *name)
{
    return &hg_bulk_locks[name->half[0] % HG_BULK_LOCKS];
}

/* A descriptor whose last reference is gone is about to remove itself: it does not come back. */
static bool hg_bulk_try_ref(struct hg_bulk *bulk)
{
    uint32_t refs = atomic_load_explicit(&bulk->refs, memory_order_relaxed);

    while (refs != 0)
        if (atomic_compare_exchange_weak(&bulk->refs, &refs, refs + 1))
            return true;
    return false;
}
