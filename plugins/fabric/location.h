/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where to listen and whom to reach, as people write it: host names, IPv4, IPv6 with a scope,
 * interfaces, ports; and the sockets' addresses that it means.
 */

#ifndef FABRIC_LOCATION_H
#define FABRIC_LOCATION_H

#include "na_plugin.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* The longest reason that the functions below write, NUL included. */
#define LOCATION_REASON_MAX 256

struct location {
    char host[256]; /* name, address without brackets, or interface; empty when none was given */
    uint16_t port;
    uint16_t has_port;
};

/*
 * Takes "", "host", "host:port", ":port", "[v6]", "[v6%scope]:port". NA_PLUGIN_INVALID_ARG with the
 * reason when it is malformed: a port above 65535, letters in a port, unbalanced brackets, a host
 * too long.
 */
int32_t location_parse(const char *text, struct location *location, char *reason);

/*
 * The address to bind: of the interface, the address or the name given, else of the interface in
 * `ip_subnet` ("10.1.0.0/16", NULL for none), else the first that is up and not loopback, else
 * loopback. `addr_format` is NA_PLUGIN_ADDR_*. NA_PLUGIN_NODEV or NA_PLUGIN_ADDRNOTAVAIL with the
 * reason when nothing of this machine is meant.
 */
int32_t location_resolve_local(const struct location *location, const char *ip_subnet,
                               uint32_t addr_format, struct sockaddr_storage *address,
                               char *reason);

/* The address to reach, for which host and port are needed. NA_PLUGIN_NOENTRY: no such name. */
int32_t location_resolve_peer(const struct location *location, uint32_t addr_format,
                              struct sockaddr_storage *address, char *reason);

/*
 * The same for names that location_format wrote, here or at a peer: what is no number is refused
 * and not looked up, since that asks others and waits for them.
 */
int32_t location_resolve_formatted(const struct location *location, uint32_t addr_format,
                                   struct sockaddr_storage *address, char *reason);

/* "1.2.3.4:5" or "[v6%scope]:5"; size at least 128. */
void location_format(const struct sockaddr_storage *address, char *text, size_t size);

socklen_t location_length(const struct sockaddr_storage *address);

#endif /* FABRIC_LOCATION_H */
