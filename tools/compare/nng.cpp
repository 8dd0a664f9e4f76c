/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of nng: REQ and REP sockets with a context for each request in flight. Callbacks drive
 * the contexts, as in nng's demonstration of an asynchronous server. */

#include "compare.hpp"

#include <condition_variable>
#include <mutex>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

/* The number of requests that the target answers at a time. */
#define PARALLEL 128

static void check(int ret, const char *what)
{
    if (ret != 0)
        std::fprintf(stderr, "%s: ", nng_strerror(ret));
    compare_check(ret == 0, what);
}

struct work {
    nng_ctx context;
    nng_aio *aio;
    bool sending;
    uint64_t start;
    uint64_t reply;
};

/* State of the origin, which its callbacks share. They run in threads of nng. */
static std::mutex lock;
static std::condition_variable ended;
static compare_window *counted;
static uint64_t size_of_request;
static unsigned running;

static void work_open(work &work, nng_socket socket, void (*callback)(void *))
{
    check(nng_ctx_open(&work.context, socket), "nng_ctx_open");
    check(nng_aio_alloc(&work.aio, callback, &work), "nng_aio_alloc");
}

static void target_step(void *arg)
{
    work &work = *static_cast<struct work *>(arg);

    check(nng_aio_result(work.aio), "the target");
    work.sending = !work.sending;
    if (!work.sending) {
        nng_ctx_recv(work.context, work.aio);
        return;
    }
    nng_msg *message = nng_aio_get_msg(work.aio);
    check(nng_msg_chop(message, nng_msg_len(message) - work.reply), "nng_msg_chop");
    nng_ctx_send(work.context, work.aio);
}

static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    std::vector<work> works(PARALLEL);
    nng_socket socket;
    nng_listener listener;
    bool tcp = options.transport == "tcp";
    std::string url = tcp ? "tcp://127.0.0.1:0" : "abstract://compare-" + std::to_string(getpid());

    check(nng_rep0_open(&socket), "nng_rep0_open");
    check(nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0), "NNG_OPT_RECVMAXSZ");
    check(nng_listen(socket, url.c_str(), &listener, 0), "nng_listen");
    if (tcp) {
        nng_sockaddr address;

        check(nng_listener_get_addr(listener, NNG_OPT_LOCADDR, &address), "NNG_OPT_LOCADDR");
        url = "tcp://127.0.0.1:" + std::to_string(__builtin_bswap16(address.s_in.sa_port));
    }
    for (work &work : works) {
        work.reply = options.reply;
        work_open(work, socket, target_step);
        nng_ctx_recv(work.context, work.aio);
    }
    report(url);
    for (;;)
        std::this_thread::sleep_for(std::chrono::seconds(1));
}

static void origin_send(work &work)
{
    nng_msg *message;

    check(nng_msg_alloc(&message, size_of_request), "nng_msg_alloc");
    nng_aio_set_msg(work.aio, message);
    work.sending = true;
    work.start = compare_now();
    nng_ctx_send(work.context, work.aio);
}

static void origin_step(void *arg)
{
    work &work = *static_cast<struct work *>(arg);
    bool next;

    check(nng_aio_result(work.aio), "the origin");
    if (work.sending) {
        work.sending = false;
        nng_ctx_recv(work.context, work.aio);
        return;
    }
    uint64_t now = compare_now();
    nng_msg_free(nng_aio_get_msg(work.aio));
    {
        std::lock_guard<std::mutex> guard(lock);
        next = counted != nullptr && counted->complete(work.start, now);
        if (!next && --running == 0)
            ended.notify_one();
    }
    if (next)
        origin_send(work);
}

static void run_all(std::vector<work> &works)
{
    running = unsigned(works.size());
    for (work &work : works)
        origin_send(work);
    std::unique_lock<std::mutex> guard(lock);
    ended.wait(guard, [] { return running == 0; });
}

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    std::vector<work> works(options.clients * options.in_flight);

    size_of_request = options.size;
    for (unsigned i = 0; i < options.clients; i++) {
        nng_socket socket;

        check(nng_req0_open(&socket), "nng_req0_open");
        check(nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0), "NNG_OPT_RECVMAXSZ");
        check(nng_dial(socket, target.c_str(), nullptr, 0), "nng_dial");
        for (unsigned j = 0; j < options.in_flight; j++)
            work_open(works[i * options.in_flight + j], socket, origin_step);
    }
    run_all(works);
    window.open();
    counted = &window;
    run_all(works);
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"nng", nng_version(), serve, drive});
}
