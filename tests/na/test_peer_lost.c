/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that a plugin reports as lost, and the callback to which the core passes these reports. */

#include "na/peer_lost.h"
#include "na/transport.h"
#include "na_ext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool is_short; /* malloc() fails */

void *__wrap_malloc(size_t size)
{
    return is_short ? NULL : __real_malloc(size);
}

static na_plugin_peer_lost_fn report; /* the function that the plugin was given */
static void *report_arg;
static int released, told;

static int32_t events_set(struct na_plugin_class *plugin_class, na_plugin_peer_lost_fn function,
                          void *arg)
{
    (void) plugin_class;
    report = function;
    report_arg = arg;
    return NA_PLUGIN_SUCCESS;
}

static void addr_free(struct na_plugin_class *plugin_class, struct na_plugin_addr *addr)
{
    (void) plugin_class;
    (void) addr;
    released++;
}

static void tell(na_class_t *na_class, na_addr_t *addr, na_return_t reason, void *arg)
{
    (void) na_class;
    (void) addr;
    (void) arg;
    assert_int_equal(reason, NA_HOSTUNREACH);
    told++;
}

static void tell_once(na_class_t *na_class, na_addr_t *addr, na_return_t reason, void *arg)
{
    tell(na_class, addr, reason, arg);
    assert_int_equal(NA_Class_set_peer_lost(na_class, NULL, NULL), NA_SUCCESS);
}

static void class_open(struct na_class *na_class, struct na_transport *transport)
{
    memset(na_class, 0, sizeof(*na_class));
    memset(transport, 0, sizeof(*transport));
    transport->peer_events.peer_events_set = events_set;
    na_class->transport = transport;
    na_class->table.addr_free = addr_free;
    na_class->forks = na_forks;
    assert_int_equal(pthread_mutex_init(&na_class->lost_mutex, NULL), 0);
    released = told = 0;
}

static void lose(int count)
{
    for (int i = 0; i < count; i++)
        report(report_arg, (struct na_plugin_addr *) &released, NA_PLUGIN_HOSTUNREACH);
}

static void each_is_told_by_a_poll(void **state)
{
    struct na_transport transport;
    struct na_class na_class;

    (void) state;
    class_open(&na_class, &transport);
    assert_int_equal(NA_Class_set_peer_lost(&na_class, tell, NULL), NA_SUCCESS);
    na_peer_lost_look(&na_class);
    lose(3);
    assert_int_equal(told, 0);
    na_peer_lost_look(&na_class);
    assert_int_equal(told, 3);
    assert_int_equal(released, 3);
    lose(1);
    na_peer_lost_end(&na_class);
    assert_null(report);
    assert_int_equal(told, 3);
    assert_int_equal(released, 4);
}

static void a_callback_may_end_it(void **state)
{
    struct na_transport transport;
    struct na_class na_class;

    (void) state;
    class_open(&na_class, &transport);
    assert_int_equal(NA_Class_set_peer_lost(&na_class, tell_once, NULL), NA_SUCCESS);
    lose(3);
    na_peer_lost_look(&na_class);
    assert_int_equal(told, 1);
    assert_int_equal(released, 3);
    na_peer_lost_end(&na_class);
}

/*
 * Without memory, reports use a reserve: within the reserve none is lost, beyond it a report is
 * dropped, and no reference leaks.
 */
static void without_memory_they_are_told_too(void **state)
{
    struct na_transport transport;
    struct na_class na_class;

    (void) state;
    class_open(&na_class, &transport);
    assert_int_equal(NA_Class_set_peer_lost(&na_class, tell, NULL), NA_SUCCESS);
    for (int i = 1; i <= 3; i++) {
        lose(1);
        is_short = true;
        lose(NA_LOST_RESERVE);
        is_short = false;
        lose(1);
        na_peer_lost_look(&na_class);
        assert_int_equal(told, i * (int) (NA_LOST_RESERVE + 2));
        assert_int_equal(released, told);
    }
    is_short = true;
    lose(NA_LOST_RESERVE + 1); /* no room for the last one */
    na_peer_lost_end(&na_class);
    is_short = false;
    assert_int_equal(released, 4 * NA_LOST_RESERVE + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_told_by_a_poll),
        cmocka_unit_test(a_callback_may_end_it),
        cmocka_unit_test(without_memory_they_are_told_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
