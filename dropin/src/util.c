/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version of the utilities, and the level of their log by its name.
 */
#include "mercury_util.h"

#include "mercury_log.h"

void HG_Util_version_get(unsigned int *major, unsigned int *minor, unsigned int *patch)
{
    if (major != NULL)
        *major = HG_UTIL_VERSION_MAJOR;
    if (minor != NULL)
        *minor = HG_UTIL_VERSION_MINOR;
    if (patch != NULL)
        *patch = HG_UTIL_VERSION_PATCH;
}

void HG_Util_set_log_level(const char *level)
{
    hg_log_set_level(hg_log_name_to_level(level));
}
