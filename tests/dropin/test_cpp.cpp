// SPDX-License-Identifier: BSD-3-Clause
// The utilities as a C++ program uses them: initializers, macros and inline functions.
#include "mercury_atomic.h"
#include "mercury_atomic_queue.h"
#include "mercury_hash_table.h"
#include "mercury_log.h"
#include "mercury_thread.h"
#include "mercury_thread_condition.h"
#include "mercury_thread_pool.h"
#include "mercury_thread_rwlock.h"
#include "mercury_thread_spin.h"
#include "mercury_time.h"

#include <cstdio>

HG_LOG_DECL_REGISTER(cpp);

static hg_atomic_int32_t counter = HG_ATOMIC_VAR_INIT(0);
static hg_thread_mutex_t mutex = HG_THREAD_MUTEX_INITIALIZER;

static HG_THREAD_RETURN_TYPE work(void *arg)
{
    hg_thread_mutex_lock(&mutex);
    hg_atomic_incr32(static_cast<hg_atomic_int32_t *>(arg));
    hg_thread_mutex_unlock(&mutex);
    return nullptr;
}

int main()
{
    hg_thread_pool_t *pool = nullptr;
    struct hg_thread_work items[10] = {};
    hg_atomic_int64_t large;
    hg_time_t now;

    hg_atomic_init64(&large, 1);
    if (!hg_atomic_cas64(&large, 1, 2) || hg_atomic_get64(&large) != 2)
        return 1;
    if (hg_thread_pool_init(2, &pool) != HG_UTIL_SUCCESS)
        return 1;
    for (struct hg_thread_work &item : items) {
        item.func = work;
        item.args = &counter;
        hg_thread_pool_post(pool, &item);
    }
    if (hg_thread_pool_destroy(pool) != HG_UTIL_SUCCESS || hg_atomic_get32(&counter) != 10)
        return 1;
    HG_LOG_WRITE(cpp, HG_LOG_LEVEL_DEBUG, "%d", 1);
    return hg_time_get_current(&now) == HG_UTIL_SUCCESS && !hg_time_less(now, now) ? 0 : 1;
}
