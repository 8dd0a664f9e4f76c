/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: wait for something that a callback completes, while the waiting thread itself makes
 * progress and runs callbacks. Several threads may wait on requests of one class: one of them makes
 * progress, the others sleep until their request is completed or it is their turn.
 *
 * Do not wait inside a callback for an operation whose callback can only run after yours returned.
 */
#ifndef MERCURY_REQUEST_H
#define MERCURY_REQUEST_H

#include "mercury_util_config.h"

typedef struct hg_request_class hg_request_class_t; /* how to make progress */
typedef struct hg_request hg_request_t;             /* an operation to wait for */

/**
 * Makes progress, for instance by HG_Progress().
 *
 * \param timeout [IN]  milliseconds it may wait
 * \param arg [IN]      argument given to hg_request_init()
 *
 * \return HG_UTIL_SUCCESS if there is something to trigger, another value otherwise
 */
typedef int (*hg_request_progress_func_t)(unsigned int timeout, void *arg);

/**
 * Runs callbacks, for instance by HG_Trigger().
 *
 * \param timeout [IN]  milliseconds it may wait
 * \param flag [OUT]    1 if a callback was run, 0 otherwise
 * \param arg [IN]      argument given to hg_request_init()
 *
 * \return HG_UTIL_SUCCESS or another value
 */
typedef int (*hg_request_trigger_func_t)(unsigned int timeout, unsigned int *flag, void *arg);

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a request class.
 *
 * \param progress [IN]     makes progress
 * \param trigger [IN]      runs callbacks
 * \param arg [IN]          passed to both
 *
 * \return class, to be freed by hg_request_finalize(); NULL if a function is NULL or memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_request_class_t *hg_request_init(hg_request_progress_func_t progress,
                                                   hg_request_trigger_func_t trigger, void *arg);

/**
 * Free a request class; all of its requests must have been destroyed, and no thread may be waiting.
 *
 * \param request_class [IN]    class, NULL is allowed
 * \param arg [OUT]             argument given to hg_request_init(), the program's; may be
 *                              NULL
 *
 * One thread, when no other uses the class. \since 1.0
 */
HG_UTIL_PUBLIC void hg_request_finalize(hg_request_class_t *request_class, void **arg);

/**
 * Make a request that is not completed.
 *
 * \param request_class [IN]    class
 *
 * \return request, to be freed by hg_request_destroy(); NULL if the class is NULL or memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_request_t *hg_request_create(hg_request_class_t *request_class);

/**
 * Free a request. No thread may be waiting for it, and nothing may complete it any more.
 *
 * \param request [IN]      request, NULL is allowed
 *
 * One thread, when no other uses the request. \since 1.0
 */
HG_UTIL_PUBLIC void hg_request_destroy(hg_request_t *request);

/**
 * Make a completed request usable again. No thread may be waiting for it.
 *
 * \param request [IN]      request
 *
 * One thread, when no other uses the request. \since 1.0
 */
HG_UTIL_PUBLIC void hg_request_reset(hg_request_t *request);

/**
 * Complete a request and wake its waiter; usually called by a callback. The waiter may destroy the
 * request as soon as this call has begun.
 *
 * \param request [IN]      request
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_request_complete(hg_request_t *request);

/**
 * Wait until a request is completed or the timeout expires. Callbacks run in the calling thread, at
 * least once even if the time is 0.
 *
 * \param request [IN]      request
 * \param timeout [IN]      milliseconds
 * \param flag [OUT]        1 if it is completed, 0 if not; may be NULL
 *
 * \return HG_UTIL_SUCCESS, also when the timeout expires; HG_UTIL_FAIL if the request is NULL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_request_wait(hg_request_t *request, unsigned int timeout, unsigned int *flag);

/**
 * Wait until all of several requests are completed or the timeout expires.
 *
 * \param count [IN]        how many
 * \param request [IN]      requests
 * \param timeout [IN]      milliseconds for all of them together
 * \param flag [OUT]        1 if all are completed, 0 if not; may be NULL
 *
 * \return HG_UTIL_SUCCESS, also when the timeout expires; HG_UTIL_FAIL if a request is NULL or
 *         \a count is negative
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_request_waitall(int count, hg_request_t *request[], unsigned int timeout,
                                      unsigned int *flag);

/**
 * Attach a pointer to a request.
 *
 * \param request [IN]      request
 * \param data [IN]         pointer, never followed
 *
 * One thread at a time for a request. \since 1.0
 */
HG_UTIL_PUBLIC void hg_request_set_data(hg_request_t *request, void *data);

/**
 * \return pointer that hg_request_set_data() attached, owned by the program, or NULL
 * \param request [IN]      request
 * One thread at a time for a request. \since 1.0
 */
HG_UTIL_PUBLIC void *hg_request_get_data(hg_request_t *request);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_REQUEST_H */
