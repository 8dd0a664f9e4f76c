/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads, and the making and freeing of what they synchronize with.
 */
#include "mercury_thread.h"
#include "mercury_thread_condition.h"
#include "mercury_thread_mutex.h"
#include "mercury_thread_rwlock.h"
#include "mercury_thread_spin.h"

#include <sched.h>
#include <time.h>

static int hg_thread_mutex_init_type(hg_thread_mutex_t *mutex, int type);
static int hg_thread_result(int error);

void hg_thread_init(hg_thread_t *thread)
{
    *thread = 0;
}

int hg_thread_create(hg_thread_t *thread, hg_thread_func_t f, void *data)
{
    return hg_thread_result(pthread_create(thread, NULL, f, data));
}

void hg_thread_exit(hg_thread_ret_t ret)
{
    pthread_exit(ret);
}

int hg_thread_join(hg_thread_t thread)
{
    return hg_thread_result(pthread_join(thread, NULL));
}

int hg_thread_cancel(hg_thread_t thread)
{
    return hg_thread_result(pthread_cancel(thread));
}

int hg_thread_yield(void)
{
    return hg_thread_result(sched_yield());
}

int hg_thread_key_create(hg_thread_key_t *key)
{
    return hg_thread_result(key != NULL ? pthread_key_create(key, NULL) : -1);
}

int hg_thread_key_delete(hg_thread_key_t key)
{
    return hg_thread_result(pthread_key_delete(key));
}

int hg_thread_getaffinity(hg_thread_t thread, hg_cpu_set_t *cpu_mask)
{
    return hg_thread_result(pthread_getaffinity_np(thread, sizeof(*cpu_mask), cpu_mask));
}

int hg_thread_setaffinity(hg_thread_t thread, const hg_cpu_set_t *cpu_mask)
{
    return hg_thread_result(pthread_setaffinity_np(thread, sizeof(*cpu_mask), cpu_mask));
}

int hg_thread_mutex_init(hg_thread_mutex_t *mutex)
{
    return hg_thread_mutex_init_type(mutex, PTHREAD_MUTEX_NORMAL);
}

int hg_thread_mutex_init_fast(hg_thread_mutex_t *mutex)
{
    return hg_thread_mutex_init_type(mutex, PTHREAD_MUTEX_ADAPTIVE_NP);
}

int hg_thread_mutex_destroy(hg_thread_mutex_t *mutex)
{
    return hg_thread_result(pthread_mutex_destroy(mutex));
}

int hg_thread_spin_init(hg_thread_spin_t *lock)
{
    return hg_thread_result(pthread_spin_init(lock, PTHREAD_PROCESS_PRIVATE));
}

int hg_thread_spin_destroy(hg_thread_spin_t *lock)
{
    return hg_thread_result(pthread_spin_destroy(lock));
}

int hg_thread_rwlock_init(hg_thread_rwlock_t *rwlock)
{
    return hg_thread_result(pthread_rwlock_init(rwlock, NULL));
}

int hg_thread_rwlock_destroy(hg_thread_rwlock_t *rwlock)
{
    return hg_thread_result(pthread_rwlock_destroy(rwlock));
}

/* By the clock that is never set back, as the time limit of hg_thread_cond_timedwait() is. */
int hg_thread_cond_init(hg_thread_cond_t *cond)
{
    pthread_condattr_t attr;
    int error = pthread_condattr_init(&attr);

    if (error != 0)
        return HG_UTIL_FAIL;
    error = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (error == 0)
        error = pthread_cond_init(cond, &attr);
    (void) pthread_condattr_destroy(&attr);
    return hg_thread_result(error);
}

int hg_thread_cond_destroy(hg_thread_cond_t *cond)
{
    return hg_thread_result(pthread_cond_destroy(cond));
}

int hg_thread_cond_timedwait(hg_thread_cond_t *cond, hg_thread_mutex_t *mutex, unsigned int timeout)
{
    struct timespec until;

    (void) clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout / 1000;
    until.tv_nsec += (long) (timeout % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return hg_thread_result(pthread_cond_timedwait(cond, mutex, &until));
}

static int hg_thread_mutex_init_type(hg_thread_mutex_t *mutex, int type)
{
    pthread_mutexattr_t attr;
    int error = pthread_mutexattr_init(&attr);

    if (error != 0)
        return HG_UTIL_FAIL;
    error = pthread_mutexattr_settype(&attr, type);
    if (error == 0)
        error = pthread_mutex_init(mutex, &attr);
    (void) pthread_mutexattr_destroy(&attr);
    return hg_thread_result(error);
}

static int hg_thread_result(int error)
{
    return error == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}
