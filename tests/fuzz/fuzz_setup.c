/* SPDX-License-Identifier: BSD-3-Clause */
/* Setup before the first input, and cleanup at exit. */

#include "fuzz.h"

#include "layout.h"
#include "na.h"

#include <glob.h>
#include <unistd.h>

static void remove_endpoints(void);

void fuzz_setup(void)
{
    (void) setenv("NA_PLUGIN_PATH", FUZZ_PLUGIN_DIR, 1);
    NA_Set_log_level("none");
    (void) atexit(remove_endpoints);
}

/* The fuzzer exits while the endpoints of a target are open, so their files are removed here. */
static void remove_endpoints(void)
{
    char pattern[128];
    glob_t found;

    (void) snprintf(pattern, sizeof(pattern), SM_DIRECTORY SM_PREFIX "%u.%ld-*",
                    (unsigned int) geteuid(), (long) getpid());
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        (void) unlink(found.gl_pathv[i]);
    globfree(&found);
}
