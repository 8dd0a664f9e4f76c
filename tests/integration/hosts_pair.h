/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Target and origin of integration tests, each a process on a host of its own: one network between
 * the two, and a service at the target.
 */
#ifndef TESTS_INTEGRATION_HOSTS_PAIR_H
#define TESTS_INTEGRATION_HOSTS_PAIR_H

#include "child.h"

#define HOSTS_TARGET "10.77.0.1"
#define HOSTS_ORIGIN "10.77.0.2"

/*
 * Starts this program in the roles "target" and "origin", with an init string and another argument
 * (NULL: none), waits for host_begin() of each, at most so long, and joins their hosts.
 */
void hosts_start(struct child *target, struct child *origin, const char *target_init,
                 const char *origin_init, const char *argument, int timeout_ms);

/* In such a process: enters its host, tells the test, and hears a line of it. */
bool host_begin(char *line, size_t size);

/* The role of the target: opens its service when the test says so, prints its address, and serves
 * until it is told to stop. Its exit code. */
int host_serve(const char *init_string, const char *key);

#endif
