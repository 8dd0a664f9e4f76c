/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of ZeroMQ: a ROUTER socket answers DEALER sockets, as ZeroMQ's guide suggests for
 * several requests in flight. */

#include "compare.hpp"

#include <zmq.h>

static std::string version()
{
    int major, minor, patch;

    zmq_version(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

/* The first frame of a message identifies the client, the second is the request. */
static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
    const char *any = options.transport == "tcp" ? "tcp://127.0.0.1:*" : "ipc://@compare-*";
    char address[256];
    size_t size = sizeof(address);
    std::string own = any;

    if (options.transport != "tcp")
        own = "ipc://@compare-" + std::to_string(getpid());
    compare_check(zmq_bind(socket, own.c_str()) == 0, "zmq_bind");
    compare_check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &size) == 0, "zmq_getsockopt");
    report(address);
    for (;;) {
        zmq_msg_t name, body;

        (void) zmq_msg_init(&name);
        (void) zmq_msg_init(&body);
        compare_check(zmq_msg_recv(&name, socket, 0) >= 0 && zmq_msg_recv(&body, socket, 0) >= 0,
                      "zmq_msg_recv");
        (void) zmq_msg_send(&name, socket, ZMQ_SNDMORE);
        if (options.reply == options.size) {
            (void) zmq_msg_send(&body, socket, 0);
        } else {
            (void) zmq_send(socket, zmq_msg_data(&body), options.reply, 0);
            (void) zmq_msg_close(&body);
        }
    }
}

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    void *context = zmq_ctx_new();
    std::vector<char> out(options.size);
    std::vector<zmq_pollitem_t> items;
    std::vector<std::vector<uint64_t>> starts(options.clients); /* answers arrive in order */
    unsigned running = 0;

    auto start = [&](size_t client) {
        starts[client].push_back(compare_now());
        compare_check(zmq_send(items[client].socket, out.data(), out.size(), 0) >= 0, "zmq_send");
        running++;
    };
    auto receive = [&](size_t client, int flags) {
        zmq_msg_t body;

        (void) zmq_msg_init(&body);
        if (zmq_msg_recv(&body, items[client].socket, flags) < 0)
            return false;
        compare_check(zmq_msg_size(&body) == options.reply, "the size of the answer");
        (void) zmq_msg_close(&body);
        running--;
        uint64_t begun = starts[client].front();
        starts[client].erase(starts[client].begin());
        if (window.complete(begun, compare_now()))
            start(client);
        return true;
    };
    for (size_t i = 0; i < options.clients; i++) {
        items.push_back({zmq_socket(context, ZMQ_DEALER), 0, ZMQ_POLLIN, 0});
        compare_check(items[i].socket != nullptr &&
                          zmq_connect(items[i].socket, target.c_str()) == 0,
                      "zmq_connect");
        start(i);
        compare_check(receive(i, 0), "zmq_msg_recv");
    }
    window.open();
    for (size_t i = 0; i < options.clients * options.in_flight; i++)
        start(i % options.clients);
    while (running > 0) {
        if (options.clients == 1) {
            compare_check(receive(0, 0), "zmq_msg_recv");
            continue;
        }
        compare_check(zmq_poll(items.data(), int(items.size()), -1) >= 0, "zmq_poll");
        for (size_t i = 0; i < items.size(); i++) {
            if ((items[i].revents & ZMQ_POLLIN) != 0)
                (void) receive(i, ZMQ_DONTWAIT);
        }
    }
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"zeromq", version(), serve, drive});
}
