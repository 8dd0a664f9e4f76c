/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs with faults: each RPC that was issued completes once, with several threads. */

#include "mercury.h"
#include "mercury_proc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RPC_ID  77
#define RPCS    64 /* in flight */
#define GIVE_UP 50 /* ms until an RPC is cancelled */
#define WAIT_MS 60000

struct service {
    hg_class_t *hg_class;
    hg_context_t *context;
    atomic_bool stop;
    pthread_t thread;
};

struct rpc {
    hg_handle_t handle;
    uint64_t issued_ms;
    atomic_int in_flight;
    uint32_t sent;
};

struct sums {
    atomic_uint issued, succeeded, cancelled, failed, wrong;
};

static struct sums sums;
static struct rpc rpcs[RPCS];

static uint64_t now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static hg_return_t proc_number(hg_proc_t proc, void *data)
{
    return hg_proc_uint32_t(proc, data);
}

static hg_return_t echo(hg_handle_t handle)
{
    uint32_t number = 0;

    if (HG_Get_input(handle, &number) == HG_SUCCESS) {
        number++;
        (void) HG_Respond(handle, NULL, NULL, &number);
        (void) HG_Free_input(handle, &number);
    }
    return HG_Destroy(handle);
}

static void service_progress(struct service *service, unsigned int timeout_ms)
{
    unsigned int count = 0;

    (void) HG_Progress(service->context, timeout_ms);
    do
        (void) HG_Trigger(service->context, 0, 64, &count);
    while (count > 0);
}

static void *service_run(void *arg)
{
    struct service *service = arg;

    while (!atomic_load(&service->stop))
        service_progress(service, 20);
    return NULL;
}

static void service_open(struct service *service, const char *options)
{
    const char *transport = getenv("AMALGAM_TEST_INIT");
    char init[512];

    (void) snprintf(init, sizeof(init), "fault+%s://?%s", transport != NULL ? transport : "na+sm",
                    options);
    memset(service, 0, sizeof(*service));
    service->hg_class = HG_Init(init, HG_TRUE);
    assert_non_null(service->hg_class);
    service->context = HG_Context_create(service->hg_class);
    assert_non_null(service->context);
    assert_int_equal(HG_Register(service->hg_class, RPC_ID, proc_number, proc_number, echo),
                     HG_SUCCESS);
}

/* Over some transports a response to an origin that is gone takes some time to fail. */
static void service_close(struct service *service)
{
    const uint64_t until = now_ms() + WAIT_MS;
    hg_return_t ret;

    do {
        for (int i = 0; i < 50; i++)
            service_progress(service, 1);
        ret = HG_Context_destroy(service->context);
    } while (ret == HG_BUSY && now_ms() < until);
    assert_int_equal(ret, HG_SUCCESS);
    assert_int_equal(HG_Finalize(service->hg_class), HG_SUCCESS);
}

static hg_return_t ended(const struct hg_cb_info *info)
{
    struct rpc *rpc = info->arg;
    uint32_t number = 0;

    if (info->ret == HG_SUCCESS && HG_Get_output(rpc->handle, &number) == HG_SUCCESS) {
        atomic_fetch_add(number == rpc->sent + 1 ? &sums.succeeded : &sums.wrong, 1);
        (void) HG_Free_output(rpc->handle, &number);
    } else {
        atomic_fetch_add(info->ret == HG_CANCELED ? &sums.cancelled : &sums.failed, 1);
    }
    atomic_fetch_sub(&rpc->in_flight, 1);
    return HG_SUCCESS;
}

/* Issues `count` RPCs, cancels those that take too long, and waits for all. None is cancelled
 * before the first one has succeeded, because connecting takes any time on a busy machine. */
static void run(const char *origin_options, const char *target_options, unsigned int count)
{
    struct service origin, target;
    hg_addr_t self, addr;
    uint64_t begin;
    hg_size_t size;
    char address[512];
    unsigned int in_flight, tried = 0;

    memset(&sums, 0, sizeof(sums));
    service_open(&origin, origin_options);
    service_open(&target, target_options);
    size = sizeof(address);
    assert_int_equal(HG_Addr_self(target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(target.hg_class, address, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(target.hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup2(origin.hg_class, address, &addr), HG_SUCCESS);
    assert_int_equal(pthread_create(&target.thread, NULL, service_run, &target), 0);
    for (unsigned int i = 0; i < RPCS; i++)
        assert_int_equal(HG_Create(origin.context, addr, RPC_ID, &rpcs[i].handle), HG_SUCCESS);
    begin = now_ms();
    do {
        in_flight = 0;
        for (unsigned int i = 0; i < RPCS; i++) {
            struct rpc *rpc = &rpcs[i];

            if (atomic_load(&rpc->in_flight) == 0 && tried < count) {
                tried++;
                rpc->sent = atomic_load(&sums.issued);
                rpc->issued_ms = now_ms();
                atomic_store(&rpc->in_flight, 1);
                if (HG_Forward(rpc->handle, ended, rpc, &rpc->sent) == HG_SUCCESS)
                    atomic_fetch_add(&sums.issued, 1);
                else
                    atomic_store(&rpc->in_flight, 0);
            } else if (atomic_load(&rpc->in_flight) > 0 && sums.succeeded != 0 &&
                       now_ms() - rpc->issued_ms > GIVE_UP) {
                assert_int_equal(HG_Cancel(rpc->handle), HG_SUCCESS);
            }
            in_flight += atomic_load(&rpc->in_flight) != 0;
        }
        service_progress(&origin, 1);
        assert_true(now_ms() - begin < WAIT_MS);
    } while (in_flight > 0 || tried < count);
    print_message("%s: issued %u = succeeded %u + cancelled %u + failed %u\n", origin_options,
                  sums.issued, sums.succeeded, sums.cancelled, sums.failed);
    for (unsigned int i = 0; i < RPCS; i++) {
        assert_int_equal(rpcs[i].in_flight, 0);
        (void) HG_Destroy(rpcs[i].handle);
    }
    atomic_store(&target.stop, true);
    (void) pthread_join(target.thread, NULL);
    (void) HG_Addr_free(origin.hg_class, addr);
    service_close(&origin);
    service_close(&target);
    assert_int_equal(sums.wrong, 0);
    assert_int_equal(sums.issued, sums.succeeded + sums.cancelled + sums.failed);
    assert_int_not_equal(sums.issued, 0);
}

static void delays_and_reordering_lose_nothing(void **state)
{
    (void) state;
    run("delay_us=0:1000&reorder=0.2&seed=1", "delay_us=0:1000&reorder=0.2&seed=2", 700);
    assert_int_not_equal(sums.succeeded, 0);
    assert_int_equal(sums.failed, 0);
}

static void each_rpc_ends_though_messages_are_lost(void **state)
{
    (void) state;
    run("drop=0.05&seed=3", "drop=0.05&seed=4", 700);
    assert_int_not_equal(sums.cancelled, 0);
    assert_int_not_equal(sums.succeeded, 0);
    assert_int_equal(sums.failed, 0);
}

static void each_rpc_ends_though_cancels_are_refused(void **state)
{
    (void) state;
    run("drop=0.05&delay_us=0:300&cancel_fails=0.5&cancel_us=20000&seed=5", "drop=0.05&seed=6",
        700);
    assert_int_not_equal(sums.cancelled, 0);
    assert_int_not_equal(sums.succeeded, 0);
    assert_int_equal(sums.failed, 0);
}

static void each_rpc_ends_though_the_origin_dies(void **state)
{
    (void) state;
    run("die_after=500&seed=7", "seed=8", 1500);
    assert_int_not_equal(sums.succeeded, 0);
    assert_int_not_equal(sums.failed, 0);
}

static void each_rpc_ends_though_the_target_dies(void **state)
{
    (void) state;
    run("seed=9", "die_after=500&seed=10", 1500);
    assert_int_not_equal(sums.succeeded, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_and_reordering_lose_nothing),
        cmocka_unit_test(each_rpc_ends_though_messages_are_lost),
        cmocka_unit_test(each_rpc_ends_though_cancels_are_refused),
        cmocka_unit_test(each_rpc_ends_though_the_origin_dies),
        cmocka_unit_test(each_rpc_ends_though_the_target_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
