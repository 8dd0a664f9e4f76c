/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests. Of all threads that wait on requests of one class one at a time makes progress, without
 * the lock; the others sleep on the condition, which completions and the end of each progress call
 * signal. So no thread sleeps in progress for an event that another thread has already handled.
 */
#include "mercury_request.h"

#include "util/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/*
 * Limit of one progress call, in milliseconds: a request may be completed by a thread that does not
 * wait itself, and that does not end the progress call of another thread.
 */
#define HG_REQUEST_PROGRESS_MAX 100u

/* Pause after a progress call that failed at once, in milliseconds. */
#define HG_REQUEST_REST 1u

struct hg_request_class {
    hg_request_progress_func_t progress;
    hg_request_trigger_func_t trigger;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool is_progressing; /* a thread is in the progress function; under the lock */
};

struct hg_request {
    hg_request_class_t *request_class;
    void *data;
    bool is_completed; /* under the class's lock */
};

static bool hg_request_wait_until(hg_request_t *request, uint64_t deadline);
static void hg_request_trigger(hg_request_class_t *request_class);
static void hg_request_progress(hg_request_class_t *request_class, uint64_t deadline);
static void hg_request_rest(hg_request_class_t *request_class, uint64_t until);
static uint64_t hg_request_now(void);

hg_request_class_t *hg_request_init(hg_request_progress_func_t progress,
                                    hg_request_trigger_func_t trigger, void *arg)
{
    hg_request_class_t *request_class;
    pthread_condattr_t attr;

    if (progress == NULL || trigger == NULL)
        return NULL;
    request_class = calloc(1, sizeof(*request_class));
    if (request_class == NULL)
        return NULL;
    request_class->progress = progress;
    request_class->trigger = trigger;
    request_class->arg = arg;
    (void) pthread_mutex_init(&request_class->lock, NULL);
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&request_class->cond, &attr);
    (void) pthread_condattr_destroy(&attr);
    return request_class;
}

void hg_request_finalize(hg_request_class_t *request_class, void **arg)
{
    if (request_class == NULL)
        return;
    if (arg != NULL)
        *arg = request_class->arg;
    (void) pthread_cond_destroy(&request_class->cond);
    (void) pthread_mutex_destroy(&request_class->lock);
    free(request_class);
}

hg_request_t *hg_request_create(hg_request_class_t *request_class)
{
    hg_request_t *request = request_class != NULL ? calloc(1, sizeof(*request)) : NULL;

    if (request != NULL)
        request->request_class = request_class;
    return request;
}

void hg_request_destroy(hg_request_t *request)
{
    free(request);
}

void hg_request_reset(hg_request_t *request)
{
    (void) pthread_mutex_lock(&request->request_class->lock);
    request->is_completed = false;
    (void) pthread_mutex_unlock(&request->request_class->lock);
}

void hg_request_complete(hg_request_t *request)
{
    hg_request_class_t *request_class = request->request_class;

    /* Under the lock, because the waiter may destroy the request and its class once it has that. */
    (void) pthread_mutex_lock(&request_class->lock);
    request->is_completed = true;
    (void) pthread_cond_broadcast(&request_class->cond);
    (void) pthread_mutex_unlock(&request_class->lock);
}

int hg_request_wait(hg_request_t *request, unsigned int timeout, unsigned int *flag)
{
    return hg_request_waitall(1, &request, timeout, flag);
}

int hg_request_waitall(int count, hg_request_t *request[], unsigned int timeout, unsigned int *flag)
{
    uint64_t deadline = hg_request_now() + timeout;
    bool is_completed = true;

    if (count < 0 || (count > 0 && request == NULL))
        return HG_UTIL_FAIL;
    for (int i = 0; i < count; i++)
        if (request[i] == NULL)
            return HG_UTIL_FAIL;
    for (int i = 0; i < count; i++)
        is_completed = hg_request_wait_until(request[i], deadline) && is_completed;
    if (flag != NULL)
        *flag = is_completed;
    return HG_UTIL_SUCCESS;
}

void hg_request_set_data(hg_request_t *request, void *data)
{
    request->data = data;
}

void *hg_request_get_data(hg_request_t *request)
{
    return request->data;
}

static bool hg_request_wait_until(hg_request_t *request, uint64_t deadline)
{
    hg_request_class_t *request_class = request->request_class;
    bool is_last = false;
    bool is_completed;

    (void) pthread_mutex_lock(&request_class->lock);
    hg_request_trigger(request_class);
    while (!request->is_completed && !is_last) {
        is_last = hg_request_now() >= deadline;
        hg_request_progress(request_class, deadline);
        hg_request_trigger(request_class);
    }
    is_completed = request->is_completed;
    (void) pthread_mutex_unlock(&request_class->lock);
    return is_completed;
}

/* Run callbacks until there are none. The lock is held, and released meanwhile. */
static void hg_request_trigger(hg_request_class_t *request_class)
{
    unsigned int flag;
    int ret;

    (void) pthread_mutex_unlock(&request_class->lock);
    do {
        flag = 0;
        ret = request_class->trigger(0, &flag, request_class->arg);
    } while (ret == HG_UTIL_SUCCESS && flag != 0);
    (void) pthread_mutex_lock(&request_class->lock);
}

/*
 * Make progress, or sleep while another thread does, at most until the deadline. The lock is held,
 * and released meanwhile.
 */
static void hg_request_progress(hg_request_class_t *request_class, uint64_t deadline)
{
    uint64_t start = hg_request_now();
    uint64_t left = start < deadline ? deadline - start : 0;
    int ret;

    if (request_class->is_progressing) {
        hg_request_rest(request_class, deadline);
        return;
    }
    if (left > HG_REQUEST_PROGRESS_MAX)
        left = HG_REQUEST_PROGRESS_MAX;
    request_class->is_progressing = true;
    (void) pthread_mutex_unlock(&request_class->lock);
    ret = request_class->progress((unsigned int) left, request_class->arg);
    (void) pthread_mutex_lock(&request_class->lock);
    request_class->is_progressing = false;
    /* Other threads may have callbacks to run, or have to make progress. */
    (void) pthread_cond_broadcast(&request_class->cond);

    /* A progress function that keeps failing must not keep a core busy. */
    if (ret != HG_UTIL_SUCCESS && left > HG_REQUEST_REST && hg_request_now() == start)
        hg_request_rest(request_class, start + HG_REQUEST_REST);
}

/* Sleep until the condition is signaled, or until a time in milliseconds. The lock is held. */
static void hg_request_rest(hg_request_class_t *request_class, uint64_t until)
{
    struct timespec time;

    time.tv_sec = (time_t) (until / 1000);
    time.tv_nsec = (long) (until % 1000) * 1000000;
    (void) pthread_cond_timedwait(&request_class->cond, &request_class->lock, &time);
}

/* Monotonic time in milliseconds. */
static uint64_t hg_request_now(void)
{
    return util_clock_ns() / 1000000;
}
