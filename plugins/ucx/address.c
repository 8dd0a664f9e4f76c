/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of endpoints: the address of the listening socket, or a random name if the endpoint does
 * not listen.
 */

#include "ucx.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESS_BACKLOG         1024
#define ADDRESS_CARRIER_MS      1000
#define ADDRESS_CARRIER_STEP_MS 10

static int32_t address_listen(struct na_plugin_class *na_class,
                              const struct sockaddr_storage *address);
static int32_t address_draw_name(struct na_plugin_class *na_class);
static void address_interface(const struct sockaddr_storage *address, char *device, size_t size);
static bool address_interface_find(const struct sockaddr_storage *address, char *device,
                                   size_t size);
static bool address_is_equal(const struct sockaddr *a, const struct sockaddr_storage *b);
static const char *address_of_string(const char *string);

/*
 * Chooses the endpoint's name, and listens at it if the class does. Returns in `device` the
 * interface that has the address, empty for none: UCX is to be reached through that interface.
 */
int32_t ucx_name_listen(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                        char *device, size_t device_size)
{
    char reason[KIT_LOCATION_REASON_MAX] = "";
    struct sockaddr_storage address;
    struct kit_location location;
    int32_t ret;

    device[0] = '\0';
    ret = kit_location_parse(init->address != NULL ? init->address : "", &location, reason);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_local(&location, init->ip_subnet, init->addr_format, &address,
                                         reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("cannot listen at '%.100s': %s", init->address != NULL ? init->address : "",
                      reason);
        return ret;
    }
    if (init->listen != 0 || location.host[0] != '\0')
        address_interface(&address, device, device_size);
    if (init->listen == 0)
        return address_draw_name(na_class);
    return address_listen(na_class, &address);
}

int32_t ucx_addr_lookup(struct na_plugin_class *na_class, const char *string,
                        struct na_plugin_addr **addr_p)
{
    const char *text = address_of_string(string);
    char reason[KIT_LOCATION_REASON_MAX] = "it is not of the form ucx+<transports>://host:port";
    char name[KIT_NAME_MAX];
    struct sockaddr_storage address;
    struct kit_location location;
    int32_t ret = NA_PLUGIN_INVALID_ARG;

    if (text != NULL && strncmp(text, UCX_ORIGIN_PREFIX, strlen(UCX_ORIGIN_PREFIX)) == 0)
        return kit_msg_peer_lookup(&na_class->fabric, text, NULL, 0, addr_p);
    if (text != NULL)
        ret = kit_location_parse(text, &location, reason);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_peer(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("'%.100s' is not an address: %s", string, reason);
        return ret;
    }
    kit_location_format(&address, name, sizeof(name));
    return kit_msg_peer_lookup(&na_class->fabric, name, NULL, 0, addr_p);
}

static int32_t address_listen(struct na_plugin_class *na_class,
                              const struct sockaddr_storage *address)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char text[128];
    int one = 1;

    kit_location_format(address, text, sizeof(text));
    na_class->listen_fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (na_class->listen_fd < 0) {
        UCX_LOG_ERROR("no socket to listen with: %s", strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    /* Closed connections of an earlier process do not keep the port. */
    (void) setsockopt(na_class->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(na_class->listen_fd, (const struct sockaddr *) address,
             kit_location_length(address)) != 0 ||
        listen(na_class->listen_fd, ADDRESS_BACKLOG) != 0 ||
        getsockname(na_class->listen_fd, (struct sockaddr *) &bound, &size) != 0) {
        int error = errno;

        UCX_LOG_ERROR("cannot listen at '%s': %s", text, strerror(error));
        switch (error) {
        case EADDRINUSE:
            return NA_PLUGIN_ADDRINUSE;
        case EADDRNOTAVAIL:
            return NA_PLUGIN_ADDRNOTAVAIL;
        case EACCES:
            return NA_PLUGIN_ACCESS;
        default:
            return NA_PLUGIN_IO_ERROR;
        }
    }
    kit_location_format(&bound, na_class->name, sizeof(na_class->name));
    return NA_PLUGIN_SUCCESS;
}

static int32_t address_draw_name(struct na_plugin_class *na_class)
{
    struct kit_key random;

    if (kit_key_draw(&random) != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("no random numbers (%s)", strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
    (void) snprintf(na_class->name, sizeof(na_class->name), UCX_ORIGIN_PREFIX "%016llx%016llx",
                    (unsigned long long) random.word[0], (unsigned long long) random.word[1]);
    return NA_PLUGIN_SUCCESS;
}

/*
 * Finds the interface that has the address; empty if none has. UCX finds an interface only when its
 * carrier is up, which takes a moment after it was configured, so this waits for the carrier.
 */
static void address_interface(const struct sockaddr_storage *address, char *device, size_t size)
{
    for (int i = 0; i < ADDRESS_CARRIER_MS / ADDRESS_CARRIER_STEP_MS; i++) {
        if (address_interface_find(address, device, size))
            return;
        (void) usleep(ADDRESS_CARRIER_STEP_MS * 1000);
    }
}

/* False if the interface exists, but is not running yet. */
static bool address_interface_find(const struct sockaddr_storage *address, char *device,
                                   size_t size)
{
    struct ifaddrs *list;
    bool is_running = true;

    device[0] = '\0';
    if (getifaddrs(&list) != 0)
        return true;
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        if (entry->ifa_addr != NULL && address_is_equal(entry->ifa_addr, address)) {
            (void) snprintf(device, size, "%s", entry->ifa_name);
            is_running = (entry->ifa_flags & IFF_RUNNING) != 0;
            break;
        }
    }
    freeifaddrs(list);
    return is_running;
}

static bool address_is_equal(const struct sockaddr *a, const struct sockaddr_storage *b)
{
    if (a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *) (const void *) a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *) (const void *) b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *) (const void *) a)->sin6_addr,
                  &((const struct sockaddr_in6 *) (const void *) b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* Returns the part behind "://", or NULL if the protocol in front is not one of this plugin. */
static const char *address_of_string(const char *string)
{
    const char *separator = strstr(string, "://");
    char protocol[UCX_TLS_MAX], tls[UCX_TLS_MAX];
    size_t length;

    if (separator == NULL)
        return string;
    if (strncmp(string, UCX_PLUGIN_NAME "+", sizeof(UCX_PLUGIN_NAME)) == 0)
        string += sizeof(UCX_PLUGIN_NAME);
    length = (size_t) (separator - string);
    if (length >= sizeof(protocol))
        return NULL;
    memcpy(protocol, string, length);
    protocol[length] = '\0';
    return ucx_protocol_to_tls(protocol, tls) ? separator + 3 : NULL;
}
