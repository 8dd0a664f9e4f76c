// SPDX-License-Identifier: BSD-3-Clause
// The C client as C++: the macros have to be as good there.
#include "client.c"
