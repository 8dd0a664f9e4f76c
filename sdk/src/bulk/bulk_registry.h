/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HG_BULK_REGISTRY_H
#define HG_BULK_REGISTRY_H

#include "bulk/bulk_internal.h"

/*
 * Name a local descriptor if it has none yet; find one by name, with a reference; remove one. The
 * name is 0 if none could be drawn.
 */
struct hg_bulk_name hg_bulk_registry_name(struct hg_bulk *bulk);
struct hg_bulk *hg_bulk_registry_find(const hg_class_t *hg_class, const struct hg_bulk_name *name);
void hg_bulk_registry_remove(struct hg_bulk *bulk);

/* For fork(): take and release all locks; empty the registry in the child. */
void hg_bulk_registry_lock(void);
void hg_bulk_registry_unlock(void);
void hg_bulk_registry_clear(void);

#endif /* HG_BULK_REGISTRY_H */
