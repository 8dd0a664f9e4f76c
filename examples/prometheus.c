/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint for Prometheus in the service's own event loop: one poll() waits for RPCs, on the
 * descriptor of the context, and for HTTP requests for the counters. prometheus --listen na+sm
 * [PORT]    prints its address and http://127.0.0.1:PORT/metrics prometheus ADDRESS
 * calls it ten times */
#include "example.h"

#include <arpa/inet.h>
#include <mercury_ext.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static hg_return_t ping(hg_handle_t handle)
{
    return example_answer(handle, NULL);
}

static int listen_at(in_port_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *) &name, size) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *) &name, &size) != 0) {
        perror("metrics");
        exit(EXIT_FAILURE);
    }
    printf("http://127.0.0.1:%u/metrics\n", (unsigned int) ntohs(name.sin_port));
    return fd;
}

/* Reads up to the empty line that ends a request; gives a client one second. */
static bool read_request(int fd)
{
    char request[2048] = "";
    size_t used = 0;
    ssize_t got;

    while (strstr(request, "\r\n\r\n") == NULL) {
        got = recv(fd, request + used, sizeof(request) - 1 - used, 0);
        if (got <= 0)
            return false;
        used += (size_t) got;
        request[used] = '\0';
    }
    return true;
}

/* Answers one request, whatever its path, and closes the connection. */
static void answer_http(int listener, const hg_class_t *hg_class)
{
    struct timeval second = {.tv_sec = 1};
    static char text[65536];
    hg_size_t size = sizeof(text);
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
    if (read_request(fd) &&
        HG_Class_get_prometheus(hg_class, "example", text, &size) == HG_SUCCESS) {
        dprintf(fd,
                "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                "Content-Length: %zu\r\n\r\n%s",
                strlen(text), text);
    }
    close(fd);
}

/* HG_Event_ready() arms the descriptor, so it is called before each wait. */
static void serve(const struct example *example, in_port_t port)
{
    struct pollfd fds[2] = {{.fd = listen_at(port), .events = POLLIN},
                            {.fd = HG_Event_get_wait_fd(example->context), .events = POLLIN}};

    signal(SIGPIPE, SIG_IGN);
    example_print_address(example);
    while (!example_stopped) {
        int wait_ms = HG_Event_ready(example->context) ? 0 : 100;
        bool is_any = poll(fds, 2, wait_ms) > 0;
        unsigned int due = 0;

        CHECK(HG_Event_progress(example->context, &due));
        if (due > 0)
            CHECK(HG_Event_trigger(example->context, due, NULL));
        if (is_any && fds[0].revents != 0)
            answer_http(fds[0].fd, example->hg_class);
    }
    close(fds[0].fd);
}

static void call(const struct example *example, const char *address, hg_id_t id)
{
    hg_addr_t target;
    hg_handle_t handle;

    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    CHECK(HG_Create(example->context, target, id, &handle));
    for (int i = 0; i < 10; i++)
        CHECK(example_call(example->context, handle, NULL));
    CHECK(HG_Destroy(handle));
    CHECK(HG_Addr_free(example->hg_class, target));
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id = MERCURY_REGISTER(example.hg_class, "ping", void, void, ping);

    if (is_target)
        serve(&example, (in_port_t) (argc > 3 ? atoi(argv[3]) : 0));
    else
        call(&example, argv[1], id);
    example_close(&example);
    return 0;
}
