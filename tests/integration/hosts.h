/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts for integration tests: processes in network namespaces of their own, joined by a cable that
 * can be pulled. Nothing of it has a name outside of the processes, so nothing is left when they
 * end.
 */
#ifndef TESTS_INTEGRATION_HOSTS_H
#define TESTS_INTEGRATION_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Makes sure that this process may make namespaces: as it is for root, inside of a new user
 * namespace for others. False with the reason when the system refuses.
 */
bool hosts_possible(char *reason, size_t size);

/* Moves the calling process into a network namespace of its own, with only a loopback device. */
bool host_enter(void);

/* Joins the namespaces of two processes by a cable: each end is named `cable` and has its address
 * ("10.77.0.1/24"). */
bool hosts_join(pid_t host1, const char *address1, pid_t host2, const char *address2);

/*
 * Has what a host sends to an address vanish without a word, or not any more: it goes to a network
 * card that nobody has, or to the one of the other host.
 */
bool host_silence(pid_t host, const char *address, bool silent);

/* Pulls or plugs the cable at one end. */
bool host_cable(pid_t host, bool plugged);

#endif
