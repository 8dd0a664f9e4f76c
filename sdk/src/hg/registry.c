/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registered RPCs of a class: a hash table by id that readers search without a lock. Entries
 * are never removed, HG_Deregister() only marks them. When the table grows the smaller one is kept
 * for readers that still search it. So memory is bounded by the number of distinct ids.
 */
#include "hg/registry.h"

#include "engine/fork.h"
#include "engine/log.h"
#include "hg/class.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HG_TABLE_FIRST_SIZE 64u

/* Open addressing; the size is a power of two and at most half of it is used. */
struct hg_rpc_table {
    struct hg_rpc_table *smaller;
    size_t mask;
    _Atomic(struct hg_rpc *) slots[];
};

static hg_id_t hg_registry_hash(const char *name);
static struct hg_rpc_table *hg_rpc_table_new(size_t size);
static size_t hg_rpc_table_start(const struct hg_rpc_table *table, hg_id_t id);
static void hg_rpc_table_insert(struct hg_rpc_table *table, struct hg_rpc *rpc);
static hg_return_t hg_registry_reserve(struct hg_registry *registry);
static struct hg_rpc *hg_registry_insert(struct hg_registry *registry, hg_id_t id);
static void hg_registry_free_data(struct hg_registry *registry, struct hg_rpc *rpc);
static struct hg_rpc *hg_class_find_rpc(const hg_class_t *hg_class, hg_id_t id,
                                        const char *function, hg_return_t *ret_p);

hg_return_t hg_registry_init(struct hg_registry *registry)
{
    struct hg_rpc_table *table = hg_rpc_table_new(HG_TABLE_FIRST_SIZE);

    if (table == NULL)
        return HG_NOMEM;
    atomic_init(&registry->table, table);
    registry->count = 0;
    (void) pthread_mutex_init(&registry->lock, NULL);
    return HG_SUCCESS;
}

void hg_registry_fini(struct hg_registry *registry)
{
    struct hg_rpc_table *table = atomic_load(&registry->table);
    size_t i;

    for (i = 0; i <= table->mask; i++) {
        struct hg_rpc *rpc = atomic_load(&table->slots[i]);

        if (rpc == NULL)
            continue;
        hg_registry_free_data(registry, rpc);
        free(rpc->name);
        free(rpc);
    }
    while (table != NULL) {
        struct hg_rpc_table *smaller = table->smaller;

        free(table);
        table = smaller;
    }
    (void) pthread_mutex_destroy(&registry->lock);
}

struct hg_rpc *hg_registry_find(const struct hg_registry *registry, hg_id_t id)
{
    const struct hg_rpc_table *table = atomic_load_explicit(&registry->table, memory_order_acquire);
    size_t i = hg_rpc_table_start(table, id);

    for (;; i = (i + 1) & table->mask) {
        struct hg_rpc *rpc = atomic_load_explicit(&table->slots[i], memory_order_acquire);

        if (rpc == NULL)
            return NULL;
        if (rpc->id == id)
            return atomic_load_explicit(&rpc->is_registered, memory_order_acquire) ? rpc : NULL;
    }
}

hg_return_t hg_registry_add(struct hg_registry *registry, hg_id_t id, const char *name,
                            hg_proc_cb_t in_proc, hg_proc_cb_t out_proc, hg_rpc_cb_t rpc_cb)
{
    hg_return_t ret = HG_SUCCESS;
    struct hg_rpc *rpc;
    char *copy = NULL;

    if (name != NULL) {
        copy = strdup(name);
        if (copy == NULL)
            return HG_NOMEM;
    }
    (void) pthread_mutex_lock(&registry->lock);
    rpc = hg_registry_insert(registry, id);
    if (rpc == NULL) {
        ret = HG_NOMEM;
    } else if (name != NULL && rpc->name != NULL && strcmp(rpc->name, name) != 0 &&
               atomic_load(&rpc->is_registered)) {
        HG_LOG_ERROR("RPC names \"%s\" and \"%s\" have the same id %#" PRIx64
                     "; rename one, or register it by a number of your own with HG_Register()",
                     rpc->name, name, id);
        ret = HG_EXIST;
    } else {
        if (copy != NULL) {
            free(rpc->name);
            rpc->name = copy;
            copy = NULL;
        }
        atomic_store(&rpc->in_proc, in_proc);
        atomic_store(&rpc->out_proc, out_proc);
        atomic_store(&rpc->rpc_cb, rpc_cb);
        atomic_store_explicit(&rpc->is_registered, true, memory_order_release);
    }
    (void) pthread_mutex_unlock(&registry->lock);
    free(copy);
    return ret;
}

hg_id_t HG_Register_name(hg_class_t *hg_class, const char *func_name, hg_proc_cb_t in_proc_cb,
                         hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    hg_return_t ret;
    hg_id_t id;

    if (hg_class_fork_refused(hg_class, __func__))
        return 0;
    if (hg_class == NULL || func_name == NULL) {
        HG_LOG_ERROR("cannot register an RPC: class %p, name %s; pass both", (void *) hg_class,
                     func_name != NULL ? func_name : "NULL");
        return 0;
    }
    id = hg_registry_hash(func_name);
    ret = hg_registry_add(&hg_rpc_class(hg_class)->registry, id, func_name, in_proc_cb, out_proc_cb,
                          rpc_cb);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot register RPC \"%s\": %s", func_name, HG_Error_to_string(ret));
        return 0;
    }
    return id;
}

hg_return_t HG_Registered_name(hg_class_t *hg_class, const char *func_name, hg_id_t *id_p,
                               uint8_t *flag_p)
{
    struct hg_rpc *rpc;
    hg_id_t id;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || func_name == NULL) {
        HG_LOG_ERROR("cannot look an RPC up by name: class %p, name %s; pass both",
                     (void *) hg_class, func_name != NULL ? func_name : "NULL");
        return HG_INVALID_ARG;
    }
    id = hg_registry_hash(func_name);
    (void) pthread_mutex_lock(&hg_rpc_class(hg_class)->registry.lock);
    rpc = hg_registry_find(&hg_rpc_class(hg_class)->registry, id);
    if (rpc != NULL && rpc->name != NULL && strcmp(rpc->name, func_name) != 0)
        rpc = NULL;
    (void) pthread_mutex_unlock(&hg_rpc_class(hg_class)->registry.lock);
    if (id_p != NULL)
        *id_p = id;
    if (flag_p != NULL)
        *flag_p = rpc != NULL ? HG_TRUE : HG_FALSE;
    return HG_SUCCESS;
}

hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id, hg_proc_cb_t in_proc_cb,
                        hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb)
{
    hg_return_t ret;

    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    ret = hg_registry_add(&hg_rpc_class(hg_class)->registry, id, NULL, in_proc_cb, out_proc_cb,
                          rpc_cb);
    if (ret != HG_SUCCESS)
        HG_LOG_ERROR("cannot register RPC %#" PRIx64 ": %s", id, HG_Error_to_string(ret));
    return ret;
}

hg_return_t HG_Deregister(hg_class_t *hg_class, hg_id_t id)
{
    hg_return_t ret;
    struct hg_rpc *rpc = hg_class_find_rpc(hg_class, id, __func__, &ret);

    if (rpc == NULL)
        return ret;
    atomic_store_explicit(&rpc->is_registered, false, memory_order_release);
    atomic_store(&rpc->no_response, false);
    hg_registry_free_data(&hg_rpc_class(hg_class)->registry, rpc);
    return HG_SUCCESS;
}

hg_return_t HG_Registered(hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p)
{
    return HG_Registered_proc_cb(hg_class, id, flag_p, NULL, NULL);
}

hg_return_t HG_Registered_proc_cb(hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p,
                                  hg_proc_cb_t *in_proc_cb_p, hg_proc_cb_t *out_proc_cb_p)
{
    struct hg_rpc *rpc;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || flag_p == NULL) {
        HG_LOG_ERROR("cannot look RPC %#" PRIx64 " up: class %p, result %p; pass both", id,
                     (void *) hg_class, (void *) flag_p);
        return HG_INVALID_ARG;
    }
    rpc = hg_registry_find(&hg_rpc_class(hg_class)->registry, id);
    *flag_p = rpc != NULL ? HG_TRUE : HG_FALSE;
    if (in_proc_cb_p != NULL)
        *in_proc_cb_p = rpc != NULL ? atomic_load(&rpc->in_proc) : NULL;
    if (out_proc_cb_p != NULL)
        *out_proc_cb_p = rpc != NULL ? atomic_load(&rpc->out_proc) : NULL;
    return HG_SUCCESS;
}

hg_return_t HG_Register_data(hg_class_t *hg_class, hg_id_t id, void *data,
                             void (*free_callback)(void *))
{
    hg_return_t ret;
    struct hg_rpc *rpc = hg_class_find_rpc(hg_class, id, __func__, &ret);

    if (rpc == NULL)
        return ret;
    /* Earlier data are not freed, because the program may have done so. */
    (void) pthread_mutex_lock(&hg_rpc_class(hg_class)->registry.lock);
    atomic_store(&rpc->data, data);
    rpc->data_free = free_callback;
    (void) pthread_mutex_unlock(&hg_rpc_class(hg_class)->registry.lock);
    return HG_SUCCESS;
}

void *HG_Registered_data(hg_class_t *hg_class, hg_id_t id)
{
    struct hg_rpc *rpc = hg_class != NULL && !hg_class_fork_refused(hg_class, __func__)
                             ? hg_registry_find(&hg_rpc_class(hg_class)->registry, id)
                             : NULL;

    return rpc != NULL ? atomic_load(&rpc->data) : NULL;
}

hg_return_t HG_Registered_disable_response(hg_class_t *hg_class, hg_id_t id, uint8_t disable)
{
    hg_return_t ret;
    struct hg_rpc *rpc = hg_class_find_rpc(hg_class, id, __func__, &ret);

    if (rpc == NULL)
        return ret;
    atomic_store(&rpc->no_response, disable != 0);
    return HG_SUCCESS;
}

hg_return_t HG_Registered_disabled_response(hg_class_t *hg_class, hg_id_t id, uint8_t *disabled_p)
{
    struct hg_rpc *rpc;
    hg_return_t ret;

    if (disabled_p == NULL) {
        HG_LOG_ERROR("cannot look the response of RPC %#" PRIx64 " up: disabled_p is NULL", id);
        return HG_INVALID_ARG;
    }
    rpc = hg_class_find_rpc(hg_class, id, __func__, &ret);
    if (rpc == NULL)
        return ret;
    *disabled_p = atomic_load(&rpc->no_response) ? HG_TRUE : HG_FALSE;
    return HG_SUCCESS;
}

/* Returns the registered RPC of an id, or NULL and an error in *ret_p. */
static struct hg_rpc *hg_class_find_rpc(const hg_class_t *hg_class, hg_id_t id,
                                        const char *function, hg_return_t *ret_p)
{
    struct hg_rpc *rpc;

    if (!hg_class_is_usable(hg_class)) {
        *ret_p = hg_class_refuse(hg_class, function);
        return NULL;
    }
    rpc = hg_registry_find(&hg_rpc_class(hg_class)->registry, id);
    if (rpc == NULL) {
        HG_LOG_ERROR("RPC %#" PRIx64 " is not registered; call HG_Register() first", id);
        *ret_p = HG_NOENTRY;
    }
    return rpc;
}

static hg_id_t hg_registry_hash(const char *name)
{
    hg_id_t id = XXH64(name, strlen(name), 0);

    return id != 0 ? id : 1;
}

/* Find or add the entry of an id; the lock is held. */
static struct hg_rpc *hg_registry_insert(struct hg_registry *registry, hg_id_t id)
{
    struct hg_rpc_table *table = atomic_load(&registry->table);
    struct hg_rpc *rpc;
    size_t i;

    for (i = hg_rpc_table_start(table, id);; i = (i + 1) & table->mask) {
        rpc = atomic_load(&table->slots[i]);
        if (rpc == NULL)
            break;
        if (rpc->id == id)
            return rpc;
    }
    if (hg_registry_reserve(registry) != HG_SUCCESS)
        return NULL;
    rpc = calloc(1, sizeof(*rpc));
    if (rpc == NULL)
        return NULL;
    rpc->id = id;
    hg_rpc_table_insert(atomic_load(&registry->table), rpc);
    registry->count++;
    return rpc;
}

/* Make room for one more entry; the lock is held. */
static hg_return_t hg_registry_reserve(struct hg_registry *registry)
{
    struct hg_rpc_table *table = atomic_load(&registry->table);
    struct hg_rpc_table *larger;
    size_t i;

    if (2 * (registry->count + 1) <= table->mask + 1)
        return HG_SUCCESS;
    larger = hg_rpc_table_new(2 * (table->mask + 1));
    if (larger == NULL)
        return HG_NOMEM;
    for (i = 0; i <= table->mask; i++) {
        struct hg_rpc *rpc = atomic_load(&table->slots[i]);

        if (rpc != NULL)
            hg_rpc_table_insert(larger, rpc);
    }
    larger->smaller = table;
    atomic_store_explicit(&registry->table, larger, memory_order_release);
    return HG_SUCCESS;
}

/* The program's callback runs without the lock. */
static void hg_registry_free_data(struct hg_registry *registry, struct hg_rpc *rpc)
{
    void (*data_free)(void *);
    void *data;

    (void) pthread_mutex_lock(&registry->lock);
    data = atomic_exchange(&rpc->data, NULL);
    data_free = rpc->data_free;
    rpc->data_free = NULL;
    (void) pthread_mutex_unlock(&registry->lock);
    if (data_free != NULL && data != NULL)
        data_free(data);
}

static struct hg_rpc_table *hg_rpc_table_new(size_t size)
{
    struct hg_rpc_table *table;

    table = calloc(1, sizeof(*table) + size * sizeof(table->slots[0]));
    if (table != NULL)
        table->mask = size - 1;
    return table;
}

/* Ids are often small numbers in sequence; the multiplication spreads them. */
static size_t hg_rpc_table_start(const struct hg_rpc_table *table, hg_id_t id)
{
    return (size_t) ((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & table->mask;
}

static void hg_rpc_table_insert(struct hg_rpc_table *table, struct hg_rpc *rpc)
{
    size_t i = hg_rpc_table_start(table, rpc->id);

    while (atomic_load(&table->slots[i]) != NULL)
        i = (i + 1) & table->mask;
    atomic_store_explicit(&table->slots[i], rpc, memory_order_release);
}
