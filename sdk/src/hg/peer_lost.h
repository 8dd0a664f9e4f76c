/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are lost. */
#ifndef HG_PEER_LOST_H
#define HG_PEER_LOST_H

#include "mercury.h"

/*
 * Have the sessions of peers that are lost dropped, over the transports that are the class's own
 * and tell of them: an endpoint of the program's may have a callback of the program's.
 */
void hg_peer_lost_begin(hg_class_t *hg_class);

#endif /* HG_PEER_LOST_H */
