/* SPDX-License-Identifier: BSD-3-Clause */
/* Before the first input. */

#include "fuzz.h"

#include "na.h"

void fuzz_setup(void)
{
    (void) setenv("NA_PLUGIN_PATH", FUZZ_PLUGIN_DIR, 1);
    NA_Set_log_level("none");
}
