/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets and epoll without a library. The transport "tcp" is TCP, "ipc" is Unix sockets. */

#include "compare.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

struct address {
    union {
        sockaddr any;
        sockaddr_in tcp;
        sockaddr_un ipc;
    };
    socklen_t size;
};

/* Unix sockets have abstract names, so that they leave no files behind. */
static address address_of(const compare_options &options, const std::string &name)
{
    address address{};

    if (options.transport == "tcp") {
        address.tcp.sin_family = AF_INET;
        address.tcp.sin_port = htons(uint16_t(std::stoi(name)));
        address.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.size = sizeof(address.tcp);
    } else {
        address.ipc.sun_family = AF_UNIX;
        std::snprintf(address.ipc.sun_path + 1, sizeof(address.ipc.sun_path) - 1, "%s",
                      name.c_str());
        address.size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    return address;
}

static void set_no_delay(const compare_options &options, int fd)
{
    int one = 1;

    if (options.transport == "tcp")
        compare_check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "no delay");
}

static void send_all(int fd, const char *bytes, uint64_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

        compare_check(sent > 0, "send");
        bytes += sent;
        size -= uint64_t(sent);
    }
}

static void receive_all(int fd, char *bytes, uint64_t size)
{
    compare_check(recv(fd, bytes, size, MSG_WAITALL) == ssize_t(size), "recv");
}

static void watch(int epoll, int fd, uint32_t index)
{
    epoll_event event{};

    event.events = EPOLLIN;
    event.data.u32 = index;
    compare_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    std::string name = options.transport == "tcp" ? "0" : "compare-" + std::to_string(getpid());
    address own = address_of(options, name);
    int epoll = epoll_create1(0), listener = socket(own.any.sa_family, SOCK_STREAM, 0);
    std::vector<char> buffer(std::max(options.size, options.reply));
    epoll_event events[64];

    compare_check(bind(listener, &own.any, own.size) == 0 && listen(listener, 1024) == 0 &&
                      getsockname(listener, &own.any, &own.size) == 0,
                  "listen");
    report(options.transport == "tcp" ? std::to_string(ntohs(own.tcp.sin_port)) : name);
    watch(epoll, listener, uint32_t(listener));
    for (;;) {
        int count = epoll_wait(epoll, events, 64, options.busy ? 0 : -1);

        for (int i = 0; i < count; i++) {
            int fd = int(events[i].data.u32);

            if (fd == listener) {
                fd = accept(listener, nullptr, nullptr);
                set_no_delay(options, fd);
                watch(epoll, fd, uint32_t(fd));
            } else if (recv(fd, buffer.data(), 1, MSG_PEEK) <= 0) {
                (void) close(fd);
            } else {
                receive_all(fd, buffer.data(), options.size);
                send_all(fd, buffer.data(), options.reply);
            }
        }
    }
}

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    std::vector<char> out(options.size), in(options.reply);
    std::vector<int> fds;
    std::vector<std::vector<uint64_t>> starts(options.clients); /* answers arrive in order */
    int epoll = epoll_create1(0);
    unsigned running = 0;

    auto start = [&](uint32_t client) {
        starts[client].push_back(compare_now());
        send_all(fds[client], out.data(), out.size());
        running++;
    };
    for (uint32_t i = 0; i < options.clients; i++) {
        address address = address_of(options, target);
        int fd = socket(address.any.sa_family, SOCK_STREAM, 0);

        compare_check(connect(fd, &address.any, address.size) == 0, "connect");
        set_no_delay(options, fd);
        send_all(fd, out.data(), out.size());
        receive_all(fd, in.data(), in.size());
        watch(epoll, fd, i);
        fds.push_back(fd);
    }
    window.open();
    for (uint32_t i = 0; i < options.clients * options.in_flight; i++)
        start(i % options.clients);
    while (running > 0) {
        epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, options.busy ? 0 : -1);

        for (int i = 0; i < count; i++) {
            uint32_t client = events[i].data.u32;

            receive_all(fds[client], in.data(), in.size());
            running--;
            uint64_t begun = starts[client].front();
            starts[client].erase(starts[client].begin());
            if (window.complete(begun, compare_now()))
                start(client);
        }
    }
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"sockets", "", serve, drive});
}
