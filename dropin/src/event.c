/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: descriptors of eventfd(2).
 */
#include "mercury_event.h"

int hg_event_create(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

int hg_event_destroy(int fd)
{
    return close(fd) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}
