// SPDX-License-Identifier: BSD-3-Clause
// C++: objects that free themselves, in the right order, also when something throws.
//     raii --listen na+sm
//     raii ADDRESS
#include <mercury.h>
#include <mercury_macros.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

MERCURY_GEN_PROC(square_in_t, ((int32_t) (value)))
MERCURY_GEN_PROC(square_out_t, ((int64_t) (value)))

namespace
{
volatile std::sig_atomic_t stopped;

void check(hg_return_t ret, const char *what)
{
    if (ret != HG_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + HG_Error_to_string(ret));
}

// A class with a context. Members are destroyed in reverse order: the context before its class.
struct Endpoint {
    std::unique_ptr<hg_class_t, hg_return_t (*)(hg_class_t *)> hg_class;
    std::unique_ptr<hg_context_t, hg_return_t (*)(hg_context_t *)> context;

    Endpoint(const std::string &init, bool listen)
        : hg_class(HG_Init(init.c_str(), listen), &HG_Finalize),
          context(hg_class ? HG_Context_create(hg_class.get()) : nullptr, &HG_Context_destroy)
    {
        if (!context)
            throw std::runtime_error("cannot open " + init);
    }

    void progress() const
    {
        unsigned int count = 1;
        hg_return_t ret = HG_Progress(context.get(), 100);
        if (ret != HG_TIMEOUT)
            check(ret, "HG_Progress");
        while (count > 0)
            HG_Trigger(context.get(), 0, 16, &count);
    }
};

// Any other object is a unique_ptr with a deleter.
struct Free {
    hg_class_t *hg_class;

    void operator()(hg_addr_t addr) const
    {
        HG_Addr_free(hg_class, addr);
    }
    void operator()(hg_handle_t handle) const
    {
        HG_Destroy(handle);
    }
};
using Address = std::unique_ptr<hg_addr, Free>;
using Handle = std::unique_ptr<hg_handle, Free>;

std::string self(const Endpoint &endpoint)
{
    char text[512];
    hg_size_t size = sizeof(text);
    hg_addr_t addr;
    check(HG_Addr_self(endpoint.hg_class.get(), &addr), "HG_Addr_self");
    const Address owner(addr, Free{endpoint.hg_class.get()});
    check(HG_Addr_to_string(endpoint.hg_class.get(), text, &size, addr), "HG_Addr_to_string");
    return text;
}

// The result of a call, owned by its handle, which the library keeps until the callback has run.
struct Call {
    bool done = false;
    hg_return_t ret = HG_SUCCESS;
};

hg_return_t called(const hg_cb_info *info)
{
    auto *call = static_cast<Call *>(HG_Get_data(info->info.forward.handle));
    call->ret = info->ret;
    call->done = true;
    return HG_SUCCESS;
}

int64_t call_square(const Endpoint &endpoint, const std::string &name, hg_id_t id, int32_t value)
{
    square_in_t in = {value};
    square_out_t out;
    hg_addr_t addr;
    hg_handle_t created;
    check(HG_Addr_lookup2(endpoint.hg_class.get(), name.c_str(), &addr), "HG_Addr_lookup2");
    const Address target(addr, Free{endpoint.hg_class.get()});
    check(HG_Create(endpoint.context.get(), addr, id, &created), "HG_Create");
    const Handle handle(created, Free{endpoint.hg_class.get()});
    auto *call = new Call;
    check(HG_Set_data(created, call, [](void *data) { delete static_cast<Call *>(data); }),
          "HG_Set_data");
    check(HG_Forward(created, called, nullptr, &in), "HG_Forward");
    while (!call->done)
        endpoint.progress();
    check(call->ret, "the RPC");
    check(HG_Get_output(created, &out), "HG_Get_output");
    check(HG_Free_output(created, &out), "HG_Free_output"); // numbers stay
    return out.value;
}

// No exception may leave a handler: it is called by C.
hg_return_t square(hg_handle_t handle)
{
    square_in_t in;
    square_out_t out = {0};

    if (HG_Get_input(handle, &in) == HG_SUCCESS) {
        out.value = static_cast<int64_t>(in.value) * in.value;
        HG_Free_input(handle, &in);
    }
    if (HG_Respond(handle, nullptr, nullptr, &out) != HG_SUCCESS)
        HG_Destroy(handle);
    return HG_Destroy(handle);
}
} // namespace

int main(int argc, char **argv)
try {
    const bool listen = argc > 2;
    const std::string name = argc > 1 ? argv[argc - 1] : "";
    const Endpoint endpoint(listen ? name : name.substr(0, name.find(':')), listen);
    const hg_id_t id =
        MERCURY_REGISTER(endpoint.hg_class.get(), "square", square_in_t, square_out_t, square);

    if (listen) {
        std::signal(SIGTERM, [](int) { stopped = 1; });
        std::cout << self(endpoint) << std::endl;
        while (!stopped)
            endpoint.progress();
    } else {
        std::cout << "7 * 7 = " << call_square(endpoint, name, id, 7) << "\n";
    }
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
