/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulated hosts for integration tests: processes in network namespaces of their own, joined by a
 * cable (a veth pair) that can be pulled. The namespaces have no names and vanish when the
 * processes end.
 */
#ifndef TESTS_INTEGRATION_HOSTS_H
#define TESTS_INTEGRATION_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Checks that this process may create namespaces: root may, another user enters a new user
 * namespace for that. False, with the reason, when the system refuses. */
bool hosts_possible(char *reason, size_t size);

/* Moves the calling process into a network namespace of its own, with only a loopback device. */
bool host_enter(void);

/* Joins the network namespaces of two processes by a cable. Each end is named `cable` and gets its
 * address ("10.77.0.1/24"). Returns when both ends are up. */
bool hosts_join(pid_t host1, const char *address1, pid_t host2, const char *address2);

/* Makes the packets that a host sends to an address vanish without an error, or ends that: the
 * neighbour entry names a MAC address that no card has, or the one of the other host. */
bool host_silence(pid_t host, const char *address, bool silent);

/* Pulls or plugs the cable at one end. */
bool host_cable(pid_t host, bool plugged);

#endif
