/* SPDX-License-Identifier: BSD-3-Clause */
/* auto_sm: the second path. */
#ifndef HG_ENGINE_AUTO_SM_H
#define HG_ENGINE_AUTO_SM_H

#include "engine/addr.h"

/*
 * Open the class of path 1 if it makes sense; `info_string` may be NULL. Failure is not an
 * error: the path stays closed.
 */
void hg_auto_sm_open(hg_class_t *hg_class, const struct na_init_info *main_init_info,
                     const char *info_string, bool listen);

/* Split "main;sm=node@address" and look both up. */
hg_return_t hg_auto_sm_lookup(hg_class_t *hg_class, const char *name, struct hg_addr *addr);
hg_return_t hg_auto_sm_to_string(char *buf, hg_size_t *size_p, const struct hg_addr *addr);

/*
 * The peer is gone from the second path, as when its process was restarted: from now on messages
 * take the main one, if the address has it. Transfers that run are left alone. [any thread]
 */
void hg_auto_sm_lost(struct hg_addr *addr);

#endif /* HG_ENGINE_AUTO_SM_H */
