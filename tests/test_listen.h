/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket that listens at a free port of the loopback interface. */

#ifndef TEST_LISTEN_H
#define TEST_LISTEN_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

/* Returns the descriptor of the socket, which does not block, and writes host:port into name. */
static inline int test_listen(char *name, size_t size, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *) &address, length), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &address, &length), 0);
    (void) snprintf(name, size, "127.0.0.1:%u", (unsigned int) ntohs(address.sin_port));
    return fd;
}

#endif /* TEST_LISTEN_H */
