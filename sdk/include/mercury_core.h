/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the lower RPC interface that mercury.h includes for its clients' sake. Its functions
 * are not offered; everything they do is reached through mercury.h.
 */
#ifndef MERCURY_CORE_H
#define MERCURY_CORE_H

#include "mercury_core_header.h"
#include "mercury_core_types.h"

#include "na.h"

/* Flag: more data have to be fetched than the message carries. */
#define HG_CORE_MORE_DATA (1 << 0)

#endif /* MERCURY_CORE_H */
