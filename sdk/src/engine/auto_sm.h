/* SPDX-License-Identifier: BSD-3-Clause */
/* auto_sm: the second path, through shared memory. */
#ifndef HG_ENGINE_AUTO_SM_H
#define HG_ENGINE_AUTO_SM_H

#include "engine/addr.h"

/*
 * Open the class of HG_PATH_SM if that is useful and allowed; `info_string` may be NULL. Failure is
 * not an error: the path stays closed.
 */
void hg_auto_sm_open(hg_class_t *hg_class, const struct na_init_info *main_init_info,
                     const char *info_string, bool listen);

/* Split "main;sm=node@address" and look both parts up. */
hg_return_t hg_auto_sm_lookup(hg_class_t *hg_class, const char *name, struct hg_addr *addr);
hg_return_t hg_auto_sm_to_string(char *buf, hg_size_t *size_p, const struct hg_addr *addr);

/*
 * Report that a peer is gone from the second path, for instance because its process was restarted:
 * later messages take the main path, if the address has one. Transfers in flight are not touched.
 * [any thread]
 */
void hg_auto_sm_lost(struct hg_addr *addr);

#endif /* HG_ENGINE_AUTO_SM_H */
