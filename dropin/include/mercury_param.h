/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MIN, MAX and powerof2.
 */
#ifndef MERCURY_PARAM_H
#define MERCURY_PARAM_H

#include "mercury_util_config.h"

#include <sys/param.h>

/* The C library has them as a rule. */
#ifndef MAX
#    define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef MIN
#    define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef powerof2
#    define powerof2(x) (((x) & ((x) -1)) == 0)
#endif

#endif /* MERCURY_PARAM_H */
