/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing and formatting of locations, and their resolution to socket addresses. */

#include "kit_base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "10.1.0.0/16" */
struct location_subnet {
    int family; /* AF_UNSPEC: there is none */
    uint8_t bytes[16];
    uint32_t bits;
};

/* Conditions for an address of this machine. */
struct location_choice {
    const char *interface; /* NULL: any that is up and not loopback, else loopback */
    int family;            /* AF_UNSPEC: both, IPv4 first */
    struct location_subnet subnet;
};

static int32_t location_parse_bracketed(const char *text, struct kit_location *location,
                                        const char **rest_p, char *reason);
static int32_t location_parse_port(const char *text, struct kit_location *location, char *reason);
static int32_t location_parse_subnet(const char *text, struct location_subnet *subnet,
                                     char *reason);
static int32_t location_choose(const struct location_choice *choice,
                               struct sockaddr_storage *address, char *reason);
static int location_rank(const struct ifaddrs *entry, const struct location_choice *choice);
static bool location_in_subnet(const struct sockaddr *address,
                               const struct location_subnet *subnet);
static int32_t location_explain_choice(const struct location_choice *choice, char *reason);
static int32_t location_resolve_own(const struct kit_location *location, int family,
                                    struct sockaddr_storage *address, char *reason);
static bool location_is_of_other_family(const char *host, int family);
static int32_t location_resolve_remote(const struct kit_location *location, uint32_t addr_format,
                                       bool may_ask, struct sockaddr_storage *address,
                                       char *reason);
static struct addrinfo *location_resolve(const char *host, int family, bool may_ask, int *error_p);
static bool location_is_of_many(const struct sockaddr *address);
static int location_try_bind(const struct sockaddr *address, socklen_t length);
static bool location_is_wildcard(const struct kit_location *location, int *family);
static int location_family(uint32_t addr_format);
static void location_set_port(struct sockaddr_storage *address, uint16_t port);

int32_t kit_location_parse(const char *text, struct kit_location *location, char *reason)
{
    const char *rest;

    memset(location, 0, sizeof(*location));
    if (text[0] == '[') {
        int32_t ret = location_parse_bracketed(text, location, &rest, reason);

        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    } else {
        size_t length = strcspn(text, ":");

        if (length >= sizeof(location->host)) {
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "a host of %zu characters is too long",
                            length);
            return NA_PLUGIN_INVALID_ARG;
        }
        for (size_t i = 0; i < length; i++) {
            if (text[i] <= ' ' || text[i] >= 0x7f || strchr("[]/\\,;", text[i]) != NULL) {
                (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                                "'%.80s' has a character that no host name, address or interface "
                                "has",
                                text);
                return NA_PLUGIN_INVALID_ARG;
            }
        }
        memcpy(location->host, text, length);
        rest = text + length;
        if (rest[0] == ':' && strchr(rest + 1, ':') != NULL) {
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                            "'%.80s' has several colons; an IPv6 address is written in brackets, "
                            "[address]:port",
                            text);
            return NA_PLUGIN_INVALID_ARG;
        }
    }
    if (rest[0] == '\0')
        return NA_PLUGIN_SUCCESS;
    return location_parse_port(rest + 1, location, reason);
}

int32_t kit_location_resolve_local(const struct kit_location *location, const char *ip_subnet,
                                   uint32_t addr_format, struct sockaddr_storage *address,
                                   char *reason)
{
    struct location_choice choice = {.family = location_family(addr_format)};
    int32_t ret;

    memset(address, 0, sizeof(*address));
    if (ip_subnet != NULL && ip_subnet[0] != '\0') {
        ret = location_parse_subnet(ip_subnet, &choice.subnet, reason);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    if (location_is_wildcard(location, &choice.family)) {
        ret = location_choose(&choice, address, reason);
    } else if (if_nametoindex(location->host) != 0) {
        choice.interface = location->host;
        ret = location_choose(&choice, address, reason);
    } else {
        ret = location_resolve_own(location, choice.family, address, reason);
    }
    if (ret == NA_PLUGIN_SUCCESS)
        location_set_port(address, location->port);
    return ret;
}

int32_t kit_location_resolve_peer(const struct kit_location *location, uint32_t addr_format,
                                  struct sockaddr_storage *address, char *reason)
{
    return location_resolve_remote(location, addr_format, true, address, reason);
}

int32_t kit_location_resolve_formatted(const struct kit_location *location, uint32_t addr_format,
                                       struct sockaddr_storage *address, char *reason)
{
    return location_resolve_remote(location, addr_format, false, address, reason);
}

static int32_t location_resolve_remote(const struct kit_location *location, uint32_t addr_format,
                                       bool may_ask, struct sockaddr_storage *address, char *reason)
{
    const int family = location_family(addr_format);
    struct addrinfo *found;
    int error = 0;

    memset(address, 0, sizeof(*address));
    if (location->host[0] == '\0' || location->port == 0) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "an address to reach needs a host and a port, host:port");
        return NA_PLUGIN_INVALID_ARG;
    }
    found = location_resolve(location->host, family, may_ask, &error);
    if (found == NULL) {
        if (location_is_of_other_family(location->host, family))
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                            "'%.80s' cannot be reached from an endpoint of %s: open it at an "
                            "address of the other family",
                            location->host, family == AF_INET6 ? "IPv6" : "IPv4");
        else
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "'%.80s' is no known host (%s)",
                            location->host, gai_strerror(error));
        return error == EAI_MEMORY ? NA_PLUGIN_NOMEM : NA_PLUGIN_NOENTRY;
    }
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    location_set_port(address, location->port);
    return NA_PLUGIN_SUCCESS;
}

static bool location_is_of_other_family(const char *host, int family)
{
    struct in_addr address;

    return family == AF_INET ? strchr(host, ':') != NULL
                             : family == AF_INET6 && inet_pton(AF_INET, host, &address) == 1;
}

void kit_location_format(const struct sockaddr_storage *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    char scope[IF_NAMESIZE + 1] = "";

    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) address;

        (void) inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        if (in6->sin6_scope_id != 0) {
            char name[IF_NAMESIZE];

            if (if_indextoname(in6->sin6_scope_id, name) != NULL)
                (void) snprintf(scope, sizeof(scope), "%%%s", name);
            else
                (void) snprintf(scope, sizeof(scope), "%%%u", in6->sin6_scope_id);
        }
        (void) snprintf(text, size, "[%s%s]:%u", host, scope, ntohs(in6->sin6_port));
    } else if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) address;

        (void) inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void) snprintf(text, size, "%s:%u", host, ntohs(in->sin_port));
    } else {
        (void) snprintf(text, size, "?");
    }
}

socklen_t kit_location_length(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

/* Parses "[v6]" or "[v6%scope]"; `*rest_p` is the rest, which is empty or begins with a colon. */
static int32_t location_parse_bracketed(const char *text, struct kit_location *location,
                                        const char **rest_p, char *reason)
{
    const char *end = strchr(text, ']');
    char address[sizeof(location->host)];
    struct in6_addr in6;
    size_t length;

    if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "the brackets of '%.80s' are not balanced; [address]:port is expected",
                        text);
        return NA_PLUGIN_INVALID_ARG;
    }
    length = (size_t) (end - text) - 1;
    if (length < sizeof(address)) {
        memcpy(address, text + 1, length);
        address[length] = '\0';
        address[strcspn(address, "%")] = '\0';
    }
    if (length >= sizeof(address) || inet_pton(AF_INET6, address, &in6) != 1) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "what is in the brackets of '%.80s' is not an IPv6 address", text);
        return NA_PLUGIN_INVALID_ARG;
    }
    memcpy(location->host, text + 1, length);
    *rest_p = end + 1;
    return NA_PLUGIN_SUCCESS;
}

static int32_t location_parse_port(const char *text, struct kit_location *location, char *reason)
{
    uint32_t port = 0;

    if (text[0] == '\0') {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "no port follows the colon");
        return NA_PLUGIN_INVALID_ARG;
    }
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9') {
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "the port '%.40s' is not a number",
                            text);
            return NA_PLUGIN_INVALID_ARG;
        }
        port = port * 10 + (uint32_t) (*digit - '0');
        if (port > UINT16_MAX) {
            (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                            "the port %.40s is too large, 65535 is the largest", text);
            return NA_PLUGIN_INVALID_ARG;
        }
    }
    location->port = (uint16_t) port;
    location->has_port = 1;
    return NA_PLUGIN_SUCCESS;
}

static int32_t location_parse_subnet(const char *text, struct location_subnet *subnet, char *reason)
{
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "/");
    uint32_t width;
    char *end = NULL;
    unsigned long bits;

    if (text[length] == '/' && length < sizeof(address)) {
        memcpy(address, text, length);
        address[length] = '\0';
        if (inet_pton(AF_INET, address, subnet->bytes) == 1)
            subnet->family = AF_INET;
        else if (inet_pton(AF_INET6, address, subnet->bytes) == 1)
            subnet->family = AF_INET6;
    }
    if (subnet->family != AF_UNSPEC && text[length + 1] >= '0' && text[length + 1] <= '9') {
        width = subnet->family == AF_INET ? 32 : 128;
        bits = strtoul(text + length + 1, &end, 10);
        subnet->bits = (uint32_t) bits;
        if (*end == '\0' && bits <= width)
            return NA_PLUGIN_SUCCESS;
    }
    (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                    "the subnet '%.80s' is not of the form address/bits, such as 10.1.0.0/16",
                    text);
    return NA_PLUGIN_INVALID_ARG;
}

/* Returns the address with the highest rank of this machine's interfaces. */
static int32_t location_choose(const struct location_choice *choice,
                               struct sockaddr_storage *address, char *reason)
{
    struct ifaddrs *list = NULL;
    const struct ifaddrs *best = NULL;
    int best_rank = 0;
    int32_t ret;

    if (getifaddrs(&list) != 0) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "the interfaces cannot be listed (%s)",
                        strerror(errno));
        return NA_PLUGIN_NODEV;
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        int rank = location_rank(entry, choice);

        if (rank > best_rank) {
            best = entry;
            best_rank = rank;
        }
    }
    if (best != NULL)
        memcpy(address, best->ifa_addr,
               best->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                    : sizeof(struct sockaddr_in6));
    ret = best != NULL ? NA_PLUGIN_SUCCESS : location_explain_choice(choice, reason);
    freeifaddrs(list);
    return ret;
}

/* Returns 0 if the address does not meet the conditions; otherwise a higher rank is better. */
static int location_rank(const struct ifaddrs *entry, const struct location_choice *choice)
{
    const struct sockaddr *address = entry->ifa_addr;
    int rank = 1;

    if (address == NULL || (entry->ifa_flags & IFF_UP) == 0 ||
        (address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        (choice->family != AF_UNSPEC && choice->family != address->sa_family))
        return 0;
    if (choice->interface != NULL && strcmp(entry->ifa_name, choice->interface) != 0)
        return 0;
    if (choice->subnet.family != AF_UNSPEC && !location_in_subnet(address, &choice->subnet))
        return 0;
    if (address->sa_family == AF_INET)
        rank += 4;
    else if (!IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *) address)->sin6_addr))
        rank += 2;
    if ((entry->ifa_flags & IFF_LOOPBACK) == 0)
        rank += 8;
    if ((entry->ifa_flags & IFF_RUNNING) != 0)
        rank += 16 * ((entry->ifa_flags & IFF_LOOPBACK) == 0);
    return rank;
}

static bool location_in_subnet(const struct sockaddr *address, const struct location_subnet *subnet)
{
    const uint8_t *bytes;

    if (address->sa_family != subnet->family)
        return false;
    if (address->sa_family == AF_INET)
        bytes = (const uint8_t *) &((const struct sockaddr_in *) address)->sin_addr;
    else
        bytes = ((const struct sockaddr_in6 *) address)->sin6_addr.s6_addr;
    for (uint32_t bit = 0; bit < subnet->bits; bit += 8) {
        uint32_t left = subnet->bits - bit;
        uint32_t mask = left >= 8 ? 0xffu : (0xffu << (8 - left)) & 0xffu;

        if (((bytes[bit / 8] ^ subnet->bytes[bit / 8]) & mask) != 0)
            return false;
    }
    return true;
}

/* Writes why no address meets the conditions, and returns the status. */
static int32_t location_explain_choice(const struct location_choice *choice, char *reason)
{
    const char *kind = choice->family == AF_INET    ? "IPv4 "
                       : choice->family == AF_INET6 ? "IPv6 "
                                                    : "";

    if (choice->interface != NULL)
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "interface '%.40s' is down or has no %saddress%s", choice->interface, kind,
                        choice->subnet.family != AF_UNSPEC ? " of the subnet that is wanted" : "");
    else if (choice->subnet.family != AF_UNSPEC)
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "no interface that is up has an %saddress of the subnet that is wanted",
                        kind);
    else
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "no interface that is up has an %saddress",
                        kind);
    return NA_PLUGIN_ADDRNOTAVAIL;
}

/* Returns the first address of a host that can be bound here, preferring those not of loopback. */
static int32_t location_resolve_own(const struct kit_location *location, int family,
                                    struct sockaddr_storage *address, char *reason)
{
    struct addrinfo *found;
    const struct addrinfo *best = NULL;
    int error = 0, bind_error = 0;
    bool is_of_many = false;

    found = location_resolve(location->host, family, true, &error);
    if (found == NULL) {
        (void) snprintf(reason, KIT_LOCATION_REASON_MAX,
                        "'%.80s' is no interface, address or host that is known here (%s)",
                        location->host, gai_strerror(error));
        return error == EAI_MEMORY ? NA_PLUGIN_NOMEM : NA_PLUGIN_NODEV;
    }
    for (const struct addrinfo *entry = found; entry != NULL; entry = entry->ai_next) {
        bool loopback =
            entry->ai_family == AF_INET &&
            *(const uint8_t *) &((const struct sockaddr_in *) entry->ai_addr)->sin_addr == 127;
        int own;

        is_of_many = location_is_of_many(entry->ai_addr);
        own = is_of_many ? EADDRNOTAVAIL : location_try_bind(entry->ai_addr, entry->ai_addrlen);

        if (own != 0) {
            bind_error = own;
            continue;
        }
        if (best == NULL || !loopback)
            best = entry;
        if (!loopback)
            break;
    }
    if (best != NULL)
        memcpy(address, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(found);
    if (best != NULL)
        return NA_PLUGIN_SUCCESS;
    (void) snprintf(reason, KIT_LOCATION_REASON_MAX, "'%.80s' is no address of this machine (%s)%s",
                    location->host, strerror(bind_error),
                    is_of_many             ? "; multicast and broadcast are not connected to"
                    : bind_error == EINVAL ? "; a link-local one needs its interface, %interface"
                                           : "");
    return NA_PLUGIN_ADDRNOTAVAIL;
}

/* A numeric address needs no name resolution; a name is resolved if may_ask is set. */
static struct addrinfo *location_resolve(const char *host, int family, bool may_ask, int *error_p)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    hints.ai_flags = AI_NUMERICHOST;
    *error_p = getaddrinfo(host, NULL, &hints, &found);
    if (*error_p == EAI_NONAME && may_ask) {
        hints.ai_flags = 0;
        *error_p = getaddrinfo(host, NULL, &hints, &found);
    }
    return *error_p == 0 ? found : NULL;
}

/* True for multicast and broadcast, to which a socket can be bound, but no peer can connect. */
static bool location_is_of_many(const struct sockaddr *address)
{
    uint32_t number;

    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *) address)->sin6_addr);
    if (address->sa_family != AF_INET)
        return false;
    number = ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr);
    return IN_MULTICAST(number) || number == INADDR_BROADCAST;
}

/* Returns the error of binding, 0: none. Only the system knows about namespaces and scopes. */
static int location_try_bind(const struct sockaddr *address, socklen_t length)
{
    int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int error = 0;

    if (fd < 0)
        return errno;
    if (bind(fd, address, length) != 0)
        error = errno;
    (void) close(fd);
    return error;
}

/* True without a host, or with a wildcard address, which also sets the family. */
static bool location_is_wildcard(const struct kit_location *location, int *family)
{
    struct in6_addr in6;
    struct in_addr in;

    if (location->host[0] == '\0')
        return true;
    if (inet_pton(AF_INET, location->host, &in) == 1 && in.s_addr == htonl(INADDR_ANY) &&
        *family != AF_INET6) {
        *family = AF_INET;
        return true;
    }
    if (inet_pton(AF_INET6, location->host, &in6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&in6) &&
        *family != AF_INET) {
        *family = AF_INET6;
        return true;
    }
    return false;
}

static int location_family(uint32_t addr_format)
{
    if (addr_format == NA_PLUGIN_ADDR_IPV4)
        return AF_INET;
    return addr_format == NA_PLUGIN_ADDR_IPV6 ? AF_INET6 : AF_UNSPEC;
}

static void location_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *) address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *) address)->sin_port = htons(port);
}
