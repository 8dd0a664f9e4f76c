/* SPDX-License-Identifier: BSD-3-Clause */
/* Target and origin of integration tests, each a process on a simulated host (hosts.h). One network
 * joins the two hosts; the target runs the service. */
#ifndef TESTS_INTEGRATION_HOSTS_PAIR_H
#define TESTS_INTEGRATION_HOSTS_PAIR_H

#include "child.h"

#define HOSTS_TARGET "10.77.0.1"
#define HOSTS_ORIGIN "10.77.0.2"

/*
 * Starts this program in the roles "target" and "origin", each with an init string and another
 * argument (NULL: none). Waits at most `timeout_ms` for host_begin() of each, then joins their
 * hosts.
 */
void hosts_start(struct child *target, struct child *origin, const char *target_init,
                 const char *origin_init, const char *argument, int timeout_ms);

/* Called in such a process: enters its host, reports that to the test, and reads the test's next
 * line. */
bool host_begin(char *line, size_t size);

/* The role of the target: opens the service when the test says so, prints its address, and serves
 * until the test says stop. Returns the exit code. */
int host_serve(const char *init_string, const char *key);

#endif
