/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/memory.h"

#include "engine/class.h"

static na_class_t *hg_memory_class(const hg_class_t *hg_class);

void *hg_memory_alloc(hg_class_t *hg_class, hg_size_t size)
{
    return size <= SIZE_MAX ? NA_Mem_alloc(hg_memory_class(hg_class), (size_t) size) : NULL;
}

void hg_memory_free(hg_class_t *hg_class, void *memory)
{
    NA_Mem_free(hg_memory_class(hg_class), memory);
}

static na_class_t *hg_memory_class(const hg_class_t *hg_class)
{
    na_class_t *node = hg_class->paths[HG_PATH_SM].na_class;

    return node != NULL ? node : hg_class->paths[HG_PATH_MAIN].na_class;
}
