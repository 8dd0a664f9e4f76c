/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs of gRPC: its asynchronous interface, with a completion queue and one thread on both sides,
 * as in its tutorial. */

#include "compare.hpp"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "echo.grpc.pb.h"

using compare::Echo;
using compare::Payload;

/* Returns the next tag of the queue, or NULL if its operation failed. A busy thread polls instead
 * of sleeping. */
static void *next_tag(grpc::CompletionQueue &queue, bool busy)
{
    gpr_timespec past = gpr_time_0(GPR_CLOCK_MONOTONIC);
    void *tag = nullptr;
    bool good = false;

    if (busy) {
        while (queue.AsyncNext(&tag, &good, past) == grpc::CompletionQueue::TIMEOUT)
            ;
    } else {
        compare_check(queue.Next(&tag, &good), "the queue has ended");
    }
    return good ? tag : nullptr;
}

/* A call at the target, which waits for it or answers it. */
struct served {
    grpc::ServerContext context;
    Payload in, out;
    grpc::ServerAsyncResponseWriter<Payload> writer{&context};
    bool answered = false;
};

static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    Echo::AsyncService service;
    grpc::ServerBuilder builder;
    std::string address = "127.0.0.1:0";
    int port = 0;

    if (options.transport != "tcp")
        address = "unix-abstract:compare-" + std::to_string(getpid());
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    builder.SetMaxReceiveMessageSize(-1);
    auto queue = builder.AddCompletionQueue();
    auto server = builder.BuildAndStart();
    compare_check(server != nullptr, "no server");

    auto wait_for_call = [&] {
        auto *call = new served;
        service.RequestCall(&call->context, &call->in, &call->writer, queue.get(), queue.get(),
                            call);
    };
    wait_for_call();
    report(options.transport == "tcp" ? "127.0.0.1:" + std::to_string(port) : address);
    for (;;) {
        auto *call = static_cast<served *>(next_tag(*queue, options.busy));

        if (call == nullptr)
            continue;
        if (call->answered) {
            delete call;
            continue;
        }
        wait_for_call();
        if (options.reply == options.size)
            call->out.mutable_data()->swap(*call->in.mutable_data());
        else
            call->out.set_data(call->in.data().data(), options.reply);
        call->answered = true;
        call->writer.Finish(call->out, grpc::Status::OK, call);
    }
}

/* A call at the origin. */
struct sent {
    size_t client;
    uint64_t start;
    grpc::ClientContext context;
    grpc::Status status;
    Payload out;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Payload>> reader;
};

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    std::vector<std::unique_ptr<Echo::Stub>> stubs;
    grpc::CompletionQueue queue;
    Payload in;
    unsigned running = 0;

    in.set_data(std::string(options.size, 'x'));
    auto start = [&](size_t client) {
        auto *call = new sent;
        call->client = client;
        call->start = compare_now();
        call->context.set_wait_for_ready(true);
        call->reader = stubs[client]->AsyncCall(&call->context, in, &queue);
        call->reader->Finish(&call->out, &call->status, call);
        running++;
    };
    auto finish = [&] {
        std::unique_ptr<sent> call(static_cast<sent *>(next_tag(queue, options.busy)));
        uint64_t now = compare_now();
        compare_check(call != nullptr && call->status.ok() &&
                          call->out.data().size() == options.reply,
                      call == nullptr ? "no call" : call->status.error_message().c_str());
        running--;
        if (window.complete(call->start, now))
            start(call->client);
    };
    /* Each channel has its own connection. */
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    for (size_t i = 0; i < options.clients; i++) {
        stubs.push_back(Echo::NewStub(
            grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments)));
        start(i);
    }
    while (running > 0)
        finish();
    window.open();
    for (size_t i = 0; i < options.clients * options.in_flight; i++)
        start(i % options.clients);
    while (running > 0)
        finish();
    std::fflush(nullptr);
    window.close();
    std::_Exit(0); /* the shutdown of a thousand channels is not measured */
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"grpc", grpc::Version(), serve, drive});
}
