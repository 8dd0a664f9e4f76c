/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measurements that hg_perf does not have. --transport is an init string:
 *     --mode raw, --mode xdr   round trips of an RPC with --size bytes of 64-bit integers each way,
 *                              encoded raw or as XDR; --pause is the time between them
 *     --mode pipeline          bulk pulls of 16 MiB in blocks of --size bytes, --in-flight of them
 *                              at a time
 */

#include "compare.hpp"

#include <mercury.h>

#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_ext.h>

#define PIPELINE_BYTES (hg_size_t(16) << 20)

MERCURY_GEN_PROC(pull_in_t, ((hg_bulk_t) (data)))
MERCURY_GEN_PROC(pull_out_t, ((int32_t) (ret)))

static void check(hg_return_t ret, const char *what)
{
    if (ret != HG_SUCCESS)
        std::fprintf(stderr, "%s: ", HG_Error_to_string(ret));
    compare_check(ret == HG_SUCCESS, what);
}

/* The integers of an RPC, each encoded separately. */
static hg_return_t proc_integers(hg_proc_t proc, void *data)
{
    hg_return_t ret = HG_SUCCESS;

    if (hg_proc_get_op(proc) == HG_FREE)
        return ret;
    for (uint64_t &integer : *static_cast<std::vector<uint64_t> *>(data)) {
        ret = hg_proc_uint64_t(proc, &integer);
        if (ret != HG_SUCCESS)
            break;
    }
    return ret;
}

/* An endpoint with its context and RPCs. */
struct endpoint {
    endpoint(const compare_options &given, bool listen, hg_rpc_cb_t echo, hg_rpc_cb_t pull)
        : options(given), integers(given.size / 8)
    {
        hg_init_info info = HG_INIT_INFO_INITIALIZER;

        info.na_init_info.progress_mode = options.busy ? NA_NO_BLOCK : 0;
        info.na_init_info.thread_mode = NA_THREAD_MODE_SINGLE;
        hg_class = HG_Init_opt(options.transport.c_str(), listen, &info);
        compare_check(hg_class != nullptr, "HG_Init_opt");
        if (options.mode == "xdr")
            check(hg_proc_class_set_encoding(hg_class, HG_PROC_ENCODING_PORTABLE), "the encoding");
        context = HG_Context_create(hg_class);
        echo_id = HG_Register_name(hg_class, "echo", proc_integers, proc_integers, echo);
        pull_id = MERCURY_REGISTER(hg_class, "pull", pull_in_t, pull_out_t, pull);
        check(HG_Class_set_data(hg_class, this, nullptr), "HG_Class_set_data");
    }

    ~endpoint()
    {
        (void) HG_Bulk_free(local);
        (void) HG_Context_destroy(context);
        (void) HG_Finalize(hg_class);
    }

    void progress()
    {
        unsigned int count;

        hg_return_t ret = HG_Progress(context, options.busy ? 0 : 100);
        compare_check(ret == HG_SUCCESS || ret == HG_TIMEOUT, "HG_Progress");
        while (HG_Trigger(context, 0, 1, &count) == HG_SUCCESS && count > 0)
            ;
    }

    compare_options options;
    std::vector<uint64_t> integers;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_id_t echo_id, pull_id;
    std::vector<char> memory; /* of the target: room for one block of each concurrent transfer */
    hg_bulk_t local = HG_BULK_NULL;
};

static endpoint &endpoint_of(hg_handle_t handle)
{
    return *static_cast<endpoint *>(HG_Class_get_data(HG_Get_info(handle)->hg_class));
}

static hg_return_t echo(hg_handle_t handle)
{
    std::vector<uint64_t> &integers = endpoint_of(handle).integers;

    check(HG_Get_input(handle, &integers), "HG_Get_input");
    check(HG_Respond(handle, nullptr, nullptr, &integers), "HG_Respond");
    (void) HG_Free_input(handle, &integers);
    return HG_Destroy(handle);
}

/* A pull in blocks. */
struct pull {
    hg_handle_t handle;
    pull_in_t in;
    hg_size_t next = 0; /* offset of the next block */
    unsigned running = 0;
};

struct block {
    struct pull *pull;
    hg_size_t place;
};

static hg_return_t block_done(const hg_cb_info *info);

static void block_start(block *block)
{
    pull *pull = block->pull;
    endpoint &own = endpoint_of(pull->handle);
    hg_size_t size = std::min<hg_size_t>(own.options.size, PIPELINE_BYTES - pull->next);

    check(HG_Bulk_transfer(own.context, block_done, block, HG_BULK_PULL,
                           HG_Get_info(pull->handle)->addr, pull->in.data, pull->next, own.local,
                           block->place, size, HG_OP_ID_IGNORE),
          "HG_Bulk_transfer");
    pull->next += size;
    pull->running++;
}

static hg_return_t block_done(const hg_cb_info *info)
{
    auto *block = static_cast<struct block *>(info->arg);
    pull *pull = block->pull;

    check(info->ret, "a transfer");
    pull->running--;
    if (pull->next < PIPELINE_BYTES) {
        block_start(block);
        return HG_SUCCESS;
    }
    delete block;
    if (pull->running == 0) {
        pull_out_t out{HG_SUCCESS};

        check(HG_Respond(pull->handle, nullptr, nullptr, &out), "HG_Respond");
        (void) HG_Free_input(pull->handle, &pull->in);
        (void) HG_Destroy(pull->handle);
        delete pull;
    }
    return HG_SUCCESS;
}

static hg_return_t pull_blocks(hg_handle_t handle)
{
    endpoint &own = endpoint_of(handle);
    auto *pull = new struct pull;

    pull->handle = handle;
    check(HG_Get_input(handle, &pull->in), "HG_Get_input");
    for (unsigned i = 0; i < own.options.in_flight && pull->next < PIPELINE_BYTES; i++)
        block_start(new block{pull, i * own.options.size});
    return HG_SUCCESS;
}

/* The target ends by itself at SIGTERM, because a killed process leaves files of na+sm behind. */
static volatile std::sig_atomic_t stopped;

static void stop(int)
{
    stopped = 1;
}

static void serve(const compare_options &options,
                  const std::function<void(const std::string &)> &report)
{
    endpoint own(options, true, echo, pull_blocks);
    char text[1024];
    hg_size_t size = sizeof(text);
    hg_addr_t self;

    if (options.mode == "pipeline") {
        own.memory.assign(options.in_flight * options.size, 1);
        hg_size_t bytes = own.memory.size();
        void *memory = own.memory.data();
        check(HG_Bulk_create(own.hg_class, 1, &memory, &bytes, HG_BULK_WRITE_ONLY, &own.local),
              "HG_Bulk_create");
    }
    check(HG_Addr_self(own.hg_class, &self), "HG_Addr_self");
    check(HG_Addr_to_string(own.hg_class, text, &size, self), "HG_Addr_to_string");
    (void) HG_Addr_free(own.hg_class, self);
    (void) std::signal(SIGTERM, stop);
    report(text);
    while (stopped == 0)
        own.progress();
}

static hg_return_t answered(const hg_cb_info *info)
{
    check(info->ret, "an RPC");
    *static_cast<bool *>(info->arg) = true;
    return HG_SUCCESS;
}

/* One request at a time; --in-flight is the number of blocks that the target pulls at a time. */
static void drive(const compare_options &options, const std::string &target, compare_window &window)
{
    endpoint own(options, false, nullptr, nullptr);
    bool pipeline = options.mode == "pipeline";
    std::vector<char> memory(pipeline ? PIPELINE_BYTES : 1, 'x');
    hg_size_t size = memory.size();
    void *pointer = memory.data();
    hg_addr_t address;
    hg_handle_t handle;
    pull_in_t in;

    check(HG_Addr_lookup2(own.hg_class, target.c_str(), &address), "HG_Addr_lookup2");
    check(HG_Create(own.context, address, pipeline ? own.pull_id : own.echo_id, &handle),
          "HG_Create");
    check(HG_Bulk_create(own.hg_class, 1, &pointer, &size, HG_BULK_READ_ONLY, &in.data),
          "HG_Bulk_create");
    auto call = [&] {
        bool done = false;
        uint64_t start = compare_now();

        check(HG_Forward(handle, answered, &done,
                         pipeline ? static_cast<void *>(&in) : static_cast<void *>(&own.integers)),
              "HG_Forward");
        while (!done)
            own.progress();
        if (!pipeline) {
            check(HG_Get_output(handle, &own.integers), "HG_Get_output");
            (void) HG_Free_output(handle, &own.integers);
        }
        return window.complete(start, compare_now());
    };
    (void) call();
    window.open();
    while (call())
        ;
    (void) HG_Bulk_free(in.data);
    (void) HG_Destroy(handle);
    (void) HG_Addr_free(own.hg_class, address);
}

int main(int argc, char **argv)
{
    return compare_main(argc, argv, {"amalgam", "", serve, drive});
}
