/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: lookup, references, comparison and conversion to strings. */
#include "engine/addr.h"

#include "engine/auto_sm.h"
#include "engine/fork.h"
#include "engine/library.h"
#include "engine/log.h"

#include <stdlib.h>

static struct hg_addr *hg_addr_new(hg_class_t *hg_class);
static void hg_addr_delete(struct hg_addr *addr);
static bool hg_addr_is_of(const hg_class_t *hg_class, const struct hg_addr *addr, const char *what);

hg_return_t HG_Addr_lookup2(hg_class_t *hg_class, const char *name, hg_addr_t *addr_p)
{
    struct hg_addr *addr;
    enum hg_path path;
    hg_return_t ret;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || name == NULL || addr_p == NULL) {
        HG_LOG_ERROR("cannot look up \"%s\": class and result must be given",
                     name != NULL ? name : "NULL");
        return HG_INVALID_ARG;
    }
    addr = hg_addr_new(hg_class);
    if (addr == NULL) {
        HG_LOG_ERROR("cannot look up \"%s\": out of memory", name);
        return HG_NOMEM;
    }
    ret = hg_auto_sm_lookup(hg_class, name, addr);
    if (ret != HG_SUCCESS) {
        HG_LOG_ERROR("cannot look up \"%s\": %s", name, HG_Error_to_string(ret));
        hg_addr_delete(addr);
        return ret;
    }
    path = hg_addr_get_path(addr);
    addr->is_self = NA_Addr_is_self(hg_class->paths[path].na_class, addr->na_addr[path]);
    *addr_p = addr;
    return HG_SUCCESS;
}

hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (addr == HG_ADDR_NULL && hg_class != NULL)
        return HG_SUCCESS;
    if (!hg_addr_is_of(hg_class, addr, "free"))
        return HG_INVALID_ARG;
    if (addr->is_embedded) {
        HG_LOG_ERROR("the address of a handle belongs to it; free only a copy by HG_Addr_dup()");
        return HG_INVALID_ARG;
    }
    if (atomic_fetch_sub_explicit(&addr->ref, 1, memory_order_acq_rel) == 1)
        hg_addr_delete(addr);
    return HG_SUCCESS;
}

hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr)
{
    na_return_t na_return = NA_SUCCESS;
    int i;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (!hg_addr_is_of(hg_class, addr, "remove"))
        return HG_INVALID_ARG;
    for (i = 0; i < HG_PATH_MAX; i++) {
        na_return_t path_return;

        if (addr->na_addr[i] == NULL)
            continue;
        path_return = NA_Addr_set_remove(hg_class->paths[i].na_class, addr->na_addr[i]);
        if (path_return != NA_SUCCESS)
            na_return = path_return;
    }
    return hg_return_from_na(na_return);
}

hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p)
{
    na_return_t na_return = NA_SUCCESS;
    struct hg_addr *addr;
    int i;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL || addr_p == NULL) {
        HG_LOG_ERROR("cannot get the own address: class %p, result %p; pass both",
                     (void *) hg_class, (void *) addr_p);
        return HG_INVALID_ARG;
    }
    addr = hg_addr_new(hg_class);
    if (addr == NULL) {
        HG_LOG_ERROR("cannot get the own address: out of memory");
        return HG_NOMEM;
    }
    for (i = 0; i < HG_PATH_MAX && na_return == NA_SUCCESS; i++)
        if (hg_class->paths[i].na_class != NULL)
            na_return = NA_Addr_self(hg_class->paths[i].na_class, &addr->na_addr[i]);
    if (na_return != NA_SUCCESS) {
        HG_LOG_ERROR("cannot get the own address: %s", NA_Error_to_string(na_return));
        hg_addr_delete(addr);
        return hg_return_from_na(na_return);
    }
    addr->is_self = true;
    *addr_p = addr;
    return HG_SUCCESS;
}

hg_return_t HG_Addr_dup(hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (!hg_addr_is_of(hg_class, addr, "duplicate") || new_addr_p == NULL)
        return HG_INVALID_ARG;
    if (addr->is_embedded)
        return hg_addr_copy(hg_class, addr, new_addr_p);
    atomic_fetch_add_explicit(&addr->ref, 1, memory_order_relaxed);
    *new_addr_p = addr;
    return HG_SUCCESS;
}

uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1, hg_addr_t addr2)
{
    int i;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_FALSE;
    if (addr1 == addr2)
        return HG_TRUE;
    if (hg_class == NULL || addr1 == HG_ADDR_NULL || addr2 == HG_ADDR_NULL)
        return HG_FALSE;
    if (addr1->is_self && addr2->is_self)
        return HG_TRUE;
    for (i = 0; i < HG_PATH_MAX; i++)
        if (addr1->na_addr[i] != NULL && addr2->na_addr[i] != NULL)
            return NA_Addr_cmp(hg_class->paths[i].na_class, addr1->na_addr[i], addr2->na_addr[i])
                       ? HG_TRUE
                       : HG_FALSE;
    return HG_FALSE;
}

hg_return_t HG_Addr_to_string(hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p,
                              hg_addr_t addr)
{
    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (buf_size_p == NULL || !hg_addr_is_of(hg_class, addr, "print"))
        return HG_INVALID_ARG;
    return hg_auto_sm_to_string(buf, buf_size_p, addr);
}

bool HG_Addr_is_auto_sm(const hg_class_t *hg_class, hg_addr_t addr)
{
    return hg_class != NULL && addr != HG_ADDR_NULL && addr->hg_class == hg_class &&
           hg_addr_get_path(addr) == HG_PATH_SM;
}

hg_addr_t hg_addr_wrap(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr)
{
    struct hg_addr *addr = hg_addr_new(hg_class);

    if (addr == NULL) {
        NA_Addr_free(hg_class->paths[path].na_class, na_addr);
        return HG_ADDR_NULL;
    }
    addr->path = (uint8_t) path;
    addr->na_addr[path] = na_addr;
    addr->is_self = NA_Addr_is_self(hg_class->paths[path].na_class, na_addr);
    return addr;
}

static struct hg_addr *hg_addr_new(hg_class_t *hg_class)
{
    struct hg_addr *addr = calloc(1, sizeof(*addr));

    if (addr == NULL)
        return NULL;
    addr->hg_class = hg_class;
    atomic_init(&addr->ref, 1);
    atomic_fetch_add_explicit(&hg_class->addr_count, 1, memory_order_relaxed);
    return addr;
}

static void hg_addr_delete(struct hg_addr *addr)
{
    struct hg_flow *flow = atomic_load_explicit(&addr->flow, memory_order_relaxed);
    hg_class_t *hg_class = addr->hg_class;
    int i;

    if (flow != NULL)
        hg_class->upper->flow_unref(flow);
    for (i = 0; i < HG_PATH_MAX; i++) {
        struct hg_remote *remote = atomic_load_explicit(&addr->remote[i], memory_order_relaxed);

        if (remote != NULL)
            hg_class->upper->remote_unref(remote);
    }
    for (i = 0; i < HG_PATH_MAX; i++)
        if (addr->na_addr[i] != NULL)
            NA_Addr_free(hg_class->paths[i].na_class, addr->na_addr[i]);
    free(addr);
    atomic_fetch_sub_explicit(&hg_class->addr_count, 1, memory_order_release);
}

hg_return_t hg_addr_copy(hg_class_t *hg_class, const struct hg_addr *addr, hg_addr_t *new_addr_p)
{
    struct hg_addr *copy = hg_addr_new(hg_class);
    na_return_t na_return = NA_SUCCESS;
    int i;

    if (copy == NULL) {
        HG_LOG_ERROR("cannot duplicate an address: out of memory");
        return HG_NOMEM;
    }
    copy->path = (uint8_t) hg_addr_get_path(addr);
    copy->is_self = addr->is_self;
    for (i = 0; i < HG_PATH_MAX && na_return == NA_SUCCESS; i++)
        if (addr->na_addr[i] != NULL)
            na_return =
                NA_Addr_dup(hg_class->paths[i].na_class, addr->na_addr[i], &copy->na_addr[i]);
    if (na_return != NA_SUCCESS) {
        HG_LOG_ERROR("cannot duplicate an address: %s", NA_Error_to_string(na_return));
        hg_addr_delete(copy);
        return hg_return_from_na(na_return);
    }
    *new_addr_p = copy;
    return HG_SUCCESS;
}

static bool hg_addr_is_of(const hg_class_t *hg_class, const struct hg_addr *addr, const char *what)
{
    if (hg_class != NULL && addr != NULL && addr->hg_class == hg_class)
        return true;
    HG_LOG_ERROR("cannot %s an address: class %p, address %p%s", what, (const void *) hg_class,
                 (const void *) addr,
                 hg_class != NULL && addr != NULL ? " belongs to another class" : "; pass both");
    return false;
}
