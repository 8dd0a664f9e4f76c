/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA's notice of lost peers, on each path of a class. HG drops the sessions of such a peer, and
 * calls the program's callback if there is one.
 */
#include "hg/peer_lost.h"

#include "engine/addr.h"
#include "engine/fork.h"
#include "engine/library.h"
#include "hg/class.h"
#include "hg/header.h"
#include "hg/sessions.h"

static bool has_sessions(const hg_class_t *hg_class, enum hg_path path);
static na_return_t path_set(hg_class_t *hg_class, enum hg_path path, bool is_wanted);
static void peer_lost(na_class_t *na_class, na_addr_t *na_addr, na_return_t reason, void *arg);
static void sessions_mark_lost(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr);

hg_return_t HG_Class_set_peer_lost_callback(hg_class_t *hg_class, hg_peer_lost_cb_t callback,
                                            void *arg)
{
    na_return_t ret;

    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    hg_rpc_class(hg_class)->peer_lost = callback;
    hg_rpc_class(hg_class)->peer_lost_arg = arg;
    ret = path_set(hg_class, HG_PATH_MAIN, callback != NULL);
    if (ret == NA_SUCCESS && hg_class->paths[HG_PATH_SM].na_class != NULL)
        ret = path_set(hg_class, HG_PATH_SM, callback != NULL);
    return hg_return_from_na(ret);
}

void hg_peer_lost_begin(hg_class_t *hg_class)
{
    for (int path = 0; path < HG_PATH_MAX; path++)
        if (has_sessions(hg_class, (enum hg_path) path))
            (void) path_set(hg_class, (enum hg_path) path, true); /* not all transports can */
}

/* Returns true if HG itself needs the notice on a path. */
static bool has_sessions(const hg_class_t *hg_class, enum hg_path path)
{
    return (hg_rpc_class(hg_class)->msg_flags[path] & HG_CORE_HEADER_HAS_SEAL) != 0 &&
           hg_class->paths[path].na_class != NULL &&
           (path != HG_PATH_MAIN || hg_class->owns_na_class);
}

static na_return_t path_set(hg_class_t *hg_class, enum hg_path path, bool is_wanted)
{
    if (!is_wanted && has_sessions(hg_class, path))
        return NA_SUCCESS; /* HG still needs the notice */
    return NA_Class_set_peer_lost(hg_class->paths[path].na_class, is_wanted ? peer_lost : NULL,
                                  hg_class);
}

static void peer_lost(na_class_t *na_class, na_addr_t *na_addr, na_return_t reason, void *arg)
{
    hg_class_t *hg_class = arg;
    const enum hg_path path =
        na_class == hg_class->paths[HG_PATH_MAIN].na_class ? HG_PATH_MAIN : HG_PATH_SM;
    const hg_peer_lost_cb_t callback = hg_rpc_class(hg_class)->peer_lost;
    na_addr_t *copy = NULL;
    hg_addr_t addr = HG_ADDR_NULL;

    if ((hg_rpc_class(hg_class)->msg_flags[path] & HG_CORE_HEADER_HAS_SEAL) != 0)
        sessions_mark_lost(hg_class, path, na_addr);
    if (callback == NULL)
        return;
    if (NA_Addr_dup(na_class, na_addr, &copy) == NA_SUCCESS)
        addr = hg_addr_wrap(hg_class, path, copy);
    if (addr == HG_ADDR_NULL) {
        HG_LOG_ERROR("a peer is lost, and there is no memory to say so");
        return;
    }
    callback(hg_class, addr, hg_return_from_na(reason), hg_rpc_class(hg_class)->peer_lost_arg);
    (void) HG_Addr_free(hg_class, addr);
}

static void sessions_mark_lost(hg_class_t *hg_class, enum hg_path path, na_addr_t *na_addr)
{
    (void) pthread_mutex_lock(&hg_class->lock);
    for (hg_context_t *context = hg_class->contexts; context != NULL; context = context->next)
        hg_sessions_lose(context, (uint8_t) path, na_addr);
    (void) pthread_mutex_unlock(&hg_class->lock);
}
