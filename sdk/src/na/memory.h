/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: the plugin's handle, and what the core needs to check its use. */

#ifndef NA_MEMORY_H
#define NA_MEMORY_H

#include "na/class.h"

struct na_mem_handle {
    struct na_class *na_class;
    struct na_plugin_mem *plugin_mem;
    uint64_t length; /* of all segments together */
    uint32_t flags;  /* NA_MEM_* */
    bool remote;     /* deserialized: describes memory of a peer */
};

#endif /* NA_MEMORY_H */
