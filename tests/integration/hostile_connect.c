/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redirects the connections of a process to the proxy: the program defines connect(), which also
 * the libraries of the fabrics resolve instead of the C library's. The original port is sent to the
 * proxy first.
 */
#define _GNU_SOURCE /* syscall */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint16_t proxy_port;
static uint8_t own_number;

void hostile_lead(uint16_t port, uint32_t number)
{
    proxy_port = port;
    own_number = (uint8_t) number;
}

static int connect_to(int fd, const struct sockaddr *address, socklen_t size)
{
    return (int) syscall(SYS_connect, fd, address, size);
}

static bool is_tcp(int fd, const struct sockaddr *address)
{
    int type = 0;
    socklen_t size = sizeof(type);

    return address->sa_family == AF_INET &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Connects to the proxy and sends the destination port first. This blocks; a non-blocking socket
 * gets EINPROGRESS and finds the established connection when it polls. */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *address,
                                                   socklen_t size)
{
    struct sockaddr_in proxy = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in to;
    uint8_t said[HOSTILE_SAID];
    int flags, ret;

    if (proxy_port == 0 || !is_tcp(fd, address))
        return connect_to(fd, address, size);
    memcpy(&to, address, sizeof(to));
    proxy.sin_port = htons(proxy_port);
    flags = fcntl(fd, F_GETFL);
    (void) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    memcpy(said, &to.sin_port, sizeof(to.sin_port));
    said[sizeof(to.sin_port)] = own_number;
    ret = connect_to(fd, (const struct sockaddr *) &proxy, sizeof(proxy));
    if (ret == 0 && send(fd, said, sizeof(said), MSG_NOSIGNAL) != (ssize_t) sizeof(said))
        ret = -1;
    (void) fcntl(fd, F_SETFL, flags);
    if (ret == 0 && (flags & O_NONBLOCK) != 0) {
        errno = EINPROGRESS;
        ret = -1;
    }
    return ret;
}
