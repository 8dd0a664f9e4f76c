/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: memory that is granted to each peer that may reach it, for
 * classes that say NA_PLUGIN_CAP_MEM_PER_SESSION. Without it such a class is refused. Since 1.2.
 * The rules at the top of na_plugin.h hold here, too.
 */

#ifndef NA_PLUGIN_MEM_GRANT_H
#define NA_PLUGIN_MEM_GRANT_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_MEM_GRANT "na.mem_grant/1"

struct na_plugin_mem_grant {
    struct na_plugin_extension extension;

    /*
     * The peer is about to be told of the memory, which is registered: it may put and get as the
     * flags say, in the session with it that there is, or if there is none in the one that brings
     * what is sent to it next. That ends with the session, or when the memory is deregistered.
     * Returns NA_PLUGIN_INVALID_ARG when the memory is not registered; NA_PLUGIN_NOMEM, also when
     * the class notes down no more. Both stay the caller's. [any thread] [may not block]
     */
    int32_t (*mem_grant)(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         struct na_plugin_addr *addr);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_mem_grant, mem_grant) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_MEM_GRANT_H */
