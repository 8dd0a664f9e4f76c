/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are lost: NA's notice of them, over each transport of a class. */

#include "engine/addr.h"
#include "engine/fork.h"
#include "engine/library.h"
#include "hg/class.h"

static void peer_lost(na_class_t *na_class, na_addr_t *na_addr, na_return_t reason, void *arg);

hg_return_t HG_Class_set_peer_lost_callback(hg_class_t *hg_class, hg_peer_lost_cb_t callback,
                                            void *arg)
{
    na_return_t ret;

    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    hg_rpc_class(hg_class)->peer_lost = callback;
    hg_rpc_class(hg_class)->peer_lost_arg = arg;
    ret = NA_Class_set_peer_lost(hg_class->paths[HG_PATH_MAIN].na_class,
                                 callback != NULL ? peer_lost : NULL, hg_class);
    if (ret == NA_SUCCESS && hg_class->paths[HG_PATH_SM].na_class != NULL)
        ret = NA_Class_set_peer_lost(hg_class->paths[HG_PATH_SM].na_class,
                                     callback != NULL ? peer_lost : NULL, hg_class);
    return hg_return_from_na(ret);
}

static void peer_lost(na_class_t *na_class, na_addr_t *na_addr, na_return_t reason, void *arg)
{
    hg_class_t *hg_class = arg;
    const enum hg_path path =
        na_class == hg_class->paths[HG_PATH_MAIN].na_class ? HG_PATH_MAIN : HG_PATH_SM;
    const hg_peer_lost_cb_t callback = hg_rpc_class(hg_class)->peer_lost;
    na_addr_t *copy = NULL;
    hg_addr_t addr = HG_ADDR_NULL;

    if (callback == NULL)
        return; /* another thread has just unset it */
    if (NA_Addr_dup(na_class, na_addr, &copy) == NA_SUCCESS)
        addr = hg_addr_wrap(hg_class, path, copy);
    if (addr == HG_ADDR_NULL) {
        HG_LOG_ERROR("a peer is lost, and there is no memory to say so");
        return;
    }
    callback(hg_class, addr, hg_return_from_na(reason), hg_rpc_class(hg_class)->peer_lost_arg);
    (void) HG_Addr_free(hg_class, addr);
}
