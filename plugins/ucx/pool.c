/* SPDX-License-Identifier: BSD-3-Clause */
/* Small objects that come and go with transfers: what was needed once is kept until the end. */

#include "ucx.h"

#include <string.h>

_Static_assert(sizeof(struct ucx_ticket) <= UCX_SCRAP_SIZE, "a ticket fits");
_Static_assert(sizeof(struct ucx_job) <= UCX_SCRAP_SIZE, "a job fits");

/* Zero-filled, or NULL. */
void *ucx_scrap_get(struct na_plugin_class *na_class)
{
    struct kit_link *scrap = na_class->scraps.next;

    if (kit_unlikely(scrap == &na_class->scraps))
        return kit_host->mem_alloc(UCX_SCRAP_SIZE, 0);
    kit_list_remove(scrap);
    memset(scrap, 0, UCX_SCRAP_SIZE);
    return scrap;
}

void ucx_scrap_put(struct na_plugin_class *na_class, void *scrap)
{
    struct kit_link *link = scrap;

    kit_list_init(link);
    kit_list_append(na_class->scraps.next, link); /* the last is the warmest */
}

void ucx_scraps_free(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->scraps)) {
        struct kit_link *scrap = na_class->scraps.next;

        kit_list_remove(scrap);
        kit_host->mem_free(scrap);
    }
}
