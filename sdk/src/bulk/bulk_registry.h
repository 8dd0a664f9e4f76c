/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HG_BULK_REGISTRY_H
#define HG_BULK_REGISTRY_H

#include "bulk/bulk_internal.h"

/* Names of local descriptors, so that one that comes back is recognized. */
struct hg_bulk_name hg_bulk_registry_name(struct hg_bulk *bulk);
struct hg_bulk *hg_bulk_registry_find(const hg_class_t *hg_class, const struct hg_bulk_name *name);
void hg_bulk_registry_remove(struct hg_bulk *bulk);

/* For a fork(): all locks of the registry, and what is in it is the parent's. */
void hg_bulk_registry_lock(void);
void hg_bulk_registry_unlock(void);
void hg_bulk_registry_clear(void);

#endif /* HG_BULK_REGISTRY_H */
