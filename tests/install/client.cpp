// SPDX-License-Identifier: BSD-3-Clause
// The C client as C++: the macros have to work there as well.
#include "client.c"
