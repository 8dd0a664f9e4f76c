/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are lost. */
#ifndef HG_PEER_LOST_H
#define HG_PEER_LOST_H

#include "mercury.h"

/*
 * Ask NA for the notice of lost peers, to drop their sessions. NA classes of the program are left
 * out, because they may have a callback of the program.
 */
void hg_peer_lost_begin(hg_class_t *hg_class);

#endif /* HG_PEER_LOST_H */
