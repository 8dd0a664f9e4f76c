/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mercury_macros.h in C++.
 */
#include "macros_body.h"
