/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs of Cap'n Proto with EzRpcServer and EzRpcClient, the interface that its documentation shows
 * first. */

#include "compare.hpp"

#include <capnp/ez-rpc.h>
#include <kj/debug.h>
#include <unistd.h>

#include "echo.capnp.h"

class EchoServer final : public Echo::Server
{
  public:
    explicit EchoServer(uint64_t reply) : reply_(reply)
    {
    }

    kj::Promise<void> call(CallContext context) override
    {
        auto data = context.getParams().getData();

        context.getResults().setData(data.slice(0, reply_));
        return kj::READY_NOW;
    }

  private:
    uint64_t reply_;
};

static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    bool tcp = options.transport == "tcp";
    std::string name = "unix-abstract:compare-" + std::to_string(getpid());
    capnp::EzRpcServer server(kj::heap<EchoServer>(options.reply),
                              tcp ? "127.0.0.1" : name.c_str());
    auto &scope = server.getWaitScope();
    unsigned port = server.getPort().wait(scope);

    report(tcp ? "127.0.0.1:" + std::to_string(port) : name);
    while (options.busy)
        scope.poll();
    kj::NEVER_DONE.wait(scope);
}

/* The clients of an origin process; all run in one event loop. */
class Origin final : public kj::TaskSet::ErrorHandler
{
  public:
    Origin(const compare_options &options, const std::string &target, compare_window &window)
        : options_(options), data_(options.size), window_(window), tasks_(*this)
    {
        for (unsigned i = 0; i < options.clients; i++) {
            clients_.push_back(kj::heap<capnp::EzRpcClient>(target.c_str()));
            echoes_.push_back(clients_.back()->getMain<Echo>());
            start(i);
            run();
        }
    }

    void measure()
    {
        window_.open();
        for (unsigned i = 0; i < options_.clients * options_.in_flight; i++)
            start(i % options_.clients);
        run();
    }

  private:
    void start(unsigned client)
    {
        uint64_t begin = compare_now();
        auto request = echoes_[client].callRequest();

        request.setData(kj::arrayPtr(data_.data(), data_.size()));
        running_++;
        tasks_.add(request.send().then([this, client, begin](auto response) {
            compare_check(response.getData().size() == options_.reply, "the size of the answer");
            running_--;
            if (window_.complete(begin, compare_now()))
                start(client);
        }));
    }

    void run()
    {
        auto &scope = clients_[0]->getWaitScope();

        if (!options_.busy)
            tasks_.onEmpty().wait(scope);
        while (running_ > 0)
            scope.poll();
    }

    void taskFailed(kj::Exception &&exception) override
    {
        compare_check(false, exception.getDescription().cStr());
    }

    const compare_options &options_;
    std::vector<kj::byte> data_;
    compare_window &window_;
    std::vector<kj::Own<capnp::EzRpcClient>> clients_;
    std::vector<Echo::Client> echoes_;
    unsigned running_ = 0;
    kj::TaskSet tasks_;
};

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    Origin origin(options, target, window);

    origin.measure();
    window.close();
    std::_Exit(0); /* the shutdown of a thousand connections is not measured */
}

int main(int argc, char **argv)
{
    std::string version = std::to_string(CAPNP_VERSION_MAJOR) + "." +
                          std::to_string(CAPNP_VERSION_MINOR) + "." +
                          std::to_string(CAPNP_VERSION_MICRO);

    return compare_main(argc, argv, {"capnp", version, serve, drive});
}
