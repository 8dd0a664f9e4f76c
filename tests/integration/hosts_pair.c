/* SPDX-License-Identifier: BSD-3-Clause */
#include "hosts_pair.h"

#include "hosts.h"
#include "service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

void hosts_start(struct child *target, struct child *origin, const char *target_init,
                 const char *origin_init, const char *argument, int timeout_ms)
{
    char line[64];

    assert_true(child_start(target, (const char *const[]){"target", target_init, argument, NULL}));
    assert_true(child_start(origin, (const char *const[]){"origin", origin_init, argument, NULL}));
    assert_true(child_read_line(target, line, sizeof(line), timeout_ms));
    assert_string_equal(line, "entered");
    assert_true(child_read_line(origin, line, sizeof(line), timeout_ms));
    assert_string_equal(line, "entered");
    assert_true(hosts_join(target->pid, HOSTS_TARGET "/24", origin->pid, HOSTS_ORIGIN "/24"));
}

bool host_begin(char *line, size_t size)
{
    return host_enter() && printf("entered\n") > 0 && fflush(stdout) == 0 && child_hear(line, size);
}

int host_serve(const char *init_string, const char *key)
{
    struct service service;
    char line[64];

    if (!host_begin(line, sizeof(line)) ||
        !service_open_with_key(&service, init_string, true, key) ||
        !service_print_address(&service))
        return 1;
    while (!child_is_told())
        service_run(&service, NULL, 20);
    /* A transfer for an origin that is gone has ended by now, or ends in time. */
    return service_close(&service) ? 0 : 2;
}
