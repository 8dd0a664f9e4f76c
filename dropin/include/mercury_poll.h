/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of file descriptors to wait for.
 */
#ifndef MERCURY_POLL_H
#define MERCURY_POLL_H

#include "mercury_util_config.h"

/* A set of descriptors. */
typedef struct hg_poll_set hg_poll_set_t;

/* What the program wants to get back with an event. */
typedef union hg_poll_data {
    void *ptr;
    int fd;
    uint32_t u32;
    uint64_t u64;
} hg_poll_data_t;

/* What has happened to a descriptor, or what is waited for. */
struct hg_poll_event {
    uint32_t events;     /* HG_POLL*, or-ed */
    hg_poll_data_t data; /* as it was given to hg_poll_add() */
};

#define HG_POLLIN   (1 << 0) /* something can be read */
#define HG_POLLOUT  (1 << 1) /* something can be written */
#define HG_POLLERR  (1 << 2) /* the descriptor has failed */
#define HG_POLLHUP  (1 << 3) /* the other side has closed */
#define HG_POLLINTR (1 << 4) /* a signal ended the wait */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make an empty set.
 *
 * \return set, to be freed by hg_poll_destroy(), or NULL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_poll_set_t *hg_poll_create(void);

/**
 * Free a set. Its descriptors stay open.
 *
 * \param poll_set [IN]     set, NULL is allowed
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if there are still descriptors in it, it is not freed then
 *
 * One thread, after all others are done with the set. \since 1.0
 */
HG_UTIL_PUBLIC int hg_poll_destroy(hg_poll_set_t *poll_set);

/**
 * \return a descriptor that is readable while one of the set has an event; the set owns it.
 *         HG_UTIL_FAIL if the set is NULL
 * \param poll_set [IN]     set
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_poll_get_fd(const hg_poll_set_t *poll_set);

/**
 * Add a descriptor.
 *
 * \param poll_set [IN]     set
 * \param fd [IN]           descriptor
 * \param event [IN]        what to wait for (HG_POLLIN, HG_POLLOUT), and the data to return
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if it is in the set already or cannot be waited for
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_poll_add(hg_poll_set_t *poll_set, int fd, struct hg_poll_event *event);

/**
 * Remove a descriptor.
 *
 * \param poll_set [IN]     set
 * \param fd [IN]           descriptor
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if it is not in the set
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_poll_remove(hg_poll_set_t *poll_set, int fd);

/**
 * Wait until a descriptor has an event or the time is over. A signal that ends the wait is one
 * event, HG_POLLINTR.
 *
 * \param poll_set [IN]         set
 * \param timeout [IN]          milliseconds
 * \param max_events [IN]       entries of \a events
 * \param events [OUT]          events
 * \param actual_events [OUT]   how many there are, 0 when the time is over
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if an argument is missing or the wait fails
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_poll_wait(hg_poll_set_t *poll_set, unsigned int timeout,
                                unsigned int max_events, struct hg_poll_event events[],
                                unsigned int *actual_events);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_POLL_H */
