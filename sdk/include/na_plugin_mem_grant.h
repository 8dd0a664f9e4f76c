/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: memory that is granted to each peer that may reach it, for
 * classes that declare NA_PLUGIN_CAP_MEM_PER_SESSION. Without it such a class is refused. Since
 * 1.2. The rules at the top of na_plugin.h apply here, too.
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
     * Lets a peer that will be sent the handle put to and get from the registered memory as its
     * flags allow, in the current session with the peer, or if there is none in the session that
     * delivers the next message to it. The grant ends with the session, or when the memory is
     * deregistered. Returns NA_PLUGIN_INVALID_ARG when the memory is not registered;
     * NA_PLUGIN_NOMEM, also when the class has too many grants. The caller owns both objects. [any
     * thread] [may not block]
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
