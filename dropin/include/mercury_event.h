/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file descriptor that one thread sets and another one waits for and reads.
 */
#ifndef MERCURY_EVENT_H
#define MERCURY_EVENT_H

#include "mercury_util_config.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make an event that is not set.
 *
 * \return file descriptor, to be closed by hg_event_destroy(), or a negative value
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_event_create(void);

/**
 * Close an event.
 *
 * \param fd [IN]       its descriptor
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * One thread, after all others are done with the event. \since 1.0
 */
HG_UTIL_PUBLIC int hg_event_destroy(int fd);

/**
 * Set an event: the descriptor becomes readable.
 *
 * \param fd [IN]       its descriptor
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_event_set(int fd)
{
    return eventfd_write(fd, 1) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/**
 * Ask whether an event was set, and reset it.
 *
 * \param fd [IN]           its descriptor
 * \param notified [OUT]    true if it was set
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_event_get(int fd, bool *notified)
{
    eventfd_t count = 0;

    if (eventfd_read(fd, &count) != 0 && errno != EAGAIN)
        return HG_UTIL_FAIL;
    *notified = count != 0;
    return HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_EVENT_H */
