/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of UCX: tagged messages of UCP between two workers. UCX_TLS selects the transports. A
 * busy process only calls ucp_worker_progress(); a process that is not busy arms its worker and
 * sleeps until the worker's descriptor is readable. */

#include "compare.hpp"

#include <poll.h>
#include <ucp/api/ucp.h>

enum : ucp_tag_t {
    TAG_ADDRESS = 1,
    TAG_REQUEST,
    TAG_REPLY
};

static void check(ucs_status_t status, const char *what)
{
    compare_check(status == UCS_OK, what);
}

class Worker
{
  public:
    explicit Worker(bool busy) : busy_(busy)
    {
        ucp_params_t params{};
        ucp_worker_params_t worker_params{};
        ucp_config_t *config;

        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_TAG | (busy ? 0 : UCP_FEATURE_WAKEUP);
        worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
        check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        check(ucp_init(&params, config, &context_), "ucp_init");
        ucp_config_release(config);
        check(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
        if (!busy)
            check(ucp_worker_get_efd(worker_, &fd_), "ucp_worker_get_efd");
    }

    std::string address()
    {
        ucp_address_t *address;
        size_t size;

        check(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
        std::string text(reinterpret_cast<char *>(address), size);
        ucp_worker_release_address(worker_, address);
        return text;
    }

    void connect(const std::string &address)
    {
        ucp_ep_params_t params{};

        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t *>(address.data());
        check(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
    }

    /* Returns the request, or NULL if the send is already complete. */
    ucs_status_ptr_t send(const void *bytes, size_t size, ucp_tag_t tag)
    {
        ucp_request_param_t param{};

        return valid(ucp_tag_send_nbx(endpoint_, bytes, size, tag, &param));
    }

    ucs_status_ptr_t receive(void *bytes, size_t size, ucp_tag_t tag)
    {
        ucp_request_param_t param{};

        return valid(ucp_tag_recv_nbx(worker_, bytes, size, tag, UINT64_MAX, &param));
    }

    void wait(ucs_status_ptr_t request)
    {
        if (request == nullptr)
            return;
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            if (ucp_worker_progress(worker_) == 0 && !busy_)
                sleep();
        }
        ucp_request_free(request);
    }

  private:
    static ucs_status_ptr_t valid(ucs_status_ptr_t request)
    {
        compare_check(!UCS_PTR_IS_ERR(request), "a message");
        return request;
    }

    /* Sleeps until the worker has events. UCS_ERR_BUSY: the worker has some already. */
    void sleep()
    {
        ucs_status_t status = ucp_worker_arm(worker_);
        pollfd event{fd_, POLLIN, 0};

        if (status == UCS_ERR_BUSY)
            return;
        check(status, "ucp_worker_arm");
        (void) poll(&event, 1, -1);
    }

    bool busy_;
    int fd_ = -1;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
};

/* The first message is the origin's worker address. Requests arrive in order, so serve() waits for
 * the slots in turn. */
static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    Worker worker(options.busy);
    std::vector<std::vector<char>> buffers(options.in_flight, std::vector<char>(options.size));
    std::vector<ucs_status_ptr_t> requests(options.in_flight);
    std::string origin(8192, '\0');

    report(worker.address());
    worker.wait(worker.receive(origin.data(), origin.size(), TAG_ADDRESS));
    worker.connect(origin);
    for (size_t i = 0; i < requests.size(); i++)
        requests[i] = worker.receive(buffers[i].data(), options.size, TAG_REQUEST);
    for (size_t i = 0;; i = (i + 1) % requests.size()) {
        worker.wait(requests[i]);
        worker.wait(worker.send(buffers[i].data(), options.reply, TAG_REPLY));
        requests[i] = worker.receive(buffers[i].data(), options.size, TAG_REQUEST);
    }
}

static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    struct slot {
        std::vector<char> out, in;
        ucs_status_ptr_t sent, received;
        uint64_t start;
    };
    Worker worker(options.busy);
    std::vector<slot> slots(options.in_flight);
    std::string own = worker.address();
    unsigned running = 0;

    auto start = [&](slot &slot) {
        slot.start = compare_now();
        slot.received = worker.receive(slot.in.data(), options.reply, TAG_REPLY);
        slot.sent = worker.send(slot.out.data(), options.size, TAG_REQUEST);
        running++;
    };
    auto finish = [&](slot &slot) {
        worker.wait(slot.received);
        worker.wait(slot.sent);
        running--;
        return window.complete(slot.start, compare_now());
    };
    worker.connect(target);
    worker.wait(worker.send(own.data(), own.size(), TAG_ADDRESS));
    for (slot &slot : slots) {
        slot.out.resize(options.size);
        slot.in.resize(options.reply);
    }
    start(slots[0]);
    (void) finish(slots[0]);
    window.open();
    for (slot &slot : slots)
        start(slot);
    for (size_t i = 0; running > 0; i = (i + 1) % slots.size()) {
        if (finish(slots[i]))
            start(slots[i]);
    }
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"ucx", ucp_get_version_string(), serve, drive});
}
