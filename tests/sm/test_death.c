/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a process: a zombie counts as dead, and an idle process does not wake up. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* A killed process counts as dead although it was not reaped. */
static void a_zombie_counts_as_dead(void **state)
{
    struct event event = {0};
    uint8_t buf[64];
    struct child child;
    struct end end, reaper;
    na_addr_t *peer;
    na_op_id_t *op;

    (void) state;
    child_start(&child, "na+sm", "plain");
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_expected(&end, &event, buf, sizeof(buf), peer, 1, op), NA_SUCCESS);
    (void) kill(child.pid, SIGKILL);
    assert_true(event_wait(&end, &event, 1000));
    assert_int_equal(event.ret, NA_HOSTUNREACH);
    child_kill(&child);
    NA_Op_destroy(end.na_class, op);
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    end_open(&reaper, "na+sm", NULL); /* opening an endpoint removes what the killed process left */
    end_close(&reaper);
    check_clean();
}

/* Without outstanding operations there is no timer: an idle process makes no voluntary context
 * switch. */
static void an_idle_process_does_not_tick(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;
    uint8_t reply[64];
    size_t size = sizeof(reply);
    char path[64], line[256];
    long switches[2] = {0, 0};

    (void) state;
    child_start(&child, "na+sm", "idle");
    end_open(&end, "na+sm", NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_ECHO, 0, 0, 0, reply, &size), NA_SUCCESS);
    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) child.pid);
    for (int i = 0; i < 2; i++) {
        FILE *file;

        end_progress(&end, i == 0 ? 100 : 2000);
        file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL)
            (void) sscanf(line, "voluntary_ctxt_switches: %ld", &switches[i]);
        (void) fclose(file);
    }
    assert_in_range(switches[1] - switches[0], 0, 6); /* the peer's own timeouts of a second */
    NA_Addr_free(end.na_class, peer);
    end_close(&end);
    child_stop(&child);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zombie_counts_as_dead),
        cmocka_unit_test(an_idle_process_does_not_tick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
