/* SPDX-License-Identifier: BSD-3-Clause */
/* The registered RPCs of a class. */
#ifndef HG_REGISTRY_H
#define HG_REGISTRY_H

#include "mercury.h"

#include <pthread.h>
#include <stdatomic.h>

/* A registered RPC. It stays allocated until the class is closed, so that readers need no lock. */
struct hg_rpc {
    hg_id_t id;
    char *name; /* NULL if registered by number; under the registry's lock */
    _Atomic bool is_registered;
    _Atomic bool no_response;
    _Atomic(hg_rpc_cb_t) rpc_cb;
    _Atomic(hg_proc_cb_t) in_proc;
    _Atomic(hg_proc_cb_t) out_proc;
    _Atomic(void *) data;
    void (*data_free)(void *); /* under the registry's lock */
};

struct hg_rpc_table;

struct hg_registry {
    pthread_mutex_t lock; /* held by writers */
    _Atomic(struct hg_rpc_table *) table;
    size_t count; /* entries */
};

hg_return_t hg_registry_init(struct hg_registry *registry);
void hg_registry_fini(struct hg_registry *registry);

/* Returns the registered RPC of an id, or NULL; takes no lock. [any thread] */
struct hg_rpc *hg_registry_find(const struct hg_registry *registry, hg_id_t id);

/* Add or replace an RPC. With a name: HG_EXIST if another name has this id. */
hg_return_t hg_registry_add(struct hg_registry *registry, hg_id_t id, const char *name,
                            hg_proc_cb_t in_proc, hg_proc_cb_t out_proc, hg_rpc_cb_t rpc_cb);

#endif /* HG_REGISTRY_H */
