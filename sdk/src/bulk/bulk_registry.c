/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the local descriptors that were ever serialized. A descriptor that comes back to its own
 * class carries the name; so memory is found without trusting an address from the wire.
 */
#include "bulk/bulk_internal.h"

#define HG_BULK_BUCKETS 1024u
#define HG_BULK_LOCKS   16u

static struct hg_bulk *hg_bulk_buckets[HG_BULK_BUCKETS];
static pthread_mutex_t hg_bulk_locks[HG_BULK_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint64_t hg_bulk_last_key;
static uint64_t hg_bulk_process;
static pthread_once_t hg_bulk_process_once = PTHREAD_ONCE_INIT;

static void hg_bulk_process_init(void);
static void hg_bulk_process_draw(void);
static pthread_mutex_t *hg_bulk_lock(uint64_t key);
static bool hg_bulk_try_ref(struct hg_bulk *bulk);

uint64_t hg_bulk_registry_process(void)
{
    (void) pthread_once(&hg_bulk_process_once, hg_bulk_process_init);
    return hg_bulk_process;
}

uint64_t hg_bulk_registry_add(struct hg_bulk *bulk)
{
    uint64_t key = atomic_load_explicit(&bulk->key, memory_order_acquire);
    uint64_t expected = 0;
    pthread_mutex_t *lock;

    if (key != 0)
        return key;
    key = atomic_fetch_add_explicit(&hg_bulk_last_key, 1, memory_order_relaxed) + 1;
    lock = hg_bulk_lock(key);
    (void) pthread_mutex_lock(lock);
    /* Two threads may serialize at the same time: the first one names the descriptor. */
    if (atomic_compare_exchange_strong(&bulk->key, &expected, key)) {
        bulk->registry_next = hg_bulk_buckets[key % HG_BULK_BUCKETS];
        hg_bulk_buckets[key % HG_BULK_BUCKETS] = bulk;
    } else {
        key = expected;
    }
    (void) pthread_mutex_unlock(lock);
    return key;
}

struct hg_bulk *hg_bulk_registry_find(const hg_class_t *hg_class, uint64_t key)
{
    pthread_mutex_t *lock = hg_bulk_lock(key);
    struct hg_bulk *bulk;

    (void) pthread_mutex_lock(lock);
    bulk = hg_bulk_buckets[key % HG_BULK_BUCKETS];
    while (bulk != NULL && atomic_load_explicit(&bulk->key, memory_order_relaxed) != key)
        bulk = bulk->registry_next;
    if (bulk != NULL && (bulk->hg_class != hg_class || !hg_bulk_try_ref(bulk)))
        bulk = NULL;
    (void) pthread_mutex_unlock(lock);
    return bulk;
}

void hg_bulk_registry_remove(struct hg_bulk *bulk)
{
    uint64_t key = atomic_load_explicit(&bulk->key, memory_order_relaxed);
    struct hg_bulk **link_p;
    pthread_mutex_t *lock;

    if (key == 0)
        return;
    lock = hg_bulk_lock(key);
    (void) pthread_mutex_lock(lock);
    link_p = &hg_bulk_buckets[key % HG_BULK_BUCKETS];
    while (*link_p != bulk)
        link_p = &(*link_p)->registry_next;
    *link_p = bulk->registry_next;
    (void) pthread_mutex_unlock(lock);
}

/* Tells this process from all others, so that most lookups need not be made. */
static void hg_bulk_process_init(void)
{
    hg_bulk_process_draw();
    /* A child counts on from the same key, which is another descriptor then. */
    (void) pthread_atfork(NULL, NULL, hg_bulk_process_draw);
}

static void hg_bulk_process_draw(void)
{
    hg_bulk_process = hg_random();
}

static pthread_mutex_t *hg_bulk_lock(uint64_t key)
{
    return &hg_bulk_locks[key % HG_BULK_LOCKS];
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
