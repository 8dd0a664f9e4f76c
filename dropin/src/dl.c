/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the file of an address lies.
 */
#define _GNU_SOURCE
#include "mercury_dl.h"

#include <string.h>

int hg_dl_get_path(const void *addr, char *path, size_t path_size)
{
    const char *end;
    Dl_info info;
    size_t len;

    if (path == NULL || dladdr(addr, &info) == 0 || info.dli_fname == NULL)
        return HG_UTIL_FAIL;
    end = strrchr(info.dli_fname, '/');
    if (end == NULL)
        return HG_UTIL_FAIL;
    /* A file in the root folder is in "/". */
    len = end > info.dli_fname ? (size_t) (end - info.dli_fname) : 1;
    if (len >= path_size)
        return HG_UTIL_FAIL;
    memcpy(path, info.dli_fname, len);
    path[len] = '\0';
    return HG_UTIL_SUCCESS;
}
