/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the library allocates for transfers. */
#ifndef HG_ENGINE_MEMORY_H
#define HG_ENGINE_MEMORY_H

#include "mercury_types.h"

/*
 * Allocate zero-filled memory from the path within the node, if there is one, whose memory the main
 * transport can use, too; or else from the main transport. NULL: out of memory.
 */
void *hg_memory_alloc(hg_class_t *hg_class, hg_size_t size);

/* Free memory of hg_memory_alloc(). */
void hg_memory_free(hg_class_t *hg_class, void *memory);

#endif /* HG_ENGINE_MEMORY_H */
